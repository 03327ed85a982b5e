"""The expert Debugger: from the kind of failure to the smallest change that may mend it."""

from kernelwright.agents.expert.plan_lowering import PlanLowering
from kernelwright.agents.problem import Problem
from kernelwright.agents.roles import Situation
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import LoweringError
from kernelwright.core.evaluation import Evaluation, Status
from kernelwright.core.plan import Move, Plan
from kernelwright.ir.program import Region
from kernelwright.targets.registry import all_targets, target_of


class ExpertDebugger:
    """Repairs in order: safer arithmetic where numbers are off, then less generated code."""

    def __init__(self, workshop: PlanLowering) -> None:
        self._workshop = workshop
        for target in all_targets():
            workshop.lowering_of |= {safer.name: safer.lowering for safer in target.lowering.repairs}
        workshop.lowering_of.update({"leave-to-torch": "fusion:keep-call"})

    def repair(self, situation: Situation, tried: tuple[str, ...]) -> tuple[Candidate, Move] | None:
        """Return the next untried repair (see roles.Debugger)."""
        assert situation.base is not None
        problem, failing = situation.problem, situation.base.candidate
        evaluation = situation.base.evaluation
        for move in self._ideas(problem, failing, evaluation):
            if move.key in tried:
                continue
            try:
                repaired = self._workshop.candidate(
                    problem, failing.plan.then(move), parents=(failing.id,), role="debugger"
                )
            except LoweringError:
                continue
            if repaired.id not in {failing.id, *situation.evaluated}:
                return repaired, move
        return None

    def _ideas(self, problem: Problem, failing: Candidate, evaluation: Evaluation) -> list[Move]:
        regions = self._suspects(problem, failing.plan, evaluation)
        ideas: list[Move] = []
        if evaluation.status in (Status.INCORRECT_NUMERICS, Status.NON_FINITE):
            for region in regions:
                for safer in target_of(problem.target).lowering.repairs:
                    why = f"{evaluation.detail}: {safer.why}"
                    params = dict(safer.params)
                    ideas.append(Move(skill=safer.name, region=region, params=params, why=why))
        for region in regions:
            why = f"{evaluation.status}: {evaluation.detail}"
            ideas.append(Move(skill="leave-to-torch", region=region.removeprefix("r_"), why=why))
        return ideas

    def _suspects(self, problem: Problem, plan: Plan, evaluation: Evaluation) -> list[str]:
        """Return regions, the likeliest culprit first: named in the log, then touched last."""
        program = self._workshop.carried(problem, plan).program
        names = [step.name for step in program.steps if isinstance(step, Region)]
        last = plan.moves[-1].region if plan.moves else None

        def rank(name: str) -> tuple[bool, bool]:
            return (name not in evaluation.log, name != last)

        return sorted(names, key=rank)
