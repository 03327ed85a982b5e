"""What seats leave open is closed before a step sees it: the closed candidate alone is handed in."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from kernelwright.agents.problem import Problem
from kernelwright.agents.roles import Choice, Coder, Debugger, Generator, Situation, Team
from kernelwright.core.candidate import Candidate
from kernelwright.core.closing import ClosedParameters, Closer
from kernelwright.core.errors import UserError
from kernelwright.core.open_parameters import open_parameters
from kernelwright.core.plan import Move, ParamValue, Plan
from kernelwright.core.task import Task
from kernelwright.runs.evaluator import Evaluator, Session, SessionAround

SHARE = 0.1
"""Of the seconds that a run has left, what closing one candidate may take; ours."""
UNLIMITED_S = 20.0
"""Seconds for one candidate in a run without a budget of seconds, and at most in any; ours."""
TUNING_S, MOST_TUNING_S = 25.0, 60.0
"""Seconds that tuning one plan may take in a run without a budget of seconds, and in any; ours."""
TUNING_SHARE = 0.35
"""Of the seconds that are left to search with, what tuning one plan may take; ours."""
TUNING_WORTH = 0.6
"""Of the evaluations that are left, those whose time tuning one plan may take; ours."""
LEAST_TUNING_S = 5.0
"""Below so many seconds the schedules of a plan are not tuned; ours."""
LEAST_EVALUATIONS = 8
"""With fewer evaluations granted, every one of them is the referee's: nothing is tuned; ours."""
LEAST_S = 3.0
"""Below so many seconds nothing is timed: the process that times takes longer to start."""

Close: TypeAlias = Callable[[Candidate], Candidate]


def defaults_of(candidate: Candidate) -> dict[str, ParamValue]:
    """Return the default of each open parameter; empty where nothing is open."""
    try:
        known = open_parameters(candidate.source)
    except UserError:  # no TUNE of ours; whether the source runs is the referee's to say
        return {}
    has_choice = any(len(values) > 1 for values in known.values())
    return {name: values[0] for name, values in known.items()} if has_choice else {}


def seconds_for(left_s: float | None) -> float:
    """Return the seconds that one candidate may take, of those that a run has left (None: any)."""
    return UNLIMITED_S if left_s is None else min(UNLIMITED_S, SHARE * left_s)


def tuning_seconds(search_s: float | None, evaluations: int | None, each_s: float) -> float:
    """Return the seconds that tuning one plan's schedules may take, the start included.

    They follow what is left of a run: seconds to search with (None: any), and evaluations (None: any) of so
    many seconds each.
    """
    seconds = TUNING_S if search_s is None else min(MOST_TUNING_S, TUNING_SHARE * search_s)
    if evaluations is None or each_s <= 0:
        return seconds
    return min(seconds, max(LEAST_TUNING_S, TUNING_WORTH * evaluations * each_s))


class ClosingEvaluator:
    """An evaluator whose sessions close open parameters by timings of their own."""

    def __init__(self, inner: Evaluator, close: Closer) -> None:
        self._inner, self._close = inner, close

    def open(self, task: Task) -> "PointClosingSession":
        """Admit a task, as the inner evaluator does."""
        return PointClosingSession(self._inner.open(task), task, self._close)


class PointClosingSession(SessionAround):
    """See ClosingSession; everything else is the inner session's."""

    def __init__(self, inner: Session, task: Task, close: Closer) -> None:
        super().__init__(inner)
        self._task, self._close = task, close

    def close_parameters(self, candidate: Candidate, seconds: float) -> ClosedParameters:
        """Return the values that cheap timings chose."""
        return self._close(self._task, candidate, seconds)


def closing_team(team: Team, close: Close) -> Team:
    """Return a team whose candidates are closed before anybody sees them."""
    return replace(
        team,
        generator=_ClosingGenerator(team.generator, close),
        coder=_ClosingCoder(team.coder, close),
        debugger=_ClosingDebugger(team.debugger, close),
    )


@dataclass(frozen=True)
class _ClosingGenerator:
    inner: Generator
    close: Close

    def root(self, problem: Problem) -> Candidate:
        return self.inner.root(problem)

    def seeds(self, situation: Situation, count: int) -> tuple[Candidate, ...]:
        return tuple(map(self.close, self.inner.seeds(situation, count)))


@dataclass(frozen=True)
class _ClosingCoder:
    inner: Coder
    close: Close

    def expect(self, situation: Situation, coming: Sequence[Plan]) -> None:
        self.inner.expect(situation, coming)

    def write(self, situation: Situation, choice: Choice) -> Candidate:
        return self.close(self.inner.write(situation, choice))

    def translate(self, situation: Situation, plan: Plan) -> Candidate:
        return self.close(self.inner.translate(situation, plan))

    def rewrite(self, situation: Situation, count: int) -> tuple[Candidate, ...]:
        return tuple(map(self.close, self.inner.rewrite(situation, count)))


@dataclass(frozen=True)
class _ClosingDebugger:
    inner: Debugger
    close: Close

    def repair(self, situation: Situation, tried: tuple[str, ...]) -> tuple[Candidate, Move] | None:
        repaired = self.inner.repair(situation, tried)
        return None if repaired is None else (self.close(repaired[0]), repaired[1])
