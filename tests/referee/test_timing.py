"""Ratios and intervals from samples."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright.referee.timing import compare, summarise


def test_the_same_samples_on_both_sides_are_no_significant_change() -> None:
    rng = np.random.default_rng(3)
    one, other = rng.lognormal(0, 0.1, 40), rng.lognormal(0, 0.1, 40)
    assert compare("eager", one, other).verdict == "no_significant_change"


def test_a_clear_difference_is_called_and_drift_cancels() -> None:
    drift = np.linspace(1, 5, 30)
    noise = np.random.default_rng(4).lognormal(0, 0.05, 30)
    speedup = compare("eager", 2 * drift, drift * noise)
    assert speedup.verdict == "faster" and 1.9 < speedup.ratio < 2.1
    assert compare("eager", drift * noise, 2 * drift).verdict == "slower"


def test_one_outlier_of_few_samples_keeps_the_interval_wide() -> None:
    assert compare("eager", [2, 2, 2, 0.5], [1, 1, 1, 1]).verdict == "no_significant_change"


def test_coverage_of_the_interval_is_near_what_it_says() -> None:
    rng = np.random.default_rng(5)
    n_covered = 0
    for _ in range(200):
        speedup = compare("eager", rng.lognormal(0, 0.2, 25), rng.lognormal(0, 0.2, 25))
        n_covered += speedup.low <= 1.0 <= speedup.high
    assert n_covered >= 180


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=30))
def test_summary_and_interval_are_ordered(samples: list[float]) -> None:
    timing = summarise(samples, 3)
    assert timing.p10_ms <= timing.median_ms <= timing.p90_ms
    speedup = compare("eager", samples, samples[::-1])
    assert speedup.low <= speedup.ratio <= speedup.high
