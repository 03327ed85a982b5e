"""What was measured while the machine was disturbed is measured once more."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from kernelwright.core.candidate import Candidate
from kernelwright.core.evaluation import (
    EAGER_DRIFT,
    Evaluation,
    Speedup,
    Stage,
    Status,
    Timing,
    WorkloadResult,
)
from kernelwright.core.task import Task
from kernelwright.runs.evaluator import SessionAround
from kernelwright.runs.steady import AGAIN, Steady

TASK = Task(name="t", source="")
CANDIDATE = Candidate(source="x = 1")
TIMING = Timing(median_ms=1.0, p10_ms=1.0, p90_ms=1.0, n_samples=9, calls_per_sample=1)


def verdict(low: float, high: float) -> Evaluation:
    over = Speedup(baseline="eager", ratio=(low * high) ** 0.5, low=low, high=high)
    result = WorkloadResult(workload="w", candidate=TIMING, baselines={"eager": TIMING}, speedups=(over,))
    return Evaluation(
        candidate_id="c", task_id="t", stage=Stage.DONE, status=Status.VERIFIED, results=(result,)
    )


FAILED = Evaluation(candidate_id="c", task_id="t", stage=Stage.VERIFY, status=Status.INCORRECT_NUMERICS)


class Measured(SessionAround):
    """A session whose verdicts are given; it is its own evaluator. A stub."""

    def __init__(self, *verdicts: Evaluation, before_ms: float | None = None) -> None:
        self._left: Iterator[Evaluation] = iter(verdicts)
        self._before = {} if before_ms is None else {"w": before_ms}

    def open(self, task: Task) -> "Measured":
        return self

    @property
    def baseline_ms(self) -> Mapping[str, float]:
        return self._before

    def evaluate(self, candidate: Candidate, **how: Any) -> Evaluation:
        return next(self._left)


def judged(*verdicts: Evaluation, final: bool = False) -> Evaluation:
    return Steady(Measured(*verdicts)).open(TASK).evaluate(CANDIDATE, final=final)


@pytest.mark.parametrize("first", [verdict(1.0, 1.9), FAILED], ids=["narrow", "failed"])
def test_a_verdict_that_says_something_stands(first: Evaluation) -> None:
    assert judged(first) is first


@pytest.mark.parametrize("second", [(1.5, 1.8), (0.2, 40.0)], ids=["narrower", "wider"])
def test_of_two_the_narrower_interval_is_kept(second: tuple[float, float]) -> None:
    wide = verdict(1.0, 17.0)
    kept = judged(wide, verdict(*second))
    assert kept.results == (verdict(*second) if second[0] > 1 else wide).results
    assert AGAIN in kept.notes


def at_eager_ms(ms: float, *, width: float = 1.2) -> Evaluation:
    found = verdict(1.0, width)
    slow = TIMING.model_copy(update={"median_ms": ms})
    results = (found.results[0].model_copy(update={"baselines": {"eager": slow}}),)
    return found.model_copy(update={"results": results})


def test_a_minute_in_which_eager_is_slow_is_measured_again_although_the_interval_is_narrow() -> None:
    quiet, slow, again = at_eager_ms(1.0), at_eager_ms(1.6), at_eager_ms(1.1, width=1.4)
    session = Steady(Measured(quiet, slow, again)).open(TASK)
    assert session.evaluate(CANDIDATE) is quiet
    kept = session.evaluate(CANDIDATE)
    assert kept.results == again.results and not kept.is_disturbed and AGAIN in kept.notes


def test_the_first_is_measured_again_where_eager_was_faster_before_the_search() -> None:
    slow, again = at_eager_ms(1.6), at_eager_ms(1.0)
    session = Steady(Measured(slow, again, at_eager_ms(1.4), before_ms=1.0)).open(TASK)
    kept = session.evaluate(CANDIDATE)
    assert kept.results == again.results and not kept.is_disturbed and AGAIN in kept.notes
    assert AGAIN not in session.evaluate(CANDIDATE).notes


def test_where_eager_is_always_slower_than_alone_the_first_is_not_marked() -> None:
    session = Steady(Measured(at_eager_ms(1.6), at_eager_ms(1.6), before_ms=1.0)).open(TASK)
    assert not session.evaluate(CANDIDATE).is_disturbed


def test_what_stays_disturbed_is_marked_so() -> None:
    session = Steady(Measured(at_eager_ms(1.0), at_eager_ms(3.0), at_eager_ms(2.0, width=1.1))).open(TASK)
    session.evaluate(CANDIDATE)
    kept = session.evaluate(CANDIDATE)
    assert kept.is_disturbed and kept.facts[EAGER_DRIFT] == pytest.approx(2.0)


def test_what_fails_the_second_time_has_failed() -> None:
    assert judged(verdict(1.0, 17.0), FAILED) is FAILED


def test_finals_are_measured_once() -> None:
    wide = verdict(1.0, 17.0)
    assert judged(wide, final=True) is wide
