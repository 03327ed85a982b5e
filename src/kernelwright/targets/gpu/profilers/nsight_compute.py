"""Nsight Compute: counters of single kernels."""

import re
from collections.abc import Iterable, Sequence

from kernelwright.targets.gpu.metrics import BANK_CONFLICTS, NSIGHT_COMPUTE, SHARED_PASSES, ncu_facts
from kernelwright.targets.gpu.profilers.profile import (
    GpuProfile,
    KernelProfile,
    ProfileStatus,
    make_profile,
    unreadable,
)
from kernelwright.targets.gpu.profilers.table import find_table, number

TOOL = "ncu"
METRICS = (*NSIGHT_COMPUTE, BANK_CONFLICTS, SHARED_PASSES)
_DURATION = "gpu__time_duration.sum"
_DENIED = "ERR_NVGPUCTRPERM"
_SCALES = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
_SCALES |= {"nsecond": 1.0, "usecond": 1e3, "msecond": 1e6, "second": 1e9}
_METRIC = re.compile(r"[a-z]\w*__[\w.]+")
_Values = dict[str, float]


def ncu_command(
    program: Sequence[str],
    *,
    kernel: str | None = None,
    launches: int = 20,
    skip: int = 0,
    from_start: bool = True,
) -> list[str]:
    """Return the command that runs a program under ncu and writes a table to its standard output.

    ``kernel``: the function's name, without arguments and templates; only its launches are profiled. Every
    profiled launch is repeated, with caches flushed in between: times are not those of the program.
    ``from_start`` False: launches count from the program's ``cudaProfilerStart`` to its ``cudaProfilerStop``.
    """
    command = [TOOL, "--csv", "--page", "raw", "--print-units", "base", "--target-processes", "all"]
    command += ["--clock-control", "none"]  # the machine's clocks are not ours to fix
    command += ["--metrics", ",".join(METRICS), "--launch-count", str(launches)]
    command += ["--launch-skip", str(skip)] if skip else []
    command += [] if from_start else ["--profile-from-start", "off"]
    command += ["--kernel-name-base", "function"]
    command += ["--kernel-name", f"regex:^{re.escape(kernel)}$"] if kernel else []
    return [*command, *program]


def parse_ncu(text: str) -> GpuProfile:
    """Return the profile from what ncu wrote, standard error included.

    Reads the raw page (a launch a row, units in a row of their own) and the long form (a metric a row).
    Without permission for the counters the status says so; evidence then comes from the compiler.
    """
    if _DENIED in text:
        message = (
            f"the driver keeps its counters from this user ({_DENIED}): times and the compiler's report "
            "stand in for them; an administrator can allow them"
        )
        return GpuProfile(tool=TOOL, status=ProfileStatus.NO_PERMISSION, message=message)
    rows = find_table(text, "Kernel Name", "Metric Name", "Metric Value")
    launches = _long(rows) if rows is not None else _wide(find_table(text, "ID", "Kernel Name"))
    if launches is None:
        nothing = "No kernels were profiled" in text
        return make_profile(TOOL, []) if nothing else unreadable(TOOL, text)
    return make_profile(TOOL, _by_kernel(launches))


def _wide(rows: list[dict[str, str]] | None) -> list[tuple[str, _Values]] | None:
    if rows is None:
        return None
    units = rows[0] if rows and not rows[0]["ID"].strip() else {}
    names = [name for name in (rows[0] if rows else {}) if _METRIC.fullmatch(name)]
    launches = []
    for row in rows[1 if units else 0 :]:
        values = {name: _base(row[name], units.get(name, "")) for name in names}
        launches.append((row["Kernel Name"], _known(values)))
    return launches


def _long(rows: list[dict[str, str]]) -> list[tuple[str, _Values]]:
    launches: dict[tuple[str, str], dict[str, float | None]] = {}
    for row in rows:
        values = launches.setdefault((row.get("ID", ""), row["Kernel Name"]), {})
        values[row["Metric Name"]] = _base(row["Metric Value"], row.get("Metric Unit", ""))
    return [(name, _known(values)) for (_, name), values in launches.items()]


def _base(text: str, unit: str) -> float | None:
    value = number(text)
    return None if value is None else value * _SCALES.get(unit, 1.0)


def _known(values: dict[str, float | None]) -> _Values:
    return {name: value for name, value in values.items() if value is not None}


def _by_kernel(launches: Iterable[tuple[str, _Values]]) -> list[KernelProfile]:
    grouped: dict[str, list[_Values]] = {}
    for name, values in launches:
        grouped.setdefault(name, []).append(values)
    found = []
    for name, each in grouped.items():
        metrics = {metric: _mean(metric, each) for metric in dict.fromkeys(m for v in each for m in v)}
        times = [values[_DURATION] for values in each if _DURATION in values]
        found.append(
            KernelProfile(
                name=name,
                launches=len(each),
                total_us=sum(times) * 1e-3 if len(times) == len(each) else None,
                metrics=metrics,
                facts=ncu_facts(metrics),
            )
        )
    return found


def _mean(metric: str, each: list[_Values]) -> float:
    values = [launch[metric] for launch in each if metric in launch]
    return sum(values) / len(values)
