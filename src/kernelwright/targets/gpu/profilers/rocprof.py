"""AMD's profilers: rocprofv3, and rocprof before it."""

from collections.abc import Sequence
from pathlib import Path

from kernelwright.targets.gpu.metrics import ROCPROF, rocprof_facts
from kernelwright.targets.gpu.profilers.profile import GpuProfile, KernelProfile, make_profile, unreadable
from kernelwright.targets.gpu.profilers.table import find_table, number

TOOL = "rocprofv3"
_CLONE = " [clone .kd]"


def rocprof_commands(program: Sequence[str], folder: Path) -> tuple[list[str], list[str]]:
    """Return the command that times all kernels and the one that reads counters; both write below ``folder``.

    The tables are ``**/*_kernel_stats.csv`` and ``**/*_counter_collection.csv``.
    """
    common = ["--output-format", "csv", "--output-directory", str(folder), "--", *program]
    return (
        [TOOL, "--kernel-trace", "--stats", *common],
        [TOOL, "--pmc", *ROCPROF, *common],
    )


def parse_rocprof_stats(text: str) -> GpuProfile:
    """Return the profile from ``kernel_stats.csv`` of rocprofv3, or ``results.stats.csv`` of rocprof."""
    rows = find_table(text, "Name", "Calls", "TotalDurationNs")
    if rows is None:
        return unreadable(TOOL, text)
    found = []
    for row in rows:
        total, launches = number(row["TotalDurationNs"]), number(row["Calls"])
        if total is not None and launches:
            metrics = {name: value for name in row if (value := number(row[name])) is not None}
            name = row["Name"].removesuffix(_CLONE)
            found.append(
                KernelProfile(name=name, launches=int(launches), total_us=total * 1e-3, metrics=metrics)
            )
    return make_profile(TOOL, found)


def parse_rocprof_counters(text: str) -> GpuProfile:
    """Return the profile from ``counter_collection.csv``: a counter of a dispatch a row.

    Times come from the timestamps where the table has them; a dispatch counts once, however many counters
    were read.
    """
    rows = find_table(text, "Dispatch_Id", "Kernel_Name", "Counter_Name", "Counter_Value")
    if rows is None:
        return unreadable(TOOL, text)
    kernels: dict[str, list[dict[str, str]]] = {}
    for row in rows:
        kernels.setdefault(row["Kernel_Name"].removesuffix(_CLONE), []).append(row)
    return make_profile(TOOL, [_kernel(name, found) for name, found in kernels.items()])


def _kernel(name: str, rows: list[dict[str, str]]) -> KernelProfile:
    values: dict[str, list[float]] = {}
    for row in rows:
        value = number(row["Counter_Value"])
        if value is not None:
            values.setdefault(row["Counter_Name"], []).append(value)
    metrics = {counter: sum(each) / len(each) for counter, each in values.items()}
    times = {row["Dispatch_Id"]: _duration_ns(row) for row in rows}
    known = [time for time in times.values() if time is not None]
    return KernelProfile(
        name=name,
        launches=len(times),
        total_us=sum(known) * 1e-3 if len(known) == len(times) else None,
        metrics=metrics,
        facts=rocprof_facts(metrics),
    )


def _duration_ns(row: dict[str, str]) -> float | None:
    start, end = number(row.get("Start_Timestamp", "")), number(row.get("End_Timestamp", ""))
    return None if start is None or end is None else end - start
