"""Final verdicts with given ratios, for tests of what follows from them."""

from kernelwright.core.evaluation import (
    Evaluation,
    OrdinaryResult,
    PeakMemory,
    Speedup,
    Stage,
    Status,
    Timing,
    WorkloadResult,
)

WIDTH = 1.02
"""Of the intervals: from the ratio over this to the ratio times this."""
TIMING = Timing(median_ms=1.0, p10_ms=1.0, p90_ms=1.0, n_samples=9, calls_per_sample=3)


def speedup(baseline: str, ratio: float) -> Speedup:
    return Speedup(baseline=baseline, ratio=ratio, low=ratio / WIDTH, high=ratio * WIDTH)


def result(**ratios: float) -> WorkloadResult:
    """Return a result with these ratios, by baseline."""
    speedups = tuple(speedup(name, ratio) for name, ratio in ratios.items())
    timings = dict.fromkeys(ratios, TIMING)
    return WorkloadResult(workload="w", candidate=TIMING, baselines=timings, speedups=speedups)


def final(
    kept: WorkloadResult, ordinary: WorkloadResult | None = None, alone: WorkloadResult | None = None
) -> Evaluation:
    """Return what was found with memory kept, in an ordinary process, and there with one thread."""
    measured = None
    if ordinary is not None:
        memory = PeakMemory(delivered_bytes=11, original_bytes=10)
        measured = (OrdinaryResult(timed="module", all_threads=ordinary, one_thread=alone, memory=memory),)
    return Evaluation(
        candidate_id="c", task_id="t", stage=Stage.DONE, status=Status.VERIFIED, results=(kept,),
        ordinary=measured, is_final=True,
    )  # fmt: skip
