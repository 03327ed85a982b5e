"""One run: prepare the task, let the team and the policy work, measure the winner again."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path

from kernelwright.agents.giving_up import lowering_failures
from kernelwright.agents.llm.prices import require_prices, with_prices
from kernelwright.agents.llm.tape import Tape
from kernelwright.agents.problem import Problem
from kernelwright.agents.roles import Team
from kernelwright.agents.signature import task_signature
from kernelwright.core.blocks import Composition
from kernelwright.core.budget import Meter, Spent
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import BudgetUsedUp, ModelUnavailable, StoreError
from kernelwright.core.evaluation import Evaluation
from kernelwright.core.events import (
    FinalistsTimed,
    ModelTakenApart,
    RunFinished,
    RunStarted,
    StepMode,
    StepStarted,
    TaskPrepared,
)
from kernelwright.core.learned import ArchivedPlan
from kernelwright.core.model_call import CallOutcome
from kernelwright.core.run import RunSpec, RunState
from kernelwright.core.spans import SpanValue, span
from kernelwright.ir.algebra import algebra_gain
from kernelwright.memory.study import study
from kernelwright.runs import finalists
from kernelwright.runs.closing import LEAST_EVALUATIONS
from kernelwright.runs.evaluator import Evaluator, Session
from kernelwright.runs.holding import held
from kernelwright.runs.interruption import mark_interrupted
from kernelwright.runs.journal import Journal, Listener
from kernelwright.runs.knowledge import Knowledge
from kernelwright.runs.prepare import prepare
from kernelwright.runs.state import LoopState
from kernelwright.runs.step_context import StepContext
from kernelwright.runs.steps import StepKind
from kernelwright.runs.tape import StoreTape
from kernelwright.runs.view import SearchPolicy, Selection
from kernelwright.store.base import RunRecord, Store
from kernelwright.store.lease import LeaseLost

FINAL_SHARE = 0.3
"""Share of a budget in seconds that is kept for the final measurement; the search ends that much earlier. Of
a model that was taken apart none is kept: the ways to put it together are few, and the final is owed."""
TIMING_SHARE = 1 / 3
"""Share of the seconds that are left that finalists may be timed in turn for: the final needs the rest."""
LEARNED = ("ledger_until", "archive_until", "findings")
"""Fields of a spec that say what its run knows of others."""
NO_TIME = "no time was left to measure the best candidate again"
MAX_FRUITLESS = 8
"""Steps in a row without a new candidate after which the search ends; ours. A model that talks nonsense
would otherwise go on until its budget is used up."""


@dataclass(frozen=True)
class Crew:
    """The team that plays one run, and what became of the answers of its models."""

    team: Team
    answers: Callable[[], Mapping[str, int]] = dict
    """How the models' answers ended so far, by outcome; empty where no model was asked."""


@dataclass(frozen=True)
class Tools:
    """What a run needs besides its spec."""

    store: Store
    referee: Evaluator
    assemble: Callable[[Meter, Tape], Crew]
    """Called once, when the run's meter and tape are there."""
    policy: SearchPolicy
    pipelines: Mapping[StepMode, StepKind]
    cache_dir: Path
    has_long_term: bool = True
    """False in an ablation."""
    can_tune: bool = False
    """The referee's sessions can close what candidates leave open."""
    on_event: Listener = field(default=lambda event: None)
    prepare: Callable[[RunSpec, Path], tuple[Problem, str | None]] = prepare
    accepts: Callable[[Evaluation], bool] = attrgetter("is_faster")
    """Says of a final verdict whether the candidate is delivered."""
    last_resort: tuple[str, ...] = ()
    """Candidates that get a final whatever one of another says, where none is delivered."""
    print_compiled: Callable[[], Candidate | None] = lambda: None
    """Writes what is delivered where it beats all that was found: torch.compile of the module as it is. None:
    nothing is."""


@dataclass(frozen=True)
class RunOutcome:
    """How a run ended."""

    run_id: str
    winner: Candidate | None
    """None when nothing faster than eager was found."""
    evaluation: Evaluation | None
    """The winner's final evaluation."""
    reason: str
    spent: Spent = field(default_factory=Spent)
    answers: Mapping[str, int] = field(default_factory=dict)
    """How the models' answers ended, by outcome; empty where no model was asked."""

    @property
    def every_call_failed(self) -> bool:
        """True when models were asked and their API failed every time."""
        return bool(self.answers) and all(CallOutcome(name).is_api_failure for name in self.answers)


def start_run(spec: RunSpec, tools: Tools) -> RunOutcome:
    """Create a run in the store and carry it to its end."""
    return continue_run(create_run(spec, tools.store), tools)


def create_run(spec: RunSpec, store: Store, like: RunSpec | None = None) -> str:
    """Put a run into the store as it begins, with what its models cost now and what it may know of others.

    A resumed run keeps to both. With ``like`` it may know what that run may; otherwise what the store knows.

    Raises:
        UserError: there is a budget in USD and a model whose price nobody knows; nothing is stored.
    """
    if spec.models is not None:
        require_prices(spec.models, spec.budget)
        spec = spec.model_copy(update={"models": with_prices(spec.models)})
    return store.create_run(with_memory(spec, store) if like is None else with_memory_of(spec, like))


def with_memory_of(spec: RunSpec, other: RunSpec) -> RunSpec:
    """Return the spec with what another run may know of others."""
    return spec.model_copy(update={name: getattr(other, name) for name in LEARNED})


def with_memory(spec: RunSpec, store: Store) -> RunSpec:
    """Return the spec with what its run may know of others, as the store has it now."""
    if spec.is_cold:
        return spec.model_copy(update={"ledger_until": 0, "archive_until": 0, "findings": ()})
    known = {
        "ledger_until": store.last_outcome_id(),
        "archive_until": store.last_plan_id(),
        "findings": tuple(store.iter_findings("admitted")),
    }
    return spec.model_copy(update=known)


def continue_run(run_id: str, tools: Tools) -> RunOutcome:
    """Carry a run on from whatever the store has of it; a finished one is returned as it ended.

    Raises:
        KeyboardInterrupt: as it came, once the store is consistent; the run can be carried on, and
            ``best_so_far`` has what it came to.
        RunHeld: another process is at work on it; nothing is written then.
        LeaseLost: another process took it over, because this one was not heard of for too long.
    """
    record = tools.store.get_run(run_id)
    if record.state is RunState.FINISHED:
        ended = Journal(tools.store, run_id, tools.on_event).finished()
        if ended is not None:
            return _outcome(record, ended, tools.store)
    with held(tools.store, run_id):
        finished = _finish(record, tools)
    return _outcome(record, finished, tools.store)


def ended_run(run_id: str, store: Store) -> RunOutcome:
    """Return how a finished run ended; raises StoreError where it has not."""
    ended = Journal(store, run_id, lambda event: None).finished()
    if ended is None:
        raise StoreError(f"run {run_id} has not ended")
    return _outcome(store.get_run(run_id), ended, store)


def _finish(record: RunRecord, tools: Tools) -> RunFinished:
    """Bring a run that this process holds to its end."""
    store, run_id = tools.store, record.run_id
    journal = Journal(store, run_id, tools.on_event)
    finished = journal.finished()
    if finished is None:
        store.set_state(run_id, RunState.RUNNING)
        try:
            finished = _Loop(record.spec, tools, journal).play()
        except KeyboardInterrupt:
            mark_interrupted(store, run_id)
            raise
        except LeaseLost:
            raise  # the run is another process's: its state is no more ours to say
        except Exception as error:
            store.set_state(run_id, RunState.FAILED, failure=str(error))
            raise
    if not record.spec.is_cold:
        store.learn(study)
    store.set_state(run_id, RunState.FINISHED)
    return finished


def _outcome(record: RunRecord, finished: RunFinished, store: Store) -> RunOutcome:
    winner = store.get_candidate(finished.winner, record.run_id) if finished.winner else None
    return RunOutcome(
        record.run_id, winner, finished.evaluation, finished.reason, finished.spent, finished.answers
    )


class _Loop:
    """The engine's loop over one run; every decision is the policy's or the team's."""

    def __init__(self, spec: RunSpec, tools: Tools, journal: Journal) -> None:
        self.spec = spec
        self.tools = tools
        self.journal = journal
        started = time.monotonic() - journal.recorded_seconds()
        reserved_s = 0.0 if spec.by_blocks else FINAL_SHARE * (spec.budget.seconds or 0.0)
        self.meter = Meter(spec.budget, lambda: time.monotonic() - started, reserved_s=reserved_s)
        self.crew = tools.assemble(self.meter, StoreTape(tools.store, journal.run_id))
        self.state = LoopState(can_tune=self._can_tune())
        self.refused: set[str] = set()
        """Candidates whose final did not let them be delivered."""

    def _can_tune(self) -> bool:
        """Tell whether cheap timings can choose schedules; what a model wrote follows no plan."""
        granted = self.spec.budget.evaluations
        has_room = granted is None or granted >= LEAST_EVALUATIONS
        return self.tools.can_tune and has_room and not self.crew.team.calls.get("coder")

    def play(self) -> RunFinished:
        """Run to the end and return the closing event."""
        told = {
            "gen_ai.operation.name": "invoke_workflow",
            "gen_ai.workflow.name": self.spec.recipe,
            "kernelwright.run": self.journal.run_id,
            "kernelwright.task": self.spec.task.name,
        }
        with span(self.spec.is_traced, f"invoke_workflow {self.spec.recipe}", told) as tell:
            finished = self._played()
            tell({"kernelwright.reason": finished.reason, "kernelwright.won": finished.winner is not None})
            return finished

    def _played(self) -> RunFinished:
        self.journal.emit(RunStarted(recipe=self.spec.recipe, team=self.spec.team))
        with self.tools.referee.open(self.spec.task) as session:
            problem, capture_error = self.tools.prepare(self.spec, self.tools.cache_dir)
            floors = tuple(problem.floors.get(w.name) for w in self.spec.task.timed_workloads)
            context = self._desk(problem, session)
            context.emit(
                TaskPrepared(
                    floors=floors,
                    capture_error=capture_error,
                    baselines_ms=dict(session.baseline_ms),
                    algebra_gain=self._algebra_gain(problem),
                )
            )
            context.tell_given_up(lowering_failures(problem))
            reason = capture_error or self._search(context)
            winner, evaluation = self._delivered(context)
        if evaluation is None and self.state.ranking():
            reason = f"{reason}; {NO_TIME}"
        finished = RunFinished(
            reason=reason,
            winner=winner.id if winner else None,
            evaluation=evaluation,
            spent=self.meter.spent,
            answers=dict(self.crew.answers()),
        )
        plan = self._archived(problem, winner, evaluation)
        self.journal.close(finished, tuple(self.state.outcomes.values()), plan)
        return finished

    def _algebra_gain(self, problem: Problem) -> float | None:
        """Return what algebra makes of the main workload, where runs are counted together; None elsewhere."""
        captured = problem.captured.get(problem.main_workload)
        return algebra_gain(captured) if captured is not None and self.spec.experiment is not None else None

    def _archived(
        self, problem: Problem, winner: Candidate | None, evaluation: Evaluation | None
    ) -> ArchivedPlan | None:
        """Return the winner's plan for other runs, None where nothing was faster or it carries out none."""
        speedup = evaluation.geomean_speedup() if evaluation is not None else None
        first = next((a.candidate for a in self.state.attempts if a.is_verified), None)
        if winner is None or speedup is None or first is None or not winner.plan.moves:
            return None
        return ArchivedPlan(
            task_id=self.spec.task.id,
            task_name=self.spec.task.name,
            target=str(self.spec.target),
            signature=task_signature(problem),
            plan=self.state.aligned.get(winner.id, winner.plan),
            initial_source=first,
            best_source=winner.id,
            speedup=speedup,
            run_id=self.journal.run_id,
        )

    def _desk(self, problem: Problem, session: Session) -> StepContext:
        tools = self.tools
        knowledge = Knowledge.of(tools.store, self.spec, has_long_term=tools.has_long_term)
        return StepContext(
            self.spec,
            problem,
            self.crew.team,
            session,
            self.journal,
            self.state,
            self.meter,
            knowledge,
            self.tools.policy,
        )

    def _search(self, context: StepContext) -> str:
        """Follow the policy until it stops, the budget is used up or nothing comes; return why it ended."""
        idle = 0
        while idle < MAX_FRUITLESS:
            try:
                self.meter.require()
                selection = self.tools.policy.select(self.state.view())
                if selection.mode == "stop":
                    return selection.reason
                idle = 0 if self._is_fruitful(context, selection) else idle + 1
            except (BudgetUsedUp, ModelUnavailable) as error:
                return str(error)
        return f"{MAX_FRUITLESS} steps in a row gave no new candidate"

    def _is_fruitful(self, context: StepContext, selection: Selection) -> bool:
        """Carry a selection out; tell whether the run knows more than before."""
        assert selection.mode != "stop"
        before = len(self.state.attempts), len(self.state.exhausted)
        step = self.tools.pipelines[selection.mode]
        context.require_calls(step.seats)
        begun = context.begin(selection)
        told: dict[str, SpanValue] = {
            "kernelwright.step": self.state.step,
            "kernelwright.base": selection.base or "",
        }
        with span(self.spec.is_traced, f"step {selection.mode}", told):
            step.run(context, begun)
        is_fruitful = before != (len(self.state.attempts), len(self.state.exhausted))
        self.state.fruitless[selection.mode] = (
            0 if is_fruitful else self.state.fruitless.get(selection.mode, 0) + 1
        )
        return is_fruitful

    def _finalists(self, context: StepContext) -> tuple[str, ...]:
        """Return the candidates to measure finally, in this order."""
        ranking = self.state.ranking()
        names = finalists.contenders(ranking, self.state.evaluations) if ranking else ()
        if len(names) > 1 and (self.meter.has_time() or self.journal.recorded_alternation(names)):
            left_s = self.meter.left_s
            limit_s = None if left_s is None else TIMING_SHARE * left_s
            timed = context.alternate([self.state.candidates[name] for name in names], limit_s)
            if timed is not None:
                plans = {name: context.plan_of(name) for name in names}
                found = [attempt.candidate for attempt in self.state.attempts]
                choice = finalists.choose(timed, plans, found)
                context.emit(
                    FinalistsTimed(
                        step=self.state.step, alternation=timed, chosen=choice.order[0], reason=choice.reason
                    )
                )
                return choice.order
        return tuple(ranking[: finalists.MOST])

    def _delivered(self, context: StepContext) -> tuple[Candidate | None, Evaluation | None]:
        """Return what is delivered and the last final verdict; torch.compile where that beats all else.

        What a final has shown to be slower than torch.compile is not delivered for want of seconds.
        """
        winner, last = self._final(context)
        is_behind = finalists.is_behind_compiler(last, is_won=winner is not None)
        if is_behind is False or (self.spec.by_blocks and not is_behind):
            return winner, last
        compiled = self.tools.print_compiled()
        if compiled is None or not (is_behind or self._may_judge(compiled.id)):
            return winner, last
        if compiled.id in self.refused:
            return winner, last
        self._begin_final(context, compiled)
        context.hand_in(compiled)
        evaluation = context.judge(compiled, final=True)
        reached = (winner is not None and last is not None and last.geomean_speedup()) or 1.0
        if not evaluation.is_faster or (evaluation.geomean_speedup() or 0.0) <= reached:
            return winner, last
        if not self.spec.by_blocks:  # else the ways to put it together are told, and this is one of them
            context.emit(_compiled_alone(compiled, evaluation))
        return compiled, evaluation

    def _may_judge(self, candidate_id: str) -> bool:
        """Tell whether there is time for a final, or its verdict is there already."""
        return self.meter.has_time() or (
            self.journal.recorded_evaluation(candidate_id, is_final=True) is not None
        )

    def _begin_final(self, context: StepContext, candidate: Candidate) -> None:
        self.state.step += 1
        context.emit(StepStarted(step=self.state.step, mode="final", base=candidate.id))

    def _final(self, context: StepContext) -> tuple[Candidate | None, Evaluation | None]:
        """Measure the best again in fresh processes; the first that holds and is faster wins.

        Those that the search cannot tell apart are timed in turn with each other first. When the budget of
        seconds is used up, only the first that looked faster than eager still gets a final: what was found
        is not thrown away.
        """
        last: Evaluation | None = None
        order, is_settled = self._finalists(context), False
        left = (name for name in self.tools.last_resort if name not in order)
        for candidate_id in (*order, *(name for name in left if (self.state.speedup(name) or 0.0) > 1)):
            if is_settled and candidate_id not in self.tools.last_resort:
                continue
            is_owed = last is None and (self.state.speedup(candidate_id) or 0.0) > 1
            if not is_owed and not self._may_judge(candidate_id):
                break
            candidate = self.state.candidates[candidate_id]
            self._begin_final(context, candidate)
            last = context.judge(candidate, final=True)
            if self.tools.accepts(last):
                return candidate, last
            self.refused.add(candidate_id)
            is_settled = is_settled or finalists.rules_out_the_next(last)
        return None, last


def _compiled_alone(candidate: Candidate, evaluation: Evaluation) -> ModelTakenApart:
    """Say how a module is delivered that has no kernel: as a whole model that was not taken apart."""
    main = evaluation.told[0]
    over_eager = main.speedup("eager")
    return ModelTakenApart(
        before_ms=main.candidate.median_ms * (over_eager.ratio if over_eager is not None else 1.0),
        after_ms=None,
        blocks=(),
        compositions=(Composition(candidate=candidate.id, kinds=(), is_compiled=True),),
        note="no kernel was faster",
    )
