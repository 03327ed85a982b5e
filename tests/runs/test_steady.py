"""What was measured while the machine was disturbed is measured once more."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from kernelwright.core.candidate import Candidate
from kernelwright.core.evaluation import Evaluation, Speedup, Stage, Status, Timing, WorkloadResult
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

    def __init__(self, *verdicts: Evaluation) -> None:
        self._left: Iterator[Evaluation] = iter(verdicts)

    def open(self, task: Task) -> "Measured":
        return self

    @property
    def baseline_ms(self) -> Mapping[str, float]:
        return {}

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


def test_what_fails_the_second_time_has_failed() -> None:
    assert judged(verdict(1.0, 17.0), FAILED) is FAILED


def test_finals_are_measured_once() -> None:
    wide = verdict(1.0, 17.0)
    assert judged(wide, final=True) is wide
