"""Facts about this machine's processor, its peaks, and the conditions under which figures hold."""

import platform
from functools import cache
from importlib import metadata

from kernelwright.core.errors import MachineError
from kernelwright.core.evidence import FactValue
from kernelwright.core.roofline import Peaks
from kernelwright.machine import counters, topology
from kernelwright.machine.compiler import find_compiler
from kernelwright.machine.peaks import measure_peaks
from kernelwright.machine.topology import available_memory, n_threads, total_memory

__all__ = [
    "available_memory",
    "environment",
    "machine_facts",
    "measure_peaks",
    "n_threads",
    "total_memory",
    "version_of",
]


def machine_facts(peaks: Peaks | None = None) -> dict[str, FactValue]:
    """Return the ``machine.*`` metrics and ``counters.available``; without peaks those are None."""
    return {
        "machine.n_threads": n_threads(),
        "machine.vector_bytes": topology.vector_bytes(),
        "machine.bandwidth_gbps": None if peaks is None else peaks.bandwidth_gbps,
        "machine.fma_gflops": None if peaks is None else peaks.fma_gflops,
        "counters.available": counters.availability().available,
    }


@cache
def _fixed_environment() -> tuple[tuple[str, FactValue], ...]:
    caches = topology.caches()
    return (
        ("processor", topology.processor_model()),
        ("architecture", platform.machine()),
        ("cores", n_threads()),
        ("vector_bytes", topology.vector_bytes()),
        ("l1_bytes", caches.l1),
        ("l2_bytes", caches.l2),
        ("l3_bytes", caches.l3),
        ("memory_bytes", total_memory()),
        ("kernel", f"{platform.system()} {platform.release()}"),
        ("python", platform.python_version()),
        ("torch", version_of("torch")),
        ("kernelwright", version_of("kernelwright")),
    )


def environment() -> dict[str, FactValue]:
    """Return the conditions of measured figures: processor, memory, versions. Does not import torch."""
    return {**dict(_fixed_environment()), "compiler": _compiler_version()}


def version_of(distribution: str) -> str | None:
    """Return the installed version without importing it, None when it is not installed."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _compiler_version() -> str | None:
    try:
        return find_compiler().version
    except MachineError:
        return None
