"""One run: prepare the task, let the team and the policy work, measure the winner again."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Literal, Protocol

from kernelwright.agents.problem import Problem
from kernelwright.agents.roles import Team
from kernelwright.core.budget import Spent
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import LoweringError
from kernelwright.core.evaluation import Evaluation, Status
from kernelwright.core.events import (
    BaseReplaced,
    CandidateEvaluated,
    CandidateWritten,
    Diagnosed,
    Event,
    IncumbentImproved,
    MoveChosen,
    MoveFailed,
    RunFinished,
    RunStarted,
    StepStarted,
    TaskPrepared,
)
from kernelwright.core.plan import Move
from kernelwright.core.roofline import Floor
from kernelwright.core.run import Outcome, RunSpec
from kernelwright.core.run import RunState as StoredState
from kernelwright.core.task import Task
from kernelwright.engine.journal import Journal, Listener
from kernelwright.engine.prepare import prepare
from kernelwright.engine.state import RunState
from kernelwright.memory.ledger import Ledger
from kernelwright.search.view import Attempt, SearchPolicy
from kernelwright.store.base import Store

FINALISTS = 3
"""Verified candidates that are measured again, fastest first, until one holds; ours."""
MAX_FAILED_MOVES = 40
"""Moves in a row that could not be carried out before the base counts as exhausted; ours."""


class Session(Protocol):
    """One task before the referee."""

    @property
    def baseline_ms(self) -> Mapping[str, float]:
        """Eager latency per workload."""
        ...

    def evaluate(
        self,
        candidate: Candidate,
        *,
        final: bool = False,
        floors: Mapping[str, Floor] = ...,
        baselines: tuple[str, ...] = ...,
    ) -> Evaluation:
        """Return the verdict on a candidate."""
        ...

    def __enter__(self) -> "Session": ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


class Evaluator(Protocol):
    """Where candidates are judged; the referee, or a stand-in in tests."""

    def open(self, task: Task) -> Session:
        """Admit a task; raises TaskError when nobody should trust a speedup on it."""
        ...


@dataclass(frozen=True)
class Tools:
    """What a run needs besides its spec."""

    store: Store
    referee: Evaluator
    team: Team
    policy: SearchPolicy
    cache_dir: Path
    on_event: Listener = field(default=lambda event: None)
    prepare: Callable[[RunSpec, Path], tuple[Problem, str | None]] = prepare


@dataclass(frozen=True)
class RunOutcome:
    """How a run ended."""

    run_id: str
    winner: Candidate | None
    """None when nothing faster than eager was found."""
    evaluation: Evaluation | None
    """The winner's final evaluation."""
    reason: str


def start_run(spec: RunSpec, tools: Tools) -> RunOutcome:
    """Create a run in the store and carry it to its end."""
    spec = spec.model_copy(update={"ledger_until": tools.store.last_outcome_id()})
    return continue_run(tools.store.create_run(spec), tools)


def continue_run(run_id: str, tools: Tools) -> RunOutcome:
    """Carry a run on from whatever the store has of it; a finished one is returned as it ended."""
    record = tools.store.get_run(run_id)
    journal = Journal(tools.store, run_id, tools.on_event)
    finished = journal.finished()
    if finished is None:
        tools.store.set_state(run_id, StoredState.RUNNING)
        try:
            finished = _Loop(record.spec, tools, journal).play()
        except Exception as error:
            tools.store.set_state(run_id, StoredState.FAILED, failure=str(error))
            raise
        tools.store.set_state(run_id, StoredState.FINISHED)
    winner = tools.store.get_candidate(finished.winner) if finished.winner else None
    return RunOutcome(run_id, winner, finished.evaluation, finished.reason)


class _Loop:
    """The engine's loop over one run; every decision is the policy's or the team's."""

    def __init__(self, spec: RunSpec, tools: Tools, journal: Journal) -> None:
        self.spec = spec
        self.tools = tools
        self.journal = journal
        self.state = RunState()
        self.started = time.monotonic() - journal.recorded_seconds()
        self.past = [o for _, o in tools.store.iter_outcomes(until=spec.ledger_until)]

    def play(self) -> RunFinished:
        """Run to the end and return the closing event."""
        self._emit(RunStarted(recipe=self.spec.recipe, team=self.spec.team))
        with self.tools.referee.open(self.spec.task) as session:
            problem, capture_error = self.tools.prepare(self.spec, self.tools.cache_dir)
            floors = tuple(problem.floors.get(w.name) for w in self.spec.task.workloads)
            self._emit(
                TaskPrepared(
                    floors=floors, capture_error=capture_error, baselines_ms=dict(session.baseline_ms)
                )
            )
            reason = capture_error or self._search(problem, session)
            winner, evaluation = self._final(problem, session)
        finished = RunFinished(
            reason=reason,
            winner=winner.id if winner else None,
            evaluation=evaluation,
            spent=self._spent(),
        )
        self._emit(finished)
        for outcome in self.state.outcomes.values():
            self.tools.store.add_outcome(outcome)
        return finished

    def _search(self, problem: Problem, session: Session) -> str:
        """Follow the policy until it stops or the budget is used up; return why it ended."""
        while True:
            used_up = self._spent().exhausts(self.spec.budget)
            if used_up is not None:
                return f"the budget of {used_up} is used up"
            selection = self.tools.policy.select(self.state.view())
            if selection.mode == "stop":
                return selection.reason
            if selection.mode == "seed":
                self._seed(problem, session)
            elif selection.mode == "repair":
                self._repair(problem, session, str(selection.base))
            else:
                self._optimize(problem, session, str(selection.base))

    def _seed(self, problem: Problem, session: Session) -> None:
        for seed in self.tools.team.generator.seeds(problem):
            self._begin("seed", None)
            self._evaluate(problem, session, seed, "seed", None)
        verified = self.state.ranking()
        if verified:
            self._replace_base(verified[0])

    def _optimize(self, problem: Problem, session: Session, base_id: str) -> None:
        base = self.state.candidates[base_id]
        self.state.base = base_id
        self.state.repairs_tried.clear()
        self._begin("optimize", base_id)
        ledger = Ledger([*self.past, *self.state.outcomes.values()])
        analysis = self.tools.team.analyst.analyse(problem, base, self.state.evaluations[base_id], ledger)
        self._emit(
            Diagnosed(
                step=self.state.step,
                evidence=analysis.evidence,
                diagnosis=analysis.diagnosis,
                ranked=analysis.ranked,
            )
        )
        for _ in range(MAX_FAILED_MOVES):
            choice = self.tools.team.planner.plan(problem, base, analysis, self.state.memory)
            if choice is None:
                break
            self._emit(
                MoveChosen(step=self.state.step, base=base_id, move=choice.move, skipped=choice.skipped)
            )
            self.state.contexts[base_id, choice.move.key] = analysis.diagnosis
            written = self._write(problem, base, choice.move)
            if written is not None:
                self._evaluate(problem, session, written, "optimize", base_id)
                return
        self.state.exhausted.add(base_id)

    def _write(self, problem: Problem, base: Candidate, move: Move) -> Candidate | None:
        """Return the candidate, None when the move does not apply or changes nothing."""
        try:
            candidate = self.tools.team.coder.write(problem, base, move)
        except LoweringError as error:
            self._move_failed(base.id, move, str(error))
            return None
        if candidate.id in self.state.candidates:
            self._move_failed(base.id, move, "gives a kernel that was evaluated already")
            return None
        return candidate

    def _move_failed(self, base_id: str, move: Move, reason: str) -> None:
        self._emit(MoveFailed(step=self.state.step, base=base_id, move=move, reason=reason))

    def _repair(self, problem: Problem, session: Session, failing_id: str) -> None:
        failing = self.state.candidates[failing_id]
        self._begin("repair", failing_id)
        repaired = self.tools.team.debugger.repair(
            problem, failing, self.state.evaluations[failing_id], tuple(self.state.repairs_tried)
        )
        if repaired is None or repaired[0].id in self.state.candidates:
            self.state.memory.give_up(failing_id, "no repair left to try")
            self.state.exhausted.add(failing_id)
            return
        candidate, move = repaired
        self.state.repairs_tried.append(move.key)
        self._emit(MoveChosen(step=self.state.step, base=failing_id, move=move))
        self._evaluate(problem, session, candidate, "repair", failing_id)

    def _begin(self, mode: Literal["seed", "optimize", "repair", "final"], base: str | None) -> None:
        self.state.step += 1
        self._emit(StepStarted(step=self.state.step, mode=mode, base=base))

    def _evaluate(
        self,
        problem: Problem,
        session: Session,
        candidate: Candidate,
        mode: Literal["seed", "optimize", "repair"],
        base: str | None,
    ) -> None:
        self.state.candidates.setdefault(candidate.id, candidate)
        self.journal.add_candidate(candidate)
        self._emit(CandidateWritten(step=self.state.step, candidate=candidate.id))
        best_before = self.state.view().incumbent
        evaluation = self._judge(problem, session, candidate, final=False)
        self.state.evaluations[candidate.id] = evaluation
        fractions = [r.floor_fraction for r in evaluation.results]
        known = [f for f in fractions if f is not None]
        speedup = evaluation.geomean_speedup()
        self.state.attempts.append(
            Attempt(
                step=self.state.step,
                mode=mode,
                candidate=candidate.id,
                base=base,
                is_verified=evaluation.is_verified,
                speedup=speedup,
                floor_fraction=min(known) if known else None,
            )
        )
        self._credit(candidate)
        if speedup is None:
            return
        if best_before is None or speedup > (best_before.speedup or 0.0):
            self._emit(IncumbentImproved(step=self.state.step, candidate=candidate.id, speedup=speedup))
        if mode != "seed" and self.tools.policy.accepts_as_base(self.state.speedup(self.state.base), speedup):
            self._replace_base(candidate.id)

    def _judge(self, problem: Problem, session: Session, candidate: Candidate, *, final: bool) -> Evaluation:
        """Return the recorded evaluation of an interrupted run, or make it now and record it."""
        evaluation = self.journal.recorded_evaluation(candidate.id, is_final=final)
        if evaluation is None:
            evaluation = session.evaluate(
                candidate,
                final=final,
                floors=problem.floors,
                baselines=self.spec.baselines if final else ("eager",),
            )
        self._emit(CandidateEvaluated(step=self.state.step, candidate=candidate.id, evaluation=evaluation))
        return evaluation

    def _credit(self, candidate: Candidate) -> None:
        """Write into the ledger what the idea behind a candidate has come to so far.

        A later repair of the same idea replaces its line: an idea is worth what its chain ends in.
        """
        attempt = self.state.memory.idea_of(candidate.id)
        context = self.state.contexts.get((attempt.base, attempt.move.key)) if attempt else None
        if attempt is None or context is None:
            return
        outcome = Outcome(
            skill=attempt.move.skill,
            target=str(self.spec.target),
            structure=context.structure,
            bottleneck=context.bottleneck,
            task_id=self.spec.task.id,
            run_id=self.journal.run_id,
            move_key=f"{attempt.base}:{attempt.move.key}",
            verified=attempt.is_verified,
            log_speedup=math.log(attempt.speedup) if attempt.speedup else None,
            expected=attempt.move.expects,
        )
        self.state.outcomes[outcome.move_key] = outcome

    def _replace_base(self, candidate_id: str) -> None:
        self.state.base = candidate_id
        self._emit(
            BaseReplaced(
                step=self.state.step,
                candidate=candidate_id,
                speedup=self.state.speedup(candidate_id) or 0.0,
            )
        )

    def _final(self, problem: Problem, session: Session) -> tuple[Candidate | None, Evaluation | None]:
        """Measure the best again in fresh processes; the first that holds and is faster wins."""
        last: Evaluation | None = None
        for candidate_id in self.state.ranking()[:FINALISTS]:
            self._begin("final", candidate_id)
            candidate = self.state.candidates[candidate_id]
            last = self._judge(problem, session, candidate, final=True)
            if is_faster_everywhere(last):
                return candidate, last
            if last.status is Status.VERIFIED:
                break
        return None, last

    def _spent(self) -> Spent:
        return Spent(evaluations=len(self.state.attempts), seconds=round(time.monotonic() - self.started, 3))

    def _emit(self, event: Event) -> None:
        self.state.memory.observe(event)
        self.journal.emit(event)


def is_faster_everywhere(evaluation: Evaluation) -> bool:
    """Say whether a verified candidate is delivered: slower on no workload, faster on one, over eager."""
    verdicts = [s.verdict for r in evaluation.results if (s := r.speedup("eager")) is not None]
    return evaluation.is_verified and "faster" in verdicts and "slower" not in verdicts
