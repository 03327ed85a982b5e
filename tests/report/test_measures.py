import pytest
from hypothesis import given
from hypothesis import strategies as st
from lab.sample_run import COMPILE_MS, EAGER_MS, FLOOR, make_store, verified

from kernelwright.report.measures import (
    baseline_ms,
    duration,
    floor_fraction,
    geomean,
    latency_ms,
    millis,
    speedup_over,
    times,
)

CANDIDATE = next(iter(make_store().candidates.values()))


def test_geomean_of_a_ratio_and_its_inverse_is_one() -> None:
    assert geomean([4.0, 0.25]) == pytest.approx(1.0)
    assert geomean([]) is None
    assert geomean([0.0, 4.0]) == 0.0, "an interval of somebody else's may begin there"


@given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=300))
def test_geomean_lies_between_the_extremes_and_never_overflows(ratios: list[float]) -> None:
    middle = geomean(ratios)
    assert middle is not None
    assert min(ratios) * 0.999999 <= middle <= max(ratios) * 1.000001


def test_speedup_over_workloads_is_the_geomean_of_each_end() -> None:
    one, two = verified(CANDIDATE, 1.2), verified(CANDIDATE, 4.8)
    both = one.model_copy(update={"results": (one.results[0], two.results[0])})
    speedup = speedup_over(both, "eager")
    assert speedup is not None
    assert speedup.ratio == pytest.approx(4.0)
    assert speedup.low == pytest.approx(4.0 * 0.96)


def test_what_was_not_measured_is_none() -> None:
    searched = verified(CANDIDATE, 1.6)
    assert speedup_over(searched, "torch_compile") is None
    assert baseline_ms(searched, "torch_compile") is None
    unknown = searched.results[0].model_copy(update={"floor_ms": None})
    assert floor_fraction(searched.model_copy(update={"results": (*searched.results, unknown)})) is None


def test_figures_of_a_final_evaluation() -> None:
    final = verified(CANDIDATE, 1.6, final=True)
    assert latency_ms(final) == pytest.approx(1.6)
    assert baseline_ms(final, "eager") == pytest.approx(EAGER_MS)
    assert baseline_ms(final, "torch_compile") == pytest.approx(COMPILE_MS)
    assert floor_fraction(final) == pytest.approx(FLOOR.ms / 1.6)


@pytest.mark.parametrize(
    ("ms", "text"), [(0.0005, "500 ns"), (0.0123, "12.3 us"), (4.56, "4.56 ms"), (1200.0, "1.2 s")]
)
def test_latency_is_spelled_in_its_unit(ms: float, text: str) -> None:
    assert millis(ms) == text


def test_ratios_and_durations_are_short() -> None:
    assert [times(r) for r in (0.971, 2.4, 13.21, 120.4)] == ["0.97x", "2.40x", "13.2x", "120x"]
    assert [duration(s) for s in (0.42, 12.2, 185.0)] == ["0.4 s", "12 s", "3 min 05 s"]
