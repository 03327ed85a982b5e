"""The argument sets of one process: calls of every kind use the same ones.

A candidate sees at which address the arguments of a call lie. So all calls, whether they are verified, timed
or replayed, take their sets from one pool, which is there before the first of them.
"""

from kernelwright.referee.session.shared_memory import SharedMemory, whole_pages

ARGUMENTS = "arguments"
"""Name of the pool's memory."""


class ArgumentPool:
    """Memory for a number of argument sets, one after the other."""

    def __init__(self, set_bytes: int, count: int) -> None:
        self.stride = whole_pages(set_bytes)
        self.memory = SharedMemory(count * self.stride)
        self.slots = {f"slot{i}": self.memory.part(i, self.stride) for i in range(count)}
        """Name of a set -> its part of the memory."""
