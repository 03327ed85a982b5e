"""Which verdict lets a whole model be delivered."""

import pytest

from kernelwright.core.blocks import Composition
from kernelwright.core.evaluation import (
    Evaluation,
    OrdinaryResult,
    Speedup,
    Stage,
    Status,
    Timing,
    WorkloadResult,
)
from kernelwright.whole.composing import is_delivered

TIMING = Timing(median_ms=1.0, p10_ms=1.0, p90_ms=1.0, n_samples=9, calls_per_sample=3)
EAGER_AROUND = Composition(candidate="c", kinds=(0,))
ALONE = Composition(candidate="c", kinds=(), is_compiled=True)


def result(**ratios: float) -> WorkloadResult:
    speedups = tuple(
        Speedup(baseline=name, ratio=ratio, low=ratio / 1.02, high=ratio * 1.02)
        for name, ratio in ratios.items()
    )
    return WorkloadResult(workload="w", candidate=TIMING, baselines={}, speedups=speedups)


def judged(kept: WorkloadResult, ordinary: WorkloadResult) -> Evaluation:
    there = OrdinaryResult(timed="module", all_threads=ordinary, one_thread=None, memory=None)
    return Evaluation(
        candidate_id="c", task_id="t", stage=Stage.DONE, status=Status.VERIFIED, results=(kept,),
        ordinary=(there,), is_final=True,
    )  # fmt: skip


@pytest.mark.parametrize("way", [EAGER_AROUND, ALONE])
def test_a_model_slower_than_a_baseline_in_an_ordinary_process_stays_as_it_is(way: Composition) -> None:
    kept = result(eager=2.0, torch_compile=1.5)
    assert is_delivered(judged(kept, result(eager=2.0, torch_compile=1.2)), [way])
    assert not is_delivered(judged(kept, result(eager=2.0, torch_compile=0.9)), [way])
    assert not is_delivered(judged(kept, result(eager=1.0, torch_compile=1.2)), [way])


def test_what_stands_for_torch_compile_of_the_model_may_be_slower_than_that() -> None:
    found = judged(result(eager=2.0, torch_compile=0.9), result(eager=2.1, torch_compile=1.0))
    assert is_delivered(found, [ALONE]) and not is_delivered(found, [EAGER_AROUND])


def test_what_its_own_python_slows_down_in_the_process_that_asked_stays_as_it_is() -> None:
    found = judged(result(eager=2.0, torch_compile=1.5), result(eager=2.0, torch_compile=1.6))
    for ratio, holds in ((1.9, True), (1.1, False)):
        here = Speedup(baseline="original", ratio=ratio, low=ratio / 1.02, high=ratio * 1.02)
        assert is_delivered(found, [EAGER_AROUND.model_copy(update={"in_process": here})]) is holds
