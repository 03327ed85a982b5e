"""From paired samples to a ratio one can trust; pure functions over milliseconds."""

from collections.abc import Sequence

import numpy as np

from kernelwright.core.evaluation import Speedup, Timing

N_RESAMPLES = 1000
CONFIDENCE = 0.95
BOOTSTRAP_SEED = 20251120
"""Fixed, so that the same samples always give the same interval."""


def summarise(samples_ms: Sequence[float], calls_per_sample: int) -> Timing:
    """Return median and quantiles over samples that are each the mean over their calls."""
    p10, median, p90 = (float(q) for q in np.quantile(samples_ms, (0.1, 0.5, 0.9)))
    return Timing(
        median_ms=median, p10_ms=p10, p90_ms=p90, n_samples=len(samples_ms), calls_per_sample=calls_per_sample
    )


def compare(baseline: str, baseline_ms: Sequence[float], candidate_ms: Sequence[float]) -> Speedup:
    """Return the median of the paired ratios with its percentile-bootstrap interval.

    Sample i of both sides was taken in the same round, so that drift of the machine cancels. With fewer
    than six pairs the interval is the range: a bootstrap of so few would be narrower than the truth.
    """
    ratios = np.asarray(baseline_ms) / np.asarray(candidate_ms)
    median = float(np.median(ratios))
    if ratios.size < 6:
        low, high = float(ratios.min()), float(ratios.max())
    else:
        rng = np.random.default_rng(BOOTSTRAP_SEED)
        picks = rng.integers(ratios.size, size=(N_RESAMPLES, ratios.size))
        medians = np.median(ratios[picks], axis=1)
        tail = (1 - CONFIDENCE) / 2
        low, high = (float(q) for q in np.quantile(medians, (tail, 1 - tail)))
    return Speedup(baseline=baseline, ratio=median, low=min(low, median), high=max(high, median))
