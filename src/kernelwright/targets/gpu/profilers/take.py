"""Profiles one candidate with the best tool that is here and allowed: counters, else times of kernels."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from kernelwright.machine.children import bare_environment
from kernelwright.targets.gpu.profilers.choose import function_name, profilers_here
from kernelwright.targets.gpu.profilers.nsight_compute import ncu_command, parse_ncu
from kernelwright.targets.gpu.profilers.nsight_systems import nsys_commands, parse_nsys
from kernelwright.targets.gpu.profilers.one_call import WARM_UPS
from kernelwright.targets.gpu.profilers.profile import GpuProfile, Profiled, ProfileStatus
from kernelwright.targets.gpu.profilers.rocprof import (
    parse_rocprof_counters,
    parse_rocprof_stats,
    rocprof_commands,
)
from kernelwright.targets.gpu.profilers.torch_trace import parse_torch_trace
from kernelwright.targets.registry import find_device_kind

TIMEOUT_S = 90.0
"""For each tool."""
CALLS = 3
"""Under tools that time; ncu, which repeats every launch for its counters, sees one call."""
MOST_LAUNCHES = 200
"""That ncu looks at."""


def take_profile(
    source: str, task_source: str, kind: str, *, mode: str, is_tf32: bool, timeout_s: float = TIMEOUT_S
) -> Profiled:
    """Call a candidate under profilers until one gives a profile; never raises for one that does not.

    The candidate runs unconfined, with the user's rights: give it only what the referee has verified and
    whose author is trusted. ``kind`` is ``cuda`` or ``hip``, ``mode`` a task's; ``is_tf32``: its tolerance
    allows products in TF32, which torch allows convolutions by itself.
    """
    said: list[str] = []
    with tempfile.TemporaryDirectory(prefix="kernelwright-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "task.py").write_text(task_source, encoding="utf-8")
        (folder / "kernel.py").write_text(source, encoding="utf-8")
        where = find_device_kind(kind)
        call = [where.torch_device, mode, "tf32" if is_tf32 else "fp32"]
        for tool in profilers_here(where.driver.vendor if where.driver else kind):
            if tool not in _TAKES:
                continue
            try:
                profile, calls = _TAKES[tool](folder, call, timeout_s)
            except (OSError, subprocess.SubprocessError) as error:
                said.append(f"{tool} did not run ({type(error).__name__})")
                continue
            if profile.status is ProfileStatus.PROFILED:
                return _profiled(profile, calls, said)
            said.append(profile.message)
    return Profiled(note=f"no profile, the compiler's word stands: {'; '.join(said)}")


def _profiled(profile: GpuProfile, calls: int, said: Sequence[str]) -> Profiled:
    hottest = profile.hottest
    assert hottest is not None
    name = function_name(hottest.name)
    facts = profile.facts(calls)
    if sum(kernel.launches for kernel in profile.kernels) >= MOST_LAUNCHES and profile.tool == "ncu":
        del facts["gpu.launches"]  # it looked at no more than that
    note = f"profiled by {profile.tool}: {name} takes the most time of {len(profile.kernels)} kernels"
    return Profiled(facts=facts, hottest=name, note="; ".join([note, *said]))


def _program(folder: Path, call: Sequence[str], calls: int) -> list[str]:
    one_call = str(Path(__file__).with_name("one_call.py"))
    return [sys.executable, one_call, str(folder), *call, str(calls)]


def _by_ncu(folder: Path, call: Sequence[str], timeout_s: float) -> tuple[GpuProfile, int]:
    command = ncu_command(_program(folder, call, 1), launches=MOST_LAUNCHES, from_start=False)
    return parse_ncu(_run(command, folder, timeout_s)), 1


def _by_nsys(folder: Path, call: Sequence[str], timeout_s: float) -> tuple[GpuProfile, int]:
    report = folder / "run.nsys-rep"
    record, show = nsys_commands(_program(folder, call, CALLS), report, from_start=False)
    _run(record, folder, timeout_s)
    return parse_nsys(_run(show, folder, timeout_s)), CALLS


def _by_rocprof(folder: Path, call: Sequence[str], timeout_s: float) -> tuple[GpuProfile, int]:
    """Times decide which kernel is the hottest; its counters are added where they can be read."""
    out, seen = folder / "rocprof", CALLS + WARM_UPS
    times, counters = rocprof_commands(_program(folder, call, CALLS), out)
    words = _run(times, folder, timeout_s)
    timed = parse_rocprof_stats(_table(out, "*kernel_stats.csv") or words)
    hottest = timed.hottest
    if hottest is None:
        return timed, seen
    _run(counters, folder, timeout_s)
    counted = parse_rocprof_counters(_table(out, "*counter_collection.csv"))
    facts = next((kernel.facts for kernel in counted.kernels if kernel.name == hottest.name), {})
    first = hottest.model_copy(update={"facts": {**facts, **hottest.facts}})
    return timed.model_copy(update={"kernels": (first, *timed.kernels[1:])}), seen


def _by_torch(folder: Path, call: Sequence[str], timeout_s: float) -> tuple[GpuProfile, int]:
    trace = folder / "trace.json"
    words = _run([*_program(folder, call, CALLS), str(trace)], folder, timeout_s)
    return parse_torch_trace(trace.read_text(encoding="utf-8") if trace.exists() else words), CALLS


_TAKES = {"ncu": _by_ncu, "nsys": _by_nsys, "rocprofv3": _by_rocprof, "torch.profiler": _by_torch}


def _table(folder: Path, pattern: str) -> str:
    found = sorted(folder.rglob(pattern))
    return found[0].read_text(encoding="utf-8", errors="replace") if found else ""


_KEPT = ("LD_LIBRARY_PATH", "LANG", "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_HOME", "ROCM_PATH")
"""Variables by which a profiler finds its libraries and the device."""


def _run(command: Sequence[str], folder: Path, timeout_s: float) -> str:
    """Return what a command wrote; at the end of its time it and all that it started are killed."""
    process = subprocess.Popen(
        command, cwd=folder, env=bare_environment(str(folder), kept=_KEPT, CUDA_DEVICE_ORDER="PCI_BUS_ID"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    with process:
        try:
            written, _ = process.communicate(timeout=timeout_s)
            return written.decode(errors="replace")
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
