"""Ceilings that the kernel keeps for one process."""

from dataclasses import dataclass

DESCRIPTORS = 1024
PROCESSES = 256
THREADS_EACH = 16
"""Processes and threads of a worker: so many, and so many for each thread that OpenMP may use."""


@dataclass(frozen=True)
class Limits:
    """Ceilings of one child; None leaves the inherited one."""

    address_space_bytes: int | None = None
    cpu_s: int | None = None
    """Processor seconds over all threads."""
    file_bytes: int | None = None
    """Size of the largest file it may write."""
    processes: int | None = None
    """Processes and threads, its children's too; kept only where it has a user id of its own."""
    descriptors: int | None = None
    scratch_bytes: int | None = None
    """All it may keep in its scratch directory and in shared memory."""
    total_bytes: int | None = None
    """Memory of it and its children together; looked at twice a second."""


def apply(limits: Limits) -> None:
    """Set what the kernel keeps; no core dump in any case."""
    # lazy: not every system has it, and all need the names above
    import resource

    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_AS, limits.address_space_bytes)
    _limit(resource.RLIMIT_CPU, limits.cpu_s)
    _limit(resource.RLIMIT_FSIZE, limits.file_bytes)
    _limit(resource.RLIMIT_NPROC, limits.processes)
    _limit(resource.RLIMIT_NOFILE, limits.descriptors)


def _limit(kind: int, value: int | None) -> None:
    # lazy: as above
    import resource

    if value is None:
        return
    _, hard = resource.getrlimit(kind)
    ceiling = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (ceiling, ceiling))
