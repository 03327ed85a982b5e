"""What a process and its descendants hold too much of, as no kernel limit counts it."""

import contextlib
from functools import partial

from kernelwright.referee.sandbox.limits import ProcessLimits
from kernelwright.referee.sandbox.processes import (
    family_of,
    folder_bytes,
    own_bytes,
    resident_bytes,
    unnamed_bytes,
)
from kernelwright.referee.sandbox.stopping import stopped


def excess(limits: ProcessLimits, pid: int, scratch: str, *, is_held: bool = False) -> str | None:
    """Return in words what a process and its descendants hold too much of, None where it is nothing.

    ``is_held``: somebody else has stopped them, and lets them go. Else they stand still while their memory is
    counted exactly, where it may be too much: that takes long, and a family that grows meanwhile would take
    all memory of the machine.
    """
    if limits.total_bytes is not None or limits.processes is not None:
        family = family_of(pid)
        if limits.processes is not None and len(family) > limits.processes:
            return f"it has {len(family)} processes, {limits.processes} are allowed"
        most = limits.total_bytes
        if most is not None and sum(map(resident_bytes, family)) + unnamed_bytes(family) > most:
            with contextlib.nullcontext() if is_held else stopped(pid, partial(family_of, pid)):
                family = family_of(pid)
                held = sum(map(own_bytes, family)) + unnamed_bytes(family)
            if held > most:
                return f"its processes hold {held / 2**30:.1f} GiB, {most / 2**30:.1f} are allowed"
    if limits.scratch_bytes is not None and folder_bytes(scratch) > limits.scratch_bytes:
        return f"it wrote more than {limits.scratch_bytes / 2**20:.0f} MiB to its scratch directory"
    return None
