"""Nsight Systems: which kernels take the time; needs no counters."""

from collections.abc import Sequence
from pathlib import Path

from kernelwright.targets.gpu.profilers.profile import GpuProfile, KernelProfile, make_profile, unreadable
from kernelwright.targets.gpu.profilers.table import find_table, number

TOOL = "nsys"
_NO_DATA = "does not contain CUDA kernel data"


def nsys_commands(
    program: Sequence[str], report: Path, *, from_start: bool = True
) -> tuple[list[str], list[str]]:
    """Return the command that records a run to ``report`` (``.nsys-rep``), and the one that prints it.

    ``from_start`` False: it records from the program's ``cudaProfilerStart`` to its ``cudaProfilerStop``.
    """
    record = [TOOL, "profile", "--trace", "cuda", "--sample", "none", "--cpuctxsw", "none"]
    record += [] if from_start else ["--capture-range", "cudaProfilerApi", "--capture-range-end", "stop"]
    record += ["--force-overwrite", "true", "--output", str(report), *program]
    show = [TOOL, "stats", "--report", "cuda_gpu_kern_sum", "--format", "csv", "--output", "-"]
    return record, [*show, str(report)]


def parse_nsys(text: str) -> GpuProfile:
    """Return the profile from ``nsys stats --report cuda_gpu_kern_sum --format csv``."""
    rows = find_table(text, "Total Time (ns)", "Instances", "Name")
    if rows is None:
        return make_profile(TOOL, []) if _NO_DATA in text else unreadable(TOOL, text)
    return make_profile(TOOL, [kernel for row in rows if (kernel := _kernel(row)) is not None])


def _kernel(row: dict[str, str]) -> KernelProfile | None:
    total, launches = number(row["Total Time (ns)"]), number(row["Instances"])
    if total is None or not launches:
        return None
    metrics = {name: value for name in row if (value := number(row[name])) is not None and name != "Name"}
    return KernelProfile(name=row["Name"], launches=int(launches), total_us=total * 1e-3, metrics=metrics)
