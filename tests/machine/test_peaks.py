"""Peaks: whole, quiet, cached; the curve bounds bandwidth from above."""

import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.core.errors import MachineError
from kernelwright.core.roofline import PROBE_VERSION, BandwidthPoint, Peaks, PeakSpread, Spread, Work, floor
from kernelwright.machine import peaks as module
from kernelwright.machine.object_code import count_in
from kernelwright.machine.peaks import measure_peaks
from kernelwright.machine.probe_figures import read_figures
from kernelwright.machine.topology import Caches

CACHES = Caches(l1=96 << 10, l2=4 << 20, l3=480 << 20)


def make_peaks(*curve: tuple[int, float]) -> Peaks:
    points = tuple(BandwidthPoint(working_set=size, gbps=gbps) for size, gbps in curve)
    return Peaks(
        device="d",
        n_threads=2,
        bandwidth_gbps=10,
        cache_bandwidth_gbps=100,
        cache_bytes=1000,
        fma_gflops=100,
        source="test",
        curve=points,
    )


@pytest.fixture
def small_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_working_sets", lambda *_: (64 << 10, 4 << 20))
    monkeypatch.setattr(module, "_LIMIT_S", 0.5)


@pytest.mark.usefixtures("small_probe")
def test_measured_peaks_are_plausible_and_do_every_multiply_add(tmp_path: Path) -> None:
    measured = module.measure_again(tmp_path)
    assert 0.5 < measured.bandwidth_gbps < 20_000 and 0.5 < measured.fma_gflops < 1_000_000
    assert [point.working_set for point in measured.curve] == [64 << 10, 4 << 20]
    check, spread = measured.fma_check, measured.spread
    assert check is not None and check.is_whole
    assert spread is not None and spread.fma_gflops.low <= measured.fma_gflops <= spread.fma_gflops.high
    assert set(dict(measured.functions)) == {"exp", "log", "tanh", "erf", "sqrt", "div"}
    assert all(rate > 0 for _, rate in measured.functions)
    assert measured.levels and all(rate.read_gbps > 0 and rate.copy_gbps > 0 for rate in measured.levels)
    assert not measured.is_outdated and measured.measured_on is not None


def quiet(fma: float) -> Peaks:
    return make_peaks().model_copy(update={"probe": PROBE_VERSION, "fma_gflops": fma})


def noisy(fma: float) -> Peaks:
    return quiet(fma).model_copy(update={"is_noisy": True})


@pytest.mark.usefixtures("small_probe")
@pytest.mark.parametrize(
    ("before", "after", "kept"),
    [
        (quiet(100), quiet(90), 90),
        (quiet(100), quiet(110), 110),
        (quiet(100), noisy(110), 100),
        (noisy(100), quiet(90), 90),
        (noisy(100), noisy(90), 90),
    ],
)
def test_refresh_keeps_the_quiet_measurement_and_never_the_better_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: Peaks, after: Peaks, kept: float
) -> None:
    answers = iter([before, after])
    monkeypatch.setattr(module, "_measure", lambda *_: next(answers))
    assert measure_peaks(tmp_path) == before
    assert measure_peaks(tmp_path, refresh=True).fma_gflops == kept


@pytest.mark.usefixtures("small_probe")
def test_only_disturbed_peaks_are_measured_again_and_only_when_they_are_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([noisy(50), quiet(100)])
    monkeypatch.setattr(module, "_measure", lambda *_: next(answers))
    assert [measure_peaks(tmp_path).fma_gflops for _ in range(2)] == [50, 50]
    for _ in range(2):
        long_ago = time.time() - 2 * module.NOISY_KEPT_S
        os.utime(next(tmp_path.glob("peaks*.json")), (long_ago, long_ago))
        assert measure_peaks(tmp_path).fma_gflops == 100


@pytest.mark.usefixtures("small_probe")
def test_what_an_older_probe_measured_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_measure", lambda *_: quiet(100))
    measure_peaks(tmp_path)
    older = quiet(560).model_copy(update={"probe": PROBE_VERSION - 1, "source": "measured 2026-11-20"})
    next(tmp_path.glob("peaks*.json")).write_text(older.model_dump_json(), encoding="utf-8")
    assert older.is_outdated and measure_peaks(tmp_path).fma_gflops == 100


def lines(*rounds: dict[str, tuple[float, float]]) -> str:
    """What the probe prints of two threads: name -> rate in 1e9 and the share of waiting."""
    told = [
        [*(f"{name} 2 0 {rate * 1e9:g} {waited}" for name, (rate, waited) in found.items()), "end 0 0 0 0"]
        for found in rounds
    ]
    return "\n".join(["chains 24 0 0 0", *(line for found in told for line in found)])


def test_a_figure_is_the_median_of_its_quiet_rounds() -> None:
    rates = [(100, 0.0), (40, 0.5), (104, 0.01), (102, 0.0), (90, 0.039)]
    found = read_figures(lines(*({"exp": rate} for rate in rates)), 2)
    assert found.functions() == {"exp": 101} and not found.is_noisy and found.waited == 0.039


def test_figures_with_too_few_quiet_rounds_are_noisy() -> None:
    found = read_figures(lines({"exp": (50, 0.5)}, {"exp": (60, 0.3)}, {"exp": (10, 0.04)}), 2)
    assert found.is_noisy and found.functions() == {"exp": 60}


def test_two_ways_that_use_different_units_add_up() -> None:
    both: dict[str, tuple[float, float]] = {"div": (10, 0.0), "div+": (30, 0.0)}
    assert read_figures(lines(both), 2).functions() == {"div": 40}


def test_a_probe_whose_chains_were_merged_is_found_out() -> None:
    merged: dict[str, tuple[float, float]] = {"fma_compiled": (600, 0.0), "fma_written": (230, 0.0)}
    found = read_figures(lines(merged), 2)
    check = found.fma_check(instructions=1)
    assert not check.is_whole and not check.do_agree and found.fma(check).median == 230
    alone = read_figures(lines({"fma_compiled": (600, 0.0)}), 2)
    check = alone.fma_check(instructions=1)
    assert not check.is_whole and alone.fma(check).median == 600 / 24


def test_accumulators_are_the_rate_of_many_chains_over_that_of_one() -> None:
    rates: dict[str, tuple[float, float]] = {"fma_written": (240, 0.0), "fma_one_chain": (30, 0.0)}
    assert read_figures(lines(rates), 2).fma_in_flight() == 8
    assert read_figures(lines({"fma_compiled": (600, 0.0)}), 2).fma_in_flight() is None


@pytest.mark.parametrize("text", ["", "chains 24 0 0 0\nexp 2 0 1e9 0", "exp 2 0", "exp two 0 1e9 0"])
def test_what_is_no_round_of_figures_is_a_machine_error(text: str) -> None:
    with pytest.raises(MachineError, match="peak probe"):
        read_figures(text, 2)


def test_multiply_adds_are_counted_in_one_function() -> None:
    text = """
0000000000001000 <other>:
  1000: vfmadd213ps %zmm1,%zmm2,%zmm3

0000000000001100 <fma_compiled>:
  1100: vfmadd132ps %zmm1,%zmm2,%zmm3
  1108: vaddps %zmm1,%zmm2,%zmm3
  1110: vfmadd231ps %zmm1,%zmm2,%zmm3

0000000000001200 <after>:
  1200: vfmadd213ps %zmm1,%zmm2,%zmm3
"""
    assert count_in(text, "fma_compiled") == 2 and count_in(text, "missing") is None
    assert count_in("<f>:\n fmla v0.4s, v1.4s, v2.4s\n fadd v0.4s, v1.4s, v2.4s", "f") == 1


@pytest.mark.usefixtures("small_probe")
def test_damaged_cache_file_is_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_measure", lambda *_: quiet(5))
    measure_peaks(tmp_path)
    next(tmp_path.glob("peaks*.json")).write_text('{"device": "d', encoding="utf-8")
    assert measure_peaks(tmp_path) == quiet(5)


def test_unwritable_cache_is_a_machine_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(MachineError, match="cannot keep the measured peaks"):
        measure_peaks(tmp_path / "file" / "cache")


def test_working_sets_reach_beyond_the_caches_and_fit_memory() -> None:
    sizes = module._working_sets(CACHES, 24 << 30)
    assert sum(size < CACHES.l1 for size in sizes) == 2 and sum(size < CACHES.l2 for size in sizes) == 5
    assert (CACHES.l3 or 0) // 2 in sizes and sizes[-1] == 384 << 20
    assert max(module._working_sets(CACHES, 400 << 20)) <= 100 << 20


curves = st.lists(st.tuples(st.integers(1, 10**9), st.floats(1, 1000)), min_size=1, unique_by=lambda p: p[0])


@given(curves, st.integers(1, 10**9), st.integers(1, 10**9))
def test_bandwidth_never_rises_with_the_working_set(
    curve: list[tuple[int, float]], first: int, second: int
) -> None:
    found = make_peaks(*sorted(curve))
    small, large = sorted((first, second))
    assert found.bandwidth_at(small) >= found.bandwidth_at(large)


@given(curves)
def test_no_measured_point_lies_above_the_bound(curve: list[tuple[int, float]]) -> None:
    found = make_peaks(*sorted(curve))
    assert all(gbps <= found.bandwidth_at(size) for size, gbps in curve)


def test_floor_uses_the_curve_and_two_levels_without_one() -> None:
    work = Work(flops=1, min_bytes=2_000_000)
    assert floor(work, make_peaks()).ms == pytest.approx(0.2)
    assert floor(work, make_peaks((1, 500.0), (1_000_000, 40.0), (3_000_000, 5.0))).ms == pytest.approx(0.05)
    assert floor(Work(flops=10**9, min_bytes=8), make_peaks()).bound_by == "compute"


def test_functions_count_at_the_rate_of_the_cheapest_and_doubt_nobody() -> None:
    peaks = make_peaks().model_copy(update={"functions": (("exp", 10.0), ("tanh", 5.0), ("div", 1.0))})
    found = floor(
        Work(flops=1, min_bytes=8, functions=(("tanh", 10**7), ("div", 10**6), ("other", 10**9))), peaks
    )
    assert found.ms == pytest.approx(2.0) and found.bound_by == "compute"
    assert found.least_ms == pytest.approx(8 / 100 / 1e6)


def test_rounded_products_are_bound_by_their_own_rate_or_by_nothing() -> None:
    work = Work(flops=10**9, min_bytes=8, may_round=True)
    assert floor(work, quiet(100).model_copy(update={"rounded_gflops": 400.0})).ms == pytest.approx(2.5)
    assert floor(work, quiet(100)).bound_by == "memory"


def test_the_highest_rates_are_those_of_any_round() -> None:
    spread = Spread(low=1, median=100, high=120, repeats=5)
    peaks = quiet(100).model_copy(
        update={
            "spread": PeakSpread(bandwidth_gbps=spread, cache_bandwidth_gbps=spread, fma_gflops=spread),
            "curve": (BandwidthPoint(working_set=1, gbps=10, high_gbps=12),),
        }
    )
    highest = peaks.highest()
    assert highest.fma_gflops == 120 and highest.bandwidth_at(1) == 12 and highest.bandwidth_gbps == 120


def test_a_probe_that_fails_says_its_last_words(tmp_path: Path) -> None:
    with pytest.raises(MachineError) as failed:
        module._run_probe(tmp_path / "missing.so", [(1, 64)])
    assert "missing.so" in str(failed.value) and "-c" not in str(failed.value)


def test_a_cache_that_is_mounted_noexec_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Mounted:
        f_flag = os.ST_NOEXEC

    monkeypatch.setattr(module.os, "statvfs", lambda path: Mounted())
    with pytest.raises(MachineError, match="mounted noexec; put the cache where code may run"):
        module._run_probe(tmp_path / "probe.so", [(1, 64)])
