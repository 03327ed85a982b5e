"""Confidence intervals for few observations."""

import math
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import NamedTuple


class Interval(NamedTuple):
    """Both ends."""

    low: float
    high: float


def wilson(wins: float, n: int, z: float) -> Interval:
    """Return the score interval of a share; ``z`` is the normal quantile of each end (1.96: two-sided 95 %).

    ``wins`` need not be whole: a mean over seeds. Without observations it is 0 to 1. Source: Wilson, JASA 22
    (1927).
    """
    if n == 0:
        return Interval(0.0, 1.0)
    share = wins / n
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    # The share itself bounds both ends: rounding must not put a certain 0 or 1 outside.
    return Interval(max(min(middle - half, share), 0.0), min(max(middle + half, share), 1.0))


def mean_interval(values: Sequence[float], z: float) -> Interval:
    """Return Student's interval of a mean; ``z`` is the normal quantile of each end. Unbounded below two."""
    if len(values) < 2:
        return Interval(-math.inf, math.inf)
    half = student_quantile(z, len(values) - 1) * stdev(values) / math.sqrt(len(values))
    return Interval(fmean(values) - half, fmean(values) + half)


def student_quantile(z: float, degrees: int) -> float:
    """Return Student's quantile of the same probability as the normal ``z``.

    The first three terms of its expansion in 1/degrees (Abramowitz and Stegun 26.7.5): within 1 % from five
    degrees of freedom on for ``z`` up to 2, too small below.
    """
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    return z + first / degrees + second / degrees**2
