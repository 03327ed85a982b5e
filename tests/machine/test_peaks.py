"""Peaks: plausible, cached, only ever raised; the curve bounds bandwidth from above."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.core.errors import MachineError
from kernelwright.core.roofline import BandwidthPoint, Peaks, Work, floor
from kernelwright.machine import peaks as module
from kernelwright.machine.peaks import measure_peaks
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


@pytest.mark.usefixtures("small_probe")
def test_measured_peaks_are_plausible_and_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = measure_peaks(tmp_path)
    assert 0.5 < measured.bandwidth_gbps < 20_000 and 0.5 < measured.fma_gflops < 1_000_000
    assert [point.working_set for point in measured.curve] == [64 << 10, 4 << 20]
    spread = measured.spread
    assert spread is not None and spread.fma_gflops.repeats == 2 and measured.measured_on is not None
    assert spread.fma_gflops.low <= spread.fma_gflops.median <= spread.fma_gflops.high == measured.fma_gflops
    assert spread.bandwidth_gbps.high == measured.bandwidth_gbps
    assert spread.cache_bandwidth_gbps.high == measured.cache_bandwidth_gbps
    monkeypatch.setattr(module, "_measure", lambda *_: pytest.fail("measured again"))
    assert measure_peaks(tmp_path) == measured


@pytest.mark.usefixtures("small_probe")
def test_refresh_keeps_the_better_figure_of_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([make_peaks((1, 50.0), (2, 9.0)), make_peaks((1, 40.0), (2, 11.0))])
    monkeypatch.setattr(module, "_measure", lambda *_: next(answers))
    measure_peaks(tmp_path)
    assert [point.gbps for point in measure_peaks(tmp_path, refresh=True).curve] == [50.0, 11.0]


@pytest.mark.usefixtures("small_probe")
def test_damaged_cache_file_is_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_measure", lambda *_: make_peaks((1, 5.0)))
    measure_peaks(tmp_path)
    next(tmp_path.glob("peaks-*.json")).write_text('{"device": "d', encoding="utf-8")
    assert measure_peaks(tmp_path) == make_peaks((1, 5.0))


def test_unwritable_cache_is_a_machine_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(MachineError, match="cannot keep the measured peaks"):
        measure_peaks(tmp_path / "file" / "cache")


def test_working_sets_reach_beyond_the_caches_and_fit_memory() -> None:
    sizes = module._working_sets(CACHES, 24 << 30)
    assert sizes[0] < CACHES.l1 < sizes[1] < sizes[2] < CACHES.l2 < sizes[3] and sizes[-1] == 384 << 20
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


def test_a_probe_that_fails_says_its_last_words(tmp_path: Path) -> None:
    with pytest.raises(MachineError) as failed:
        module._run_probe(tmp_path / "missing.so", (64,))
    assert "missing.so" in str(failed.value) and "-c" not in str(failed.value)


def test_a_cache_that_is_mounted_noexec_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Mounted:
        f_flag = os.ST_NOEXEC

    monkeypatch.setattr(module.os, "statvfs", lambda path: Mounted())
    with pytest.raises(MachineError, match="mounted noexec; put the cache where code may run"):
        module._run_probe(tmp_path / "probe.so", (64,))
