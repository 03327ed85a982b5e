"""What ``doctor`` says of the peaks: the spread, and whether to rely on them."""

from pathlib import Path

import pytest

from kernelwright.core.roofline import FmaCheck, Peaks, PeakSpread, Spread
from kernelwright.machine import doctor
from kernelwright.testing.fake_run import PEAKS

SPREAD = Spread(low=95, median=100, high=103, repeats=5)


def said(monkeypatch: pytest.MonkeyPatch, peaks: Peaks) -> doctor.MachineCheck:
    monkeypatch.setattr(doctor.probe, "measure_peaks", lambda cache_dir: peaks)
    return doctor._peaks(Path("unused"))


def test_median_and_spread_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    spread = PeakSpread(bandwidth_gbps=SPREAD, cache_bandwidth_gbps=SPREAD, fma_gflops=SPREAD)
    found = said(monkeypatch, PEAKS.model_copy(update={"spread": spread}))
    assert found.ok and not found.advice
    assert "100 GFLOP/s (median of 5, 95 to 103)" in found.value


def test_disturbed_peaks_are_a_note_with_the_share_of_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    found = said(monkeypatch, PEAKS.model_copy(update={"is_noisy": True, "waited": 0.31}))
    assert not found.ok and not found.is_required
    assert "31% of a sample; they are measured again after ten minutes" in found.advice


def test_methods_that_disagree_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    check = FmaCheck(chains=24, instructions=1, compiled_gflops=560, written_gflops=230)
    found = said(monkeypatch, PEAKS.model_copy(update={"is_noisy": True, "fma_check": check}))
    assert "two ways to measure arithmetic disagree" in found.advice
