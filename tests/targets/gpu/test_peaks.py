"""Peaks of a GPU that is here: measured by a real program on a stand-in, kept, and what they override."""

import datetime
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.core.errors import MachineError
from kernelwright.core.evidence import METRICS
from kernelwright.core.roofline import Work, floor
from kernelwright.targets.gpu import peaks as gpu_peaks
from kernelwright.targets.gpu.facts import GPUS, PeakFlops
from kernelwright.targets.gpu.machine import accelerator_of
from kernelwright.targets.gpu.peaks import facts_of, gpu_here, run_gpu
from kernelwright.targets.gpu.probe import GpuSeen, probe
from kernelwright.targets.gpu.roofline import ceilings, source_of
from kernelwright.targets.gpu.roofline import gpu_peaks as peaks_of

DAY = datetime.date(2026, 11, 21)
SEEN = GpuSeen(
    name="NVIDIA H200", architecture="sm_90", units=132, memory_bytes=150_000_000_000, l2_bytes=52428800,
    memory_bandwidth=4.2e12, flops=PeakFlops(fp32=51e12, bf16=700e12),
)  # fmt: skip
"""Made up; nothing was measured on a GPU."""
OTHER = SEEN.model_copy(update={"name": "NVIDIA H200 MIG 1g.18gb", "units": 16})


def test_the_probe_measures_a_stand_in() -> None:
    seen = probe("cpu", copy_bytes=1 << 20, product=64)
    assert seen.memory_bandwidth > 0 and seen.flops.fp32 is not None and seen.flops.fp32 > 0
    assert seen.flops.tf32 is None and seen.flops.fp8 is None


def test_it_is_measured_once_and_kept_and_refreshing_keeps_the_better(tmp_path: Path) -> None:
    asked: list[GpuSeen] = []
    answers = iter(
        (SEEN, SEEN.model_copy(update={"memory_bandwidth": 4.0e12, "flops": PeakFlops(fp32=60e12)}))
    )

    def ask() -> GpuSeen:
        asked.append(next(answers))
        return asked[-1]

    first = gpu_here("cuda", tmp_path, ask=ask)
    assert first is not None and gpu_here("cuda", tmp_path, ask=ask) == first and len(asked) == 1
    assert (first.name, first.memory_bandwidth, first.flops.fp32) == ("h200-sxm", 4.2e12, 51e12)
    again = gpu_here("cuda", tmp_path, refresh=True, ask=ask)
    assert again is not None and (again.memory_bandwidth, again.flops.fp32, again.flops.bf16) == (
        4.2e12, 60e12, 700e12,
    )  # fmt: skip
    (file,) = tmp_path.glob("gpu-*.json")
    file.write_text("damaged")
    assert gpu_here("cuda", tmp_path, ask=lambda: SEEN) == first


def test_a_model_without_published_figures_speaks_for_itself() -> None:
    gpu = facts_of(OTHER, measured_on=DAY)
    assert gpu is not None and (gpu.name, gpu.units, gpu.l2_bytes) == (OTHER.name, 16, 52428800)
    assert gpu.sources["memory_bandwidth"] == "measured 2026-11-21" == source_of(gpu)
    assert ceilings(gpu).memory_bandwidth > gpu.memory_bandwidth
    assert (
        facts_of(SEEN.model_copy(update={"name": "new", "architecture": "sm_999"}), measured_on=DAY) is None
    )


@pytest.mark.parametrize("script", ["raise SystemExit('no device')", "print('no JSON')"])
def test_a_probe_that_fails_leaves_the_published_figures(
    script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = subprocess.run
    monkeypatch.setattr(
        subprocess, "run", lambda command, **more: real([sys.executable, "-c", script], **more)
    )
    with pytest.raises(MachineError, match="probe"):
        gpu_here("cuda", tmp_path)
    monkeypatch.setattr(gpu_peaks, "has_gpu", lambda kind: True)
    assert run_gpu("cuda", tmp_path, "NVIDIA H200") == GPUS["h200-sxm"]
    assert run_gpu("cuda", tmp_path) is None


def test_the_facts_are_of_the_vocabulary() -> None:
    for gpu in GPUS.values():
        assert set(accelerator_of("cuda", gpu, peaks_of(gpu, is_strict=True)).facts()) <= set(METRICS)


@given(st.sampled_from(sorted(GPUS)), st.integers(0, 1 << 36), st.integers(0, 1 << 50), st.booleans())
def test_a_floor_never_counts_what_the_caches_may_hold(
    name: str, n: int, flops: int, is_strict: bool
) -> None:
    gpu = GPUS[name]
    peaks = peaks_of(gpu, is_strict=is_strict)
    cache = max(gpu.l2_bytes or 0, gpu.last_level_bytes or 0)
    found = floor(Work(flops=0, min_bytes=n), peaks).ms / 1e3
    most = max((n - cache) / gpu.memory_bandwidth, n / (peaks.cache_bandwidth_gbps * 1e9))
    assert found <= most * (1 + 1e-9)
    assert found >= 0.5 * (n - cache) / gpu.memory_bandwidth  # and is worth something beyond them
    strict = floor(Work(flops=flops, min_bytes=0), peaks_of(gpu, is_strict=True)).ms
    assert floor(Work(flops=flops, min_bytes=0), peaks_of(gpu, is_strict=False)).ms <= strict
