"""Makes the Machine that this process runs on. Begin here; the other modules are its instruments."""

import platform
from functools import cache
from importlib import metadata
from pathlib import Path

from kernelwright.core.errors import MachineError
from kernelwright.core.machine import Machine
from kernelwright.machine import counters, topology
from kernelwright.machine.compiler import find_compiler
from kernelwright.machine.peaks import measure_peaks

__all__ = ["compiler_version", "measure_peaks", "probe_machine", "version_of"]


def probe_machine(cache_dir: Path | None = None) -> Machine:
    """Return this machine, with the peaks that ``cache_dir`` keeps, measured where it has none.

    Without a folder the peaks are None: nothing is measured, compiled or written. Loads no torch.

    Raises:
        MachineError: no compiler to measure peaks with, too little memory, or the folder cannot be written.
    """
    peaks = None if cache_dir is None else measure_peaks(cache_dir)
    return _fixed().model_copy(
        update={"cores": topology.n_threads(), "compiler": compiler_version(), "peaks": peaks}
    )


@cache
def _fixed() -> Machine:
    return Machine(
        processor=topology.processor_model(),
        architecture=platform.machine(),
        vector_bytes=topology.vector_bytes(),
        isa=topology.isa(),
        caches=topology.cache_levels(),
        memory_bytes=topology.total_memory(),
        has_counters=counters.availability().available,
        system=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        torch=version_of("torch"),
        kernelwright=version_of("kernelwright"),
    )


def version_of(distribution: str) -> str | None:
    """Return the installed version without importing it, None when it is not installed."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def compiler_version() -> str | None:
    """Return the first line of what the C++ compiler says of its version, None where there is none."""
    try:
        return find_compiler().version
    except MachineError:
        return None
