"""Inputs that begin a few bytes after a multiple of 64, as those of views such as ``x[1:]`` do."""

from kernelwright.referee.session.input_samples import AROUND, SampleLayout
from kernelwright.referee.session.shared_memory import ITEM_BYTES, SharedMemory, TensorMemory
from kernelwright.referee.worker.layouts import Slot, shifted, slots_in

SHIFT_BYTES = 8
"""Less than a vector asks for, and no less than most items: larger items keep their own alignment."""


class ShiftedInputs:
    """The inputs of one sample, each further on in the page where it begins otherwise.

    They fit in the memory of one argument set: a page between two tensors is unused.
    """

    def __init__(self, layout: SampleLayout, inputs: TensorMemory) -> None:
        self.args = shifted(layout.args, _shift_of)
        """Encoded arguments; see worker/tensors.py."""
        self.slots = tuple(slots_in(self.args))
        self.memory = SharedMemory(inputs.size)
        self.memory.bytes.fill(AROUND)
        for slot, before in zip(self.slots, layout.arg_slots, strict=True):
            self.memory.slot_bytes(slot)[:] = inputs.slot_bytes(before)
        self.by = min(map(_shift_of, self.slots), default=SHIFT_BYTES)
        """Bytes that most inputs begin after a multiple of 64."""


def _shift_of(slot: Slot) -> int:
    return max(SHIFT_BYTES, ITEM_BYTES[slot["dtype"]])
