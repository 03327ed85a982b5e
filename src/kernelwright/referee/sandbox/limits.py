"""Limits of one process, most of them enforced by the kernel."""

from dataclasses import dataclass

DESCRIPTORS = 1024
PROCESSES = 256
THREADS_EACH = 16
"""A worker may have ``PROCESSES`` processes and threads, plus ``THREADS_EACH`` for every OpenMP thread."""


@dataclass(frozen=True)
class ProcessLimits:
    """Limits of one child; None leaves the inherited limit."""

    address_space_bytes: int | None = None
    cpu_s: int | None = None
    """Processor seconds over all threads."""
    file_bytes: int | None = None
    """Size of the largest file that the child may write."""
    processes: int | None = None
    """Processes and threads, descendants included. The kernel enforces it only where they are counted apart
    from the user's other processes; elsewhere only the launcher's watch counts them."""
    descriptors: int | None = None
    scratch_bytes: int | None = None
    """Bytes that the child may keep in its scratch directory and in shared memory."""
    total_bytes: int | None = None
    """Memory of the child and its descendants together; the launcher's watch checks it twice a second."""


def apply(limits: ProcessLimits) -> None:
    """Set the limits that the kernel enforces, and forbid core dumps."""
    # lazy: not every system has this module, and every system needs the names above
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
