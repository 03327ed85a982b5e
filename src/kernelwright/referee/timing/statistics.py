"""From paired samples to a ratio with an honest interval; pure functions over milliseconds.

Two processes that run the same code are not equally fast. The physical pages that they were given matter too:
on large tensors by tens of percent. A search measurement has one pair of processes (candidate and baselines)
and widens its interval by a spread that is known beforehand. A final measurement has several pairs and takes
the spread from them.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from kernelwright.core.evaluation import Speedup, Timing, WorkloadResult

N_RESAMPLES = 1000
CONFIDENCE = 0.95
BOOTSTRAP_SEED = 20251120
"""Fixed, so that the same samples always give the same interval."""
FEWEST_RESAMPLED = 8
"""With fewer pairs than this a bootstrap of the median is narrower than the truth."""
MIN_ROUNDS = 3
"""Fewest samples of a side in one pair of processes, even for a slow kernel."""
WANTED_ROUNDS = 9
"""Samples after which a tight interval may end a search measurement. Where the intended time holds fewer, a
measurement goes on for them."""
MOST_AIMS = 4
"""But not for longer than this many times the intended time."""
TIGHT = 1.03
"""An interval is tight when its ends are within this factor."""
CLEARLY_SLOWER = 0.4
"""A search measurement ends early when the interval lies below this ratio."""
LOOKS = (4, 7)
"""Numbers of pairs after which a final measurement may end: after the first number if the interval is tight
or clear, after the second in any case."""
TIGHT_FINAL = 1.04
"""At the first look: an interval whose ends are within this factor is tight."""
CLEAR = 2.0
"""At the first look: an interval is clear when its centre is more than this many half-widths from ratio 1."""
WIDENED = 1.15
"""Factor on the half-width of Student's t, because the data are looked at twice. In simulations of many kinds
of spread it keeps the share of false calls at 5 % (tests/referee/test_timing.py)."""
SHARED = 0.006
"""Standard deviation of the log ratio that all pairs of a final have in common, so that their spread does not
show it: the pairs are forked from one process, and their heaps fill in the same way."""
T_975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
"""Quantile 0.975 of Student's t for 1, 2, 3 … degrees of freedom."""
NORMAL_975 = 1.96

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Samples:
    """Timings of one pair of processes on one workload: milliseconds per call, one entry per round."""

    candidate: tuple[float, ...]
    baselines: Mapping[str, tuple[float, ...]]
    calls: Mapping[str, int]
    """Calls in one sample, by baseline; those of the candidate under ``candidate``."""
    factor: float = 1.0
    """What the candidate's times have been multiplied by, because calls on new values take it longer."""

    def with_factor(self, factor: float) -> "Samples":
        """Return the same with the candidate's times multiplied by this, where they were by less."""
        if factor <= self.factor:
            return self
        candidate = tuple(ms * factor / self.factor for ms in self.candidate)
        return replace(self, candidate=candidate, factor=factor)


def summarise(samples_ms: Sequence[float], calls_per_sample: int) -> Timing:
    """Return median and quantiles of samples, each of which is the mean over its calls."""
    p10, median, p90 = (float(q) for q in np.quantile(samples_ms, (0.1, 0.5, 0.9)))
    return Timing(
        median_ms=median, p10_ms=p10, p90_ms=p90, n_samples=len(samples_ms), calls_per_sample=calls_per_sample
    )


def compare(
    baseline: str, baseline_ms: Sequence[float], candidate_ms: Sequence[float], *, spread: float = 0.0
) -> Speedup:
    """Return the median ratio of one pair of processes with its 95 % interval.

    Sample i of both sides comes from the same round, so drift of the machine cancels. The interval is a
    percentile bootstrap; with few samples it is Student's t on the logarithms.

    Args:
        baseline: the baseline's name.
        baseline_ms: the baseline's samples, one per round.
        candidate_ms: the candidate's samples, one per round.
        spread: standard deviation of the log ratio between pairs of processes that run the same code. The
            interval is widened by it. With 0 the interval holds for these two processes only.
    """
    logs = np.log(np.asarray(baseline_ms, dtype=float) / np.asarray(candidate_ms, dtype=float))
    centre = float(np.median(logs))
    low, high = _within(logs)
    beyond = spread * NORMAL_975
    below = math.hypot(max(centre - low, 0.0), beyond)
    above = math.hypot(max(high - centre, 0.0), beyond)
    return _speedup(baseline, centre, below, above)


def _within(logs: Array) -> tuple[float, float]:
    n = logs.size
    if n == 1:
        return float(logs[0]), float(logs[0])
    if n < FEWEST_RESAMPLED:
        half = T_975[n - 2] * float(np.std(logs, ddof=1)) / math.sqrt(n)
        centre = float(np.median(logs))
        return centre - half, centre + half
    rng = np.random.default_rng(BOOTSTRAP_SEED)
    picks = rng.integers(n, size=(N_RESAMPLES, n))
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(np.median(logs[picks], axis=1), (tail, 1 - tail))
    return float(low), float(high)


def compare_processes(baseline: str, pairs: Sequence[Samples]) -> Speedup:
    """Return the ratio over several pairs of processes with its interval.

    Each pair counts once, with the median of its paired log ratios, however many samples it has: samples of
    one process are not independent of each other. The interval is Student's t over the pairs, widened by
    ``WIDENED`` and by ``SHARED``.
    """
    return over_processes(baseline, [_median_log_ratio(pair, baseline) for pair in pairs])


def over_processes(baseline: str, log_ratios: Sequence[float]) -> Speedup:
    """Return the ratio of which each set of processes gave one logarithm; see ``compare_processes``."""
    logs = np.asarray(log_ratios)
    centre = float(np.mean(logs))
    half = WIDENED * T_975[logs.size - 2] * float(np.std(logs, ddof=1)) / math.sqrt(logs.size)
    half = math.hypot(half, NORMAL_975 * SHARED)
    return _speedup(baseline, centre, half, half)


def is_enough(samples: Samples, spent_s: float, aim_s: float, *, is_final: bool) -> bool:
    """Return whether one pair of processes has given enough samples, after so many seconds for them.

    Args:
        samples: those taken so far, as many of each side.
        spent_s: seconds that they took, with all that belongs to them.
        aim_s: seconds that they should take.
        is_final: other pairs follow, and how clear a single one is decides nothing.
    """
    n = len(samples.candidate)
    if n < MIN_ROUNDS:
        return False
    if spent_s > aim_s and (n >= WANTED_ROUNDS or spent_s > MOST_AIMS * aim_s):
        return True
    if is_final:
        return False
    speedups = [compare(name, ms, samples.candidate) for name, ms in samples.baselines.items()]
    if any(speedup.high < CLEARLY_SLOWER for speedup in speedups):
        return True
    return n >= WANTED_ROUNDS and all(speedup.high <= speedup.low * TIGHT for speedup in speedups)


def is_settled(pairs: Sequence[Samples]) -> bool:
    """Return whether a final measurement may end after these pairs of processes."""
    first, last = LOOKS
    if len(pairs) == first:
        return all(is_telling(compare_processes(name, pairs)) for name in _shared(pairs))
    return len(pairs) >= last


def is_telling(speedup: Speedup) -> bool:
    """Tell whether more processes would add nothing: the interval is tight, or far from 1."""
    half = math.log(speedup.high / speedup.low) / 2
    return 2 * half <= math.log(TIGHT_FINAL) or abs(math.log(speedup.ratio)) > CLEAR * half


def _median_log_ratio(pair: Samples, baseline: str) -> float:
    return float(np.median(np.log(np.asarray(pair.baselines[baseline]) / np.asarray(pair.candidate))))


def _speedup(baseline: str, centre: float, below: float, above: float) -> Speedup:
    ratio = math.exp(centre)
    low, high = math.exp(centre - below), math.exp(centre + above)
    return Speedup(baseline=baseline, ratio=ratio, low=min(low, ratio), high=max(high, ratio))


def conclude(workload: str, pairs: Sequence[Samples], *, spread: float = 0.0) -> WorkloadResult:
    """Return timings and speedups of one workload from one or several pairs of processes.

    Leaves out a baseline that some pairs lack. ``spread`` is used with one pair only; see ``compare``.
    """
    names = _shared(pairs)
    if len(pairs) == 1:
        only = pairs[0]
        speedups = [compare(name, only.baselines[name], only.candidate, spread=spread) for name in names]
    else:
        speedups = [compare_processes(name, pairs) for name in names]
    return WorkloadResult(
        workload=workload,
        candidate=_pooled(pairs, "candidate"),
        baselines={name: _pooled(pairs, name) for name in names},
        speedups=tuple(speedups),
    )


def _shared(pairs: Sequence[Samples]) -> list[str]:
    return [name for name in pairs[0].baselines if all(name in pair.baselines for pair in pairs)]


def _pooled(pairs: Sequence[Samples], name: str) -> Timing:
    samples = [
        ms for pair in pairs for ms in (pair.candidate if name == "candidate" else pair.baselines[name])
    ]
    return summarise(samples, round(float(np.median([pair.calls[name] for pair in pairs]))))
