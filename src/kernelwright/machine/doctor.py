"""Checks everything that Kernelwright depends on: is it there, what is it, what to do about it."""

import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from kernelwright.core.errors import MachineError
from kernelwright.core.roofline import Peaks, PeakSpread, Spread
from kernelwright.machine import counters, probe, topology
from kernelwright.machine.check import MachineCheck
from kernelwright.machine.compiler import CompileFailure, compile_library, find_compiler

__all__ = ["MachineCheck", "checks"]

_COMFORTABLE_BYTES = 4 << 30
Look = Callable[[Path], MachineCheck]
"""One check, given the cache folder; may raise MachineError or OSError."""
_OPTIONAL = ("peaks",)
_OPENMP_SOURCE = """#include <omp.h>
extern "C" int team() { int n = 0;
#pragma omp parallel reduction(+ : n)
  n += 1;
  return n; }
"""


def checks(cache_dir: Path, further: Mapping[str, Look] | None = None) -> tuple[MachineCheck, ...]:
    """Look at everything; measures the peaks when they are not cached yet. Never raises.

    ``further``: optional looks by name, such as those at GPUs.
    """
    looks: tuple[tuple[str, Look], ...] = (
        ("cache folder", _cache_folder),
        ("compiler", _compiler),
        ("openmp", _openmp),
        ("torch", _torch),
        ("processor", _processor),
        ("memory", _memory),
        ("peaks", _peaks),
        ("counters", _counters),
    )
    needed = tuple(_look(name, look, cache_dir, is_required=name not in _OPTIONAL) for name, look in looks)
    others = (further or {}).items()
    return (*needed, *(_look(name, look, cache_dir, is_required=False) for name, look in others))


def _look(name: str, look: Look, cache_dir: Path, *, is_required: bool) -> MachineCheck:
    try:
        return look(cache_dir)
    except (MachineError, OSError) as error:
        return MachineCheck(name, False, "not usable", str(error), is_required=is_required)


def _cache_folder(cache_dir: Path) -> MachineCheck:
    cache_dir.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=cache_dir):
        return MachineCheck("cache folder", True, str(cache_dir), is_required=True)


def _compiler(_: Path) -> MachineCheck:
    found = find_compiler()
    return MachineCheck("compiler", True, f"{found.version} ({found.path})", is_required=True)


def _openmp(cache_dir: Path) -> MachineCheck:
    built = compile_library(_OPENMP_SOURCE, ("-O1", "-fopenmp"), cache_dir)
    if isinstance(built, CompileFailure):
        advice = "install the compiler's OpenMP library (Debian, clang: apt install libomp-dev)"
        return MachineCheck("openmp", False, built.log.partition("\n")[0], advice, is_required=True)
    script = "import ctypes, sys; print(ctypes.CDLL(sys.argv[1]).team())"
    command = [sys.executable, "-I", "-S", "-c", script, str(built.path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    threads = int(done.stdout) if done.returncode == 0 else 0
    if threads == 0:
        return MachineCheck(
            "openmp", False, "a library built with it does not load", done.stderr.strip()[-200:], True
        )
    expected = topology.n_threads()
    advice = "" if threads == expected else f"OMP_NUM_THREADS or a limit keeps it from all {expected}"
    return MachineCheck("openmp", True, f"{threads} threads", advice, is_required=True)


def _torch(_: Path) -> MachineCheck:
    version = probe.version_of("torch")
    advice = "" if version else "pip install torch (for a CPU-only build see the README)"
    return MachineCheck("torch", version is not None, version or "not installed", advice, is_required=True)


def _processor(_: Path) -> MachineCheck:
    width = topology.vector_bytes()
    vectors = f"{width * 8}-bit vectors" if width else "vector width unknown"
    text = f"{topology.processor_model()}, {topology.n_threads()} threads, {vectors}"
    return MachineCheck("processor", True, text)


def _memory(_: Path) -> MachineCheck:
    total, free = topology.total_memory(), topology.available_memory()
    if total is None or free is None:
        return MachineCheck("memory", True, "unknown")
    advice = "" if free >= _COMFORTABLE_BYTES else "less than 4 GiB free: large tasks will not fit"
    return MachineCheck("memory", not advice, f"{free / 2**30:.1f} of {total / 2**30:.1f} GiB free", advice)


def _peaks(cache_dir: Path) -> MachineCheck:
    peaks = probe.measure_peaks(cache_dir)
    ends = f"{peaks.curve[0].gbps:.0f} GB/s in cache, " if peaks.curve else ""
    text = (
        f"{ends}{peaks.bandwidth_gbps:.1f} GB/s to memory{_spread(peaks.spread, 'bandwidth_gbps')}, "
        f"{peaks.fma_gflops:.0f} GFLOP/s{_spread(peaks.spread, 'fma_gflops')} ({peaks.source})"
    )
    advice = "" if not peaks.is_noisy else f"{_noise(peaks)}; they are measured again after ten minutes"
    return MachineCheck("peaks", not peaks.is_noisy, text, advice)


def _spread(spread: PeakSpread | None, name: str) -> str:
    if spread is None:
        return ""
    found: Spread = getattr(spread, name)
    return f" (median of {found.repeats}, {found.low:.3g} to {found.high:.3g})"


def _noise(peaks: Peaks) -> str:
    """Say why the peaks are not to be relied on."""
    check = peaks.fma_check
    if check is not None and not check.do_agree:
        return "two ways to measure arithmetic disagree"
    share = f"{min(peaks.waited or 0.0, 1.0):.0%}"
    return f"other work disturbed them: threads waited for a core for up to {share} of a sample"


def _counters(_: Path) -> MachineCheck:
    found = counters.availability()
    if found.available:
        return MachineCheck("counters", True, "cycles and instructions can be read")
    return MachineCheck("counters", False, f"none: {found.reason}", "not needed; the evidence does without")
