"""The parent's side of a module's state in shared memory: it writes weights there and reads them back.

The process does nothing for it. Parameters change under a module that cannot tell when.
"""

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from kernelwright.referee.session.call_records import Range
from kernelwright.referee.session.input_samples import SampleLayout, WeightState
from kernelwright.referee.session.shared_memory import ITEM_BYTES, SharedMemory, TensorMemory, slot_nbytes
from kernelwright.referee.worker.layouts import Slot
from kernelwright.referee.worker.wire import Message

ROOM = 4
"""Memory for a process's state, as a multiple of the reference's. A candidate may pack its weights."""
LEAST_BYTES = 1 << 20
ARENA = "weights"

Call = Callable[..., Message]


class BadLayout(Exception):
    """A process described its state in a way that cannot be."""


class LiveWeights:
    """One process's parameters and buffers."""

    def __init__(self, call: Call, layout: SampleLayout, *, is_apart: bool) -> None:
        """``call(op, arenas, **fields)`` sends a command. ``is_apart``: tensors are copies on a device."""
        self._call, self._layout, self._is_apart = call, layout.state, is_apart
        self._movable = frozenset(layout.buffers())
        """Names that a module may bind to another tensor."""
        size = layout.state_bytes
        self._memory = SharedMemory(size if is_apart else max(ROOM * size, LEAST_BYTES))
        self._is_mapped = False
        self._own: Mapping[str, Slot] = layout.state
        self.ranges: list[Range] = []
        """Where the process says that its state lies; a candidate may say anything."""

    def write(self, state: WeightState, slots: Mapping[str, Slot] | None = None) -> None:
        """Put a weight sample, or the part in ``slots``, into the module."""
        slots = self._layout if slots is None else slots
        if not slots:
            return
        if not self._is_mapped or not self._movable.isdisjoint(slots):
            self._hold()
        for name, slot in slots.items():
            view_of(self._memory, self._own[name])[...] = view_of(state.memory, slot)
        if self._is_apart:
            self._note(self._call("upload_state", arena=ARENA, slots=dict(slots)))

    def read(self, slots: Mapping[str, Slot], into: TensorMemory) -> None:
        """Copy the module's state as it is now to the same slots of other memory."""
        if self._is_apart:
            self._ready()
            self._call("dump_state", arena=ARENA, slots=dict(slots))
        else:
            self._hold()
        for name, slot in slots.items():
            view_of(into, slot)[...] = view_of(self._memory, self._own[name])

    def element(self, name: str, at: tuple[int, ...]) -> list[npt.NDArray[np.uint8]]:
        """Return the bytes of one element wherever they lay when the state was last written.

        There are several places where the reference ties tensors and the module does not. There is none
        where the element has no place yet, or where it shares its place with one that is not tied to it.
        """
        if not self._is_mapped or self._is_apart:
            return []
        tied = {key for key, slot in self._layout.items() if slot == self._layout[name]}
        index = tuple(slice(i, i + 1) for i in at)
        found: dict[int, npt.NDArray[np.uint8]] = {}
        for slot in (self._own[key] for key in tied):
            one = view_of(self._memory, slot)[index]
            pairs = zip(slot["shape"], slot["stride"], strict=True)
            others = (view_of(self._memory, other) for key, other in self._own.items() if key not in tied)
            if not all(step or size <= 1 for size, step in pairs):
                return []
            if any(np.shares_memory(one, other) for other in others):
                return []
            found.setdefault(one.ctypes.data, one.reshape(1).view(np.uint8))
        return list(found.values())

    @property
    def has_shared(self) -> bool:
        """Whether tensors that are not tied may share memory, as parts of one flat parameter do."""
        found = (name for name, slot in self._layout.items() if 0 not in slot["shape"])
        once = {self._layout[name]["offset"]: self._own[name] for name in found}
        spans = sorted((slot["offset"], slot["offset"] + slot_nbytes(slot)) for slot in once.values())
        return any(end > begin for (_, end), (begin, _) in itertools.pairwise(spans))

    def _ready(self) -> None:
        if not self._is_mapped:
            self._call("map", {ARENA: self._memory})
            self._is_mapped = True

    def _hold(self) -> None:
        self._ready()
        if not self._is_apart:
            reply = self._call("hold_state", arena=ARENA)
            self._own = self._checked(reply.get("state"))
            self._note(reply)

    def _note(self, reply: Message) -> None:
        """Remember where the state lies, for what shares memory with it."""
        told = reply.get("ranges")
        if isinstance(told, dict):
            self.ranges = [
                (f"state {name}"[:80], *where) for name, where in told.items()
                if isinstance(where, list) and len(where) == 2 and all(isinstance(n, int) for n in where)
            ]  # fmt: skip

    def _checked(self, told: Any) -> Mapping[str, Slot]:
        """Return a layout that lies inside the memory; raises BadLayout."""
        if not isinstance(told, dict):
            raise BadLayout("no layout")
        for name, slot in self._layout.items():
            own = told.get(name)
            if not isinstance(own, dict) or any(own.get(key) != slot[key] for key in ("dtype", "shape")):
                raise BadLayout(f"{name} is not {slot['dtype']} {slot['shape']} any more")
            if not _fits(own, self._memory.size):
                raise BadLayout(f"{name} does not lie in its memory")
        return {name: told[name] for name in self._layout}


def _fits(slot: Slot, size: int) -> bool:
    stride, offset = slot.get("stride"), slot.get("offset")
    if not isinstance(offset, int) or not isinstance(stride, list) or len(stride) != len(slot["shape"]):
        return False
    if offset < 0 or not all(isinstance(step, int) and step >= 0 for step in stride):
        return False
    if 0 in slot["shape"]:
        return True
    last = sum((n - 1) * step for n, step in zip(slot["shape"], stride, strict=True))
    return bool(offset + (last + 1) * ITEM_BYTES[slot["dtype"]] <= size)


def view_of(memory: TensorMemory, slot: Slot) -> npt.NDArray[Any]:
    """Return the elements of a slot, as raw words in the order of its axes."""
    n_bytes = ITEM_BYTES[slot["dtype"]]
    word = np.dtype([("low", "u8"), ("high", "u8")]) if n_bytes == 16 else np.dtype(f"u{n_bytes}")
    if math.prod(slot["shape"]) == 0:
        return np.empty(slot["shape"], word)
    whole = memory.bytes[slot["offset"] :]
    flat = whole[: whole.size // n_bytes * n_bytes].view(word)
    pairs = zip(slot["shape"], slot["stride"], strict=True)
    strides = [step * n_bytes if size > 1 else 0 for size, step in pairs]  # of one element it may be anything
    return np.lib.stride_tricks.as_strided(flat, slot["shape"], strides)
