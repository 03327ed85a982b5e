"""Stand-ins for tests of the loop: a referee that looks verdicts up, a team that follows a script.

Nothing here measures anything; no command of the project uses it.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from kernelwright.agents.problem import Problem
from kernelwright.agents.roles import Analysis, Choice, Design, Experiment, Pick, Situation, Team
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import LoweringError
from kernelwright.core.evaluation import Evaluation, Status
from kernelwright.core.evidence import Bottleneck, Diagnosis, Evidence, Headroom
from kernelwright.core.machine import Machine
from kernelwright.core.plan import Move, Plan
from kernelwright.core.roofline import Floor
from kernelwright.core.run import RunSpec
from kernelwright.core.task import Task
from kernelwright.skills.stats import LedgerView
from kernelwright.testing.fake_verdicts import PEAKS as PEAKS
from kernelwright.testing.fake_verdicts import fake_evaluation as fake_evaluation


class FakeReferee:
    """Verdict by candidate source; remembers what it was asked. Others are as fast as eager."""

    def __init__(self, verdicts: Mapping[str, float | Status]) -> None:
        self.verdicts = verdicts
        self.asked: list[tuple[str, bool]] = []
        self.task: Task | None = None

    def open(self, task: Task) -> "FakeReferee":
        """Admit any task."""
        self.task = task
        return self

    @property
    def baseline_ms(self) -> Mapping[str, float]:
        """Ten milliseconds for everything."""
        return {"default": 10.0}

    def evaluate(
        self,
        candidate: Candidate,
        *,
        final: bool = False,
        floors: Mapping[str, Floor] | None = None,
        baselines: tuple[str, ...] = ("eager",),
    ) -> Evaluation:
        """Look the verdict up."""
        assert self.task is not None
        self.asked.append((candidate.source, final))
        return fake_evaluation(candidate, self.task, self.verdicts.get(candidate.source, 1.0), final=final)

    def __enter__(self) -> "FakeReferee":
        return self

    def __exit__(self, *exc: object) -> None:
        pass


class ScriptedTeam:
    """Seeds by name; then one move per name of the script; repairs by appending ``+fix``."""

    def __init__(self, seeds: Sequence[str], moves: Sequence[str], *, unliftable: Sequence[str] = ()) -> None:
        self._seeds, self._moves, self._unliftable = tuple(seeds), tuple(moves), tuple(unliftable)

    def team(self) -> Team:
        """Return it in every seat."""
        return Team("scripted", self, self, self, self, self, self, self, self, self)

    def root(self, problem: Problem) -> Candidate:
        """Return the first scripted seed."""
        return Candidate(source=self._seeds[0], role="generator")

    def seeds(self, situation: Situation, count: int) -> tuple[Candidate, ...]:
        """Return the scripted seeds."""
        return tuple(Candidate(source=name, role="generator") for name in self._seeds[:count])

    def analyse(
        self, problem: Problem, base: Candidate, evaluation: Evaluation, ledger: LedgerView
    ) -> Analysis:
        """Return a diagnosis that says nothing."""
        diagnosis = Diagnosis(
            bottleneck=Bottleneck.COMPUTE, headroom=Headroom.HIGH, structure="pointwise", reasons=()
        )
        return Analysis(Evidence(), diagnosis, ())

    def plan(self, situation: Situation) -> Choice | None:
        """Return the first move of the script that was not tried on this base."""
        move = next(iter(self._untried(situation)), None)
        return Choice(move=move) if move else None

    def expect(self, situation: Situation, coming: Sequence[Plan]) -> None:
        """Do nothing."""

    def write(self, situation: Situation, choice: Choice) -> Candidate:
        """Name the child after its base and move."""
        base, move = _base(situation), choice.move
        if move.skill in self._unliftable:
            raise LoweringError(f"{move.skill} does not apply")
        return Candidate(
            source=f"{base.source}>{move.skill}", parents=(base.id,), plan=base.plan.then(move), role="coder"
        )

    def rewrite(self, situation: Situation, count: int) -> tuple[Candidate, ...]:
        """Write the first untried moves of the script."""
        return tuple(self.write(situation, Choice(move)) for move in self._untried(situation)[:count])

    def translate(self, situation: Situation, plan: Plan) -> Candidate:
        """Name the candidate after the plan's moves."""
        return Candidate(source=">".join([self._seeds[0], *(m.skill for m in plan.moves)]), plan=plan)

    def select(self, situation: Situation) -> Pick | None:
        """Return the fastest member and the slowest."""
        verified = [n for n in situation.window if n.evaluation.geomean_speedup() is not None]
        ordered = sorted(verified, key=lambda n: n.evaluation.geomean_speedup() or 0.0)
        return Pick(ordered[-1].candidate.id, ordered[0].candidate.id, "scripted") if ordered else None

    def design(self, situation: Situation, avenues: int, experiments: int) -> Design:
        """Return the untried moves of the script, each as good as the next."""
        moves = self._untried(situation)
        return Design(
            tuple(m.skill for m in moves[:avenues]),
            tuple(Experiment(move, 0.1, 0.2, 0.5) for move in moves[:experiments]),
        )

    def recall(self, situation: Situation, count: int) -> tuple[Plan, ...]:
        """Return the archived plans."""
        return tuple(archived.plan for archived in situation.archive)[:count]

    def populate(self, situation: Situation, count: int) -> tuple[Plan, ...]:
        """Return one plan for each move of the script."""
        return tuple(Plan(moves=(Move(skill=name),)) for name in self._moves[:count])

    def cross(self, situation: Situation, first: Plan, second: Plan) -> Plan | None:
        """Return the first plan followed by what it lacks of the second."""
        new = tuple(move for move in second.moves if move not in first.moves)
        return Plan(moves=(*first.moves, *new)) if new else None

    def align(self, situation: Situation, candidate: Candidate) -> Plan:
        """Return the candidate's own plan."""
        return candidate.plan

    def _untried(self, situation: Situation) -> list[Move]:
        base, moves = _base(situation), [Move(skill=name) for name in self._moves]
        return [move for move in moves if not situation.memory.is_tried(base.id, move)]

    def repair(self, situation: Situation, tried: tuple[str, ...]) -> tuple[Candidate, Move] | None:
        """Append one more fix."""
        failing = _base(situation)
        move = Move(skill="fix", params={"n": len(tried)})
        fixed = Candidate(
            source=f"{failing.source}+fix", parents=(failing.id,), plan=failing.plan, role="debugger"
        )
        return fixed, move


def _base(situation: Situation) -> Candidate:
    assert situation.base is not None
    return situation.base.candidate


def fake_prepare(spec: RunSpec, cache_dir: Path) -> tuple[Problem, str | None]:
    """Return a problem without graphs."""
    return Problem(spec.task, spec.target, {}, {}, PEAKS, Machine()), None
