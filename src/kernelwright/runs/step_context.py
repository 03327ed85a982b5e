"""What a step works with: situations for the roles, submission of candidates, budget, records."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from kernelwright.agents.problem import Problem, with_corrected_floors
from kernelwright.agents.roles import Analysis, Choice, Node, Situation, Team
from kernelwright.core.budget import Meter, Spent
from kernelwright.core.candidate import Candidate
from kernelwright.core.closing import ClosedParameters
from kernelwright.core.errors import BudgetUsedUp
from kernelwright.core.evaluation import Evaluation
from kernelwright.core.events import (
    BaseReplaced,
    CandidateEvaluated,
    CandidateWritten,
    ComparedWithBase,
    Diagnosed,
    Event,
    IncumbentImproved,
    LoweringGaveUp,
    MoveChosen,
    MoveFailed,
    Noted,
    ParametersClosed,
    StepMode,
    StepStarted,
    TaskPrepared,
)
from kernelwright.core.finalists import Alternation
from kernelwright.core.open_parameters import closed
from kernelwright.core.plan import Move, ParamValue, Plan
from kernelwright.core.run import Outcome, RunSpec
from kernelwright.core.spans import SpanValue, span
from kernelwright.runs.closing import (
    LEAST_S,
    LEAST_TUNING_S,
    closing_team,
    defaults_of,
    seconds_for,
    tuning_seconds,
)
from kernelwright.runs.comparing import comparing_seconds, is_unclear
from kernelwright.runs.evaluator import AlternatingSession, ClosingSession, ComparingSession, Session
from kernelwright.runs.journal import Journal
from kernelwright.runs.knowledge import Knowledge
from kernelwright.runs.state import LoopState
from kernelwright.runs.view import Attempt, SearchPolicy, Selection
from kernelwright.runs.windows import FASTEST, NodeWindow

NO_WINDOW = NodeWindow()


class StepContext:
    """One run's problem, team, state and referee. Everything a pipeline does goes through here."""

    def __init__(
        self,
        spec: RunSpec,
        problem: Problem,
        team: Team,
        session: Session,
        journal: Journal,
        state: LoopState,
        meter: Meter,
        knowledge: Knowledge,
        policy: SearchPolicy,
    ) -> None:
        self.spec, self.problem, self.team = spec, problem, closing_team(team, self.closed)
        self.state, self.meter = state, meter
        self._policy = policy
        self._session, self._journal, self._knowledge = session, journal, knowledge
        self._eager_ms = _told_before(journal) or dict(session.baseline_ms)
        self._analyses: dict[str, Analysis] = {}
        self._mode: StepMode = "seed"
        self._has_base = False
        self._reference: str | None = None

    def begin(self, selection: Selection) -> Selection:
        """Start the step that a policy selected; return it with its count limited to the budget.

        Here for every recipe alike: nobody is asked, and no model is paid, for a candidate that the budget
        leaves unevaluated.
        """
        assert selection.mode != "stop"
        self.state.step += 1
        self._mode, self._reference = selection.mode, selection.reference
        self._has_base = selection.base is not None
        self.emit(
            StepStarted(
                step=self.state.step,
                mode=selection.mode,
                base=selection.base,
                reference=selection.reference,
            )
        )
        return replace(selection, count=self.affordable(selection.count))

    def require_calls(self, seats: Sequence[str]) -> None:
        """Raise BudgetUsedUp where fewer requests to models are left than these seats need for a kernel.

        An answer that nobody can be paid to carry out is worth nothing.
        """
        if not self.meter.has_calls(sum(self.team.calls.get(seat, 0) for seat in seats)):
            raise BudgetUsedUp("model_calls")

    def node(self, candidate_id: str, relation: str = "base") -> Node:
        """Return a candidate of the run with its verdict."""
        state = self.state
        return Node(
            state.candidates[candidate_id],
            state.evaluations[candidate_id],
            relation,
            state.closings.get(candidate_id),
            state.over_base.get(candidate_id),
        )

    def situation(
        self,
        base_id: str | None,
        window: NodeWindow = NO_WINDOW,
        *,
        is_analysed: bool = True,
        wants_anchors: bool = False,
        timings_only: bool = False,
    ) -> Situation:
        """Return what a role is told about a base, analysed when asked for (see Situation.analysis)."""
        base = self.node(base_id) if base_id is not None else None
        analysis = (self.analyse(base) or self._analysis_behind(base)) if base and is_analysed else None
        knows = self._knowledge
        return Situation(
            problem=self.problem,
            base=base,
            analysis=analysis,
            eager_ms=self._eager_ms,
            window=self.window(base_id, window),
            run=self._judged(),
            memory=self.state.short_term,
            ledger=knows.ledger(self.state.outcomes.values()),
            findings=knows.findings(analysis),
            archive=knows.alike(self.problem),
            passages=knows.passages(self.problem, analysis),
            chance=1009 * self.spec.seed + self.state.step,
            wants_anchors=wants_anchors,
            timings_only=timings_only,
            has_long_term=knows.has_long_term,
            is_tuned=base_id in self.state.settled,
            evaluations_left=self.evaluations_left,
            evaluated=frozenset(self.state.evaluations),
        )

    def refreshed(self, situation: Situation) -> Situation:
        """Return a situation with the kernels that were judged since it was made, and the fastest of them.

        Whoever plans or writes sees the fastest beside the base and what the window has; ours.
        """
        shown = [node for node in situation.window if node.relation != "leader"]
        known = {node.candidate.id for node in shown}
        base_id = situation.base.candidate.id if situation.base is not None else None
        shown += [node for node in self.window(base_id, FASTEST) if node.candidate.id not in known]
        return replace(situation, run=self._judged(), window=tuple(shown))

    def _judged(self) -> tuple[Node, ...]:
        return tuple(self.node(attempt.candidate, "member") for attempt in self.state.attempts)

    def window(self, base_id: str | None, window: NodeWindow) -> tuple[Node, ...]:
        """Return the nodes that a window shows of the run as it stands."""
        seen = window.of(self.state.view(), base_id)
        return tuple(self.node(candidate, relation) for candidate, relation in seen)

    def analyse(self, base: Node) -> Analysis | None:
        """Return the Analyst's analysis of a verified base and record it; None for a failing base."""
        if not base.evaluation.is_verified:
            return None
        ledger = self._knowledge.ledger(self.state.outcomes.values())
        analysis = self.team.analyst.analyse(self.problem, base.candidate, base.evaluation, ledger)
        self.emit(
            Diagnosed(
                step=self.state.step,
                evidence=analysis.evidence,
                diagnosis=analysis.diagnosis,
                ranked=analysis.ranked,
            )
        )
        self._analyses[base.candidate.id] = analysis
        return analysis

    def _analysis_behind(self, failing: Node) -> Analysis | None:
        """Return the last analysis of the kernel that a failing idea was tried on; None for a seed."""
        idea = self.state.short_term.idea_of(failing.candidate.id)
        return self._analyses.get(idea.base) if idea is not None else None

    def choose(self, base_id: str, choice: Choice, analysis: Analysis | None) -> None:
        """Record the move that is about to be carried out on a base."""
        self.emit(MoveChosen(step=self.state.step, base=base_id, move=choice.move, skipped=choice.skipped))
        if analysis is not None:
            self.state.contexts[base_id, choice.move.key] = analysis.diagnosis

    def choose_repair(self, failing_id: str, move: Move) -> None:
        """Record the repair that is about to be evaluated."""
        self.emit(MoveChosen(step=self.state.step, base=failing_id, move=move))

    def fail(self, base_id: str, move: Move, reason: str) -> None:
        """Record that a move gave no candidate."""
        self.state.failed_moves[base_id] = self.state.failed_moves.get(base_id, 0) + 1
        self.emit(MoveFailed(step=self.state.step, base=base_id, move=move, reason=reason))

    def note(self, role: str, text: str, *, candidate: str | None = None, plan: Plan | None = None) -> None:
        """Record something a role said."""
        self.emit(Noted(step=self.state.step, role=role, text=text, candidate=candidate, plan=plan))

    def exhaust(self, candidate_id: str) -> None:
        """Record that nothing is left to try on a candidate."""
        self.state.exhausted.add(candidate_id)

    def is_known(self, candidate: Candidate) -> bool:
        """Return whether this program was evaluated in this run, whatever its comments and layout."""
        return candidate.id in self.state.evaluations

    def repetition(self, candidate: Candidate) -> str:
        """Say of a known candidate why it came up again; where the compiler gave up, record that."""
        self.tell_given_up(candidate.given_up, candidate.id)
        why = "".join(
            f"; lowering gave up: {reason}" for reason in dict.fromkeys(candidate.given_up.values())
        )
        return f"{self._known(candidate.id)}{why}"

    def _known(self, candidate_id: str) -> str:
        """Say which kernel a move, or a plan, gives that was evaluated already, and how that one ended."""
        evaluation = self.state.evaluations[candidate_id]
        speedup = evaluation.geomean_speedup()
        ended = str(evaluation.status) if speedup is None else f"{evaluation.status}, {speedup:.2f}x"
        return f"gives kernel {candidate_id}, which was evaluated already: {ended}"

    def tell_given_up(self, given_up: Mapping[str, str], candidate: str | None = None) -> None:
        """Record where the compiler gave up, once for each workload and reason."""
        for workload, reason in given_up.items():
            if (workload, reason) in self.state.given_up:
                continue
            self.state.given_up.add((workload, reason))
            told = LoweringGaveUp(step=self.state.step, workload=workload, reason=reason, candidate=candidate)
            self.emit(told)

    @property
    def evaluations_left(self) -> int | None:
        """How many candidates the budget still allows to evaluate; None: any number."""
        granted = self.meter.budget.evaluations
        return None if granted is None else max(0, granted - self.meter.spent.evaluations)

    def affordable(self, count: int) -> int:
        """Return how many of ``count`` candidates the budget allows to evaluate."""
        left = self.evaluations_left
        return count if left is None else min(count, left)

    def plan_of(self, candidate_id: str) -> Plan:
        """Return the plan that a candidate carries out, as the Aligner found it if there is one."""
        return self.state.aligned.get(candidate_id) or self.state.candidates[candidate_id].plan

    def submit(self, candidate: Candidate, base_id: str | None) -> Evaluation:
        """Have a new candidate judged and record the verdict in every memory.

        A program that was evaluated in this run gets that evaluation again: nothing is charged, there is no
        new attempt, and the step counts as fruitless unless it hands in something else. What models were paid
        for is judged even when nothing more may be asked of them. Raises BudgetUsedUp when nothing more may
        be evaluated.
        """
        state = self.state
        known = state.evaluations.get(candidate.id)
        if known is not None:
            self.note("referee", self._known(candidate.id), candidate=candidate.id)
            return known
        self.meter.require("evaluations", "seconds")
        self._require_time_for_final(candidate)
        self.hand_in(candidate)
        self.tell_given_up(candidate.given_up, candidate.id)
        best_before = state.view().incumbent
        begun_s = self.meter.spent.seconds
        evaluation = self.judge(candidate, final=False)
        state.longest_s = max(state.longest_s, self.meter.spent.seconds - begun_s)
        self.meter.charge(Spent(evaluations=1))
        state.evaluations[candidate.id] = evaluation
        self._compare(candidate, base_id)
        speedup, standing = evaluation.geomean_speedup(), state.standing(candidate.id) or 0.0
        state.attempts.append(self._attempt(candidate, base_id, evaluation))
        self._credit(candidate)
        if speedup is not None and (best_before is None or standing > (best_before.speedup or 0.0)):
            self.emit(IncumbentImproved(step=state.step, candidate=candidate.id, speedup=speedup))
        is_later = speedup is not None and self._has_base  # a step without one chooses the first base itself
        if is_later and self._policy.accepts_as_base(state.standing(state.base), standing):
            self.replace_base(candidate.id)
        return evaluation

    def _require_time_for_final(self, candidate: Candidate) -> None:
        """Raise BudgetUsedUp where an evaluation could leave no time to measure finally what is found."""
        if self.spec.by_blocks:  # its ways are few, and the final is owed
            return
        best = self.state.view().incumbent
        is_recorded = self._journal.recorded_evaluation(candidate.id, is_final=False) is not None
        if best is not None and (best.speedup or 0.0) > 1 and not is_recorded:
            self.meter.require_room(self.state.longest_s)

    def hand_in(self, candidate: Candidate) -> None:
        """Record a candidate before it is judged."""
        self.state.candidates.setdefault(candidate.id, candidate)
        self._journal.add_candidate(candidate)
        self.emit(CandidateWritten(step=self.state.step, candidate=candidate.id))

    def _compare(self, candidate: Candidate, base_id: str | None) -> None:
        """Time a candidate in turn with its base where their verdicts cannot tell them apart."""
        state, idea = self.state, self.state.short_term.idea_of(candidate.id)
        base_id = base_id if idea is None else idea.base  # a repair is made from the failing one
        known = None if base_id is None else state.evaluations.get(base_id)
        if base_id is None or known is None or not is_unclear(known, state.evaluations[candidate.id]):
            return
        timed = self._journal.recorded_comparison(candidate.id, base_id)
        if timed is None and not self._journal.is_replaying:  # else the interrupted run did without
            timed = self._timed_with(candidate, state.candidates[base_id])
        if timed is None:
            return
        event = ComparedWithBase(step=state.step, candidate=candidate.id, base=base_id, alternation=timed)
        state.comparing_s += timed.seconds
        if event.speedup is not None:
            state.over_base[candidate.id] = event.speedup
        self.emit(event)

    def _timed_with(self, candidate: Candidate, base: Candidate) -> Alternation | None:
        session = self._session
        limit_s = comparing_seconds(self._evaluation_s, self.state.comparing_s, self.meter.search_left_s)
        if limit_s is None or not isinstance(session, ComparingSession):
            return None
        return session.compare(candidate, base, limit_s)

    def closed(self, candidate: Candidate) -> Candidate:
        """Return a candidate with what it leaves open closed by timings, and record how; any other as it is.

        The run pays for it in seconds. Where nobody can time points, or no time is left, the defaults stand.
        """
        defaults = defaults_of(candidate)
        if not defaults:
            return candidate
        closings = self.state.closings
        closing = closings.get(candidate.id)
        is_new = closing is None
        if closing is None:
            closing = self._journal.recorded_closing(candidate.id) or self._time_points(candidate, defaults)
        final = candidate.model_copy(update={"source": closed(candidate.source, closing.values)})
        closings[candidate.id] = closings[final.id] = closing
        if is_new:
            self.emit(ParametersClosed(step=self.state.step, candidate=final.id, closing=closing))
        return final

    def tuned(self, candidate: Candidate) -> ClosedParameters | None:
        """Return what cheap timings made of the schedules that a candidate's plan leaves open, and record it.

        The run pays for it in seconds, and in the evaluations that would have taken as long. None: nobody
        can time points, or the budget has no room for it.
        """
        self.state.tuned.add(candidate.id)
        session, left = self._session, self.evaluations_left
        seconds = tuning_seconds(self.meter.search_left_s, left, self._mean_evaluation_s)
        found = self._journal.recorded_closing(candidate.id)
        if found is None and seconds >= LEAST_TUNING_S and isinstance(session, ClosingSession):
            found = session.close_parameters(candidate, seconds)
        if found is None:
            return None
        self.emit(ParametersClosed(step=self.state.step, candidate=candidate.id, closing=found))
        if not found.problem:  # else nothing was timed
            self.state.settled.add(candidate.id)
            self.meter.charge(Spent(evaluations=self._evaluations_worth(found.seconds)))
        return found

    @property
    def _evaluation_s(self) -> tuple[float, ...]:
        """Seconds that each evaluation of this run has taken so far."""
        return tuple(sum(evaluation.phases_s.values()) for evaluation in self.state.evaluations.values())

    @property
    def _mean_evaluation_s(self) -> float:
        """Seconds that an evaluation has taken in this run so far; 0 where that is unknown."""
        taken = self._evaluation_s
        return sum(taken) / len(taken) if taken else 0.0

    def _evaluations_worth(self, seconds: float) -> int:
        """Return how many evaluations would have taken so long, at most all but one of those that are left.

        What tuning came to needs a verdict: without one its seconds were in vain.
        """
        mean, left = self._mean_evaluation_s, self.evaluations_left
        worth = round(seconds / mean) if mean > 0 else 0
        return worth if left is None else min(worth, max(left - 1, 0))

    def _time_points(self, candidate: Candidate, defaults: dict[str, ParamValue]) -> ClosedParameters:
        seconds, session = seconds_for(self.meter.left_s), self._session
        found, problem = None, "nothing can be timed here"
        if seconds < LEAST_S or not self.affordable(1):
            problem = "no time was left to time points"
        elif isinstance(session, ClosingSession):
            found = session.close_parameters(candidate, seconds)
        return found or ClosedParameters(written=candidate.id, values=defaults, problem=problem)

    def judge(self, candidate: Candidate, *, final: bool) -> Evaluation:
        """Return the recorded evaluation of an interrupted run, or make it now and record it."""
        evaluation = self._journal.recorded_evaluation(candidate.id, is_final=final)
        if evaluation is None:
            told: dict[str, SpanValue] = {"kernelwright.candidate": candidate.id, "kernelwright.final": final}
            with span(self.spec.is_traced, "evaluate", told) as tell:
                evaluation = self._session.evaluate(
                    candidate,
                    final=final,
                    floors=self.problem.floors,
                    baselines=self.spec.baselines if final else ("eager",),
                )
                tell(_as_result(evaluation))
        self.emit(CandidateEvaluated(step=self.state.step, candidate=candidate.id, evaluation=evaluation))
        self.problem = with_corrected_floors(self.problem, evaluation)
        return evaluation

    def alternate(self, candidates: Sequence[Candidate], limit_s: float | None) -> Alternation | None:
        """Return how an interrupted run had timed these finalists in turn, or time them; None: nobody can."""
        known = self._journal.recorded_alternation([candidate.id for candidate in candidates])
        if known is not None:
            return known
        session = self._session
        return session.alternate(candidates, limit_s) if isinstance(session, AlternatingSession) else None

    def replace_base(self, candidate_id: str) -> None:
        """Make a verified candidate the one that the next plan starts from."""
        self.state.base = candidate_id
        speedup = self.state.speedup(candidate_id) or 0.0
        self.emit(BaseReplaced(step=self.state.step, candidate=candidate_id, speedup=speedup))

    def emit(self, event: Event) -> None:
        """Record an event, let the short-term memory see it, tell the listener."""
        self.state.short_term.observe(event)
        self._journal.emit(event)

    def _attempt(self, candidate: Candidate, base_id: str | None, evaluation: Evaluation) -> Attempt:
        known = [r.floor_fraction for r in evaluation.results if r.floor_fraction is not None]
        return Attempt(
            step=self.state.step,
            mode=self._mode,
            candidate=candidate.id,
            base=base_id,
            is_verified=evaluation.is_verified,
            speedup=self.state.standing(candidate.id),
            floor_fraction=min(known) if known else None,
            reference=self._reference or next(iter(candidate.parents[1:]), None),
            stage=evaluation.stage,
        )

    def _credit(self, candidate: Candidate) -> None:
        """Write into the ledger what the idea behind a candidate has come to so far.

        A later repair of the same idea replaces its line: an idea is worth what its chain ends in.
        """
        attempt = self.state.short_term.idea_of(candidate.id)
        context = self.state.contexts.get((attempt.base, attempt.move.key)) if attempt else None
        if attempt is None or context is None:
            return
        outcome = Outcome(
            skill=attempt.move.skill,
            target=str(self.spec.target),
            structure=context.structure,
            bottleneck=context.bottleneck,
            task_id=self.spec.task.id,
            run_id=self._journal.run_id,
            move_key=f"{attempt.base}:{attempt.move.key}",
            verified=attempt.is_verified,
            log_speedup=math.log(attempt.speedup) if attempt.speedup else None,
            expected=attempt.move.expects,
            coder=self.spec.coder,
            params=attempt.move.params,
        )
        self.state.outcomes[outcome.move_key] = outcome


def _told_before(journal: Journal) -> dict[str, float] | None:
    """Return eager's latencies as an interrupted run told its roles: a resumed one asks the same."""
    prepared = (event for event in journal.events() if isinstance(event, TaskPrepared))
    return next((dict(event.baselines_ms) for event in prepared), None)


def verified_first(context: StepContext, candidates: Sequence[str]) -> str | None:
    """Return the fastest verified of some candidates, None when none is."""
    verified = [c for c in candidates if context.state.speedup(c) is not None]
    return max(verified, key=lambda c: context.state.speedup(c) or 0.0, default=None)


def _as_result(evaluation: Evaluation) -> dict[str, SpanValue]:
    """Return a verdict as attributes; the score is the speedup over eager."""
    speedup = evaluation.geomean_speedup()
    score: dict[str, SpanValue] = {} if speedup is None else {"gen_ai.evaluation.score.value": speedup}
    label = evaluation.status.value
    return {"gen_ai.evaluation.name": "referee", "gen_ai.evaluation.score.label": label, **score}
