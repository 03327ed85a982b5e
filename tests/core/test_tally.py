"""Sums over outcomes: exact, the same in any order, and what was added can be taken away."""

import math
from random import Random
from statistics import fmean, median, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.core.run import Outcome
from kernelwright.core.tally import Histogram, Tally, histograms_of, key_of, tallies_of
from kernelwright.testing.store_contract import make_outcome

EFFECTS = st.one_of(st.none(), st.floats(-6, 6))


def outcomes_with(effects: list[float | None]) -> list[Outcome]:
    return [make_outcome(verified=effect is not None, log_speedup=effect) for effect in effects]


def total(effects: list[float | None]) -> Tally:
    sums = Tally()
    for outcome in outcomes_with(effects):
        sums = sums.plus(Tally.of(outcome))
    return sums


@given(st.lists(EFFECTS, max_size=20), st.lists(EFFECTS, max_size=20))
def test_sums_are_those_of_the_values_and_can_be_taken_apart(
    first: list[float | None], second: list[float | None]
) -> None:
    both = total([*first, *second])
    known = [effect for effect in (*first, *second) if effect is not None]
    assert both == total([*second, *first]) and both.minus(total(second)) == total(first)
    assert (both.tries, both.measured) == (len(first) + len(second), len(known))
    assert both.wins <= both.measured
    if known:
        assert both.mean == pytest.approx(fmean(known), abs=1e-12)
    if len(known) > 1:
        assert both.spread == pytest.approx(stdev(known), abs=1e-9)


@given(st.lists(st.floats(-6, 6), min_size=1, max_size=40), st.integers(0, 40))
def test_a_histogram_has_the_median_of_the_values(values: list[float], cut: int) -> None:
    parts = [Histogram.of(outcomes_with(list(part))) for part in (values[:cut], values[cut:])]
    whole = parts[0].plus(parts[1])
    assert whole == parts[1].plus(parts[0]) == Histogram.from_plain(whole.plain())
    assert whole.median == median(values)


@given(st.integers(0, 2**32), st.sampled_from([1e-9, 0.3, 6.0, 600.0]))
def test_a_histogram_of_many_values_has_few_bins_the_same_in_whichever_order(seed: int, far: float) -> None:
    rng = Random(seed)
    values = [rng.gauss(0.1, far) for _ in range(2000)]
    whole = Histogram.of(outcomes_with(list(values)))
    parts = Histogram({})
    while values:
        cut = rng.randint(1, 900)
        parts = parts.plus(Histogram.of(outcomes_with(list(values[-cut:]))))
        del values[-cut:]
    assert whole == parts == Histogram.from_plain(whole.plain())
    assert len(whole.counts) <= 512 and sum(whole.counts.values()) == 2000


@given(st.integers(0, 2**32))
def test_the_median_of_many_values_is_off_by_half_a_bin_at_most(seed: int) -> None:
    rng = Random(seed)
    values = [rng.gauss(0.1, 0.3) for _ in range(2000)]
    whole = Histogram.of(outcomes_with(list(values)))
    assert whole.level in (7, 8)
    assert whole.median == pytest.approx(median(values), abs=1 / 256)


def test_histograms_of_earlier_stores_are_read() -> None:
    half = 1 / 2048
    binned = Histogram({0.25 + half: 1, 0.5 + half: 3}, 10)
    assert Histogram.from_plain([True, [0.25, 0.5], [1, 3]]) == binned
    assert Histogram.from_plain([2, [256, 512], [1, 3]]) == binned
    assert Histogram.from_plain([False, [0.1], [2]]) == Histogram({0.1: 2})
    many = Histogram.from_plain([2, [*range(2000)], [1] * 2000])
    assert many.level == 8 and len(many.counts) == 500


@pytest.mark.parametrize("odd", [math.inf, -math.inf, math.nan])
def test_a_speedup_that_is_no_number_is_a_try_without_measurement(odd: float) -> None:
    tally = Tally.of(make_outcome(log_speedup=odd))
    assert (tally.tries, tally.verified, tally.measured, tally.mean) == (1, 1, 0, 0.0)
    assert Histogram.of([make_outcome(log_speedup=odd)]).median is None


def test_tallies_are_kept_apart_by_what_they_are_about() -> None:
    one, two = make_outcome(1, log_speedup=0.5), make_outcome(1, log_speedup=0.5, structure="scan")
    found = tallies_of([one, two, one])
    assert {key: tally.tries for key, tally in found.items()} == {key_of(one): 2, key_of(two): 1}
    (histogram,) = histograms_of([one, two]).values()
    assert histogram.counts == {0.5: 2}
