"""Memory of tensors as the parent sees it: its own, or shared by sealed memfds, with views of the slots."""

import fcntl
import math
import mmap
import os
from typing import Any

import numpy as np

from kernelwright.core.errors import MachineError
from kernelwright.referee.worker.layouts import Slot, extent

ITEM_BYTES = {
    "bool": 1, "uint8": 1, "int8": 1, "int16": 2, "int32": 4, "int64": 8, "uint16": 2, "uint32": 4,
    "uint64": 8, "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8, "complex64": 8,
    "complex128": 16,
}  # fmt: skip
"""Every dtype that may cross between processes, by torch's name."""

_PAGE = 4096
_COPY_BYTES = 1 << 20


class TensorMemory:
    """Bytes of this process alone, in whole pages. They cost far less than pages that are shared."""

    def __init__(self, size: int) -> None:
        self.size = whole_pages(size)
        self.bytes: np.ndarray[Any, np.dtype[np.uint8]] = np.empty(self.size, np.uint8)

    def slot_bytes(self, slot: Slot) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """Return the raw bytes of a slot in the order of memory."""
        nbytes = slot_nbytes(slot)
        return self.bytes[slot["offset"] : slot["offset"] + nbytes]

    def copy_from(self, other: "TensorMemory") -> None:
        """Copy the content of another memory of the same size."""
        np.copyto(self.bytes, other.bytes)

    def part(self, index: int, size: int) -> "TensorMemory":
        """Return the part of ``size`` bytes that has ``index`` others before it."""
        part = TensorMemory.__new__(TensorMemory)
        part.size = size
        part.bytes = self.bytes[index * size : (index + 1) * size]
        return part

    def copy(self) -> "TensorMemory":
        """Return a copy, so that a candidate never gets memory on which the parent's verdict rests."""
        twin = TensorMemory(self.size)
        twin.copy_from(self)
        return twin

    def equals(self, other: "TensorMemory") -> bool:
        """True when all bytes are equal, those between tensors included."""
        return all(
            np.array_equal(self.bytes[i : i + _COPY_BYTES], other.bytes[i : i + _COPY_BYTES])
            for i in range(0, self.size, _COPY_BYTES)
        )

    def differs_from(self, other: "TensorMemory", slot: Slot) -> bool:
        """True when the slot's bytes are not the same in both."""
        left, right = self.slot_bytes(slot), other.slot_bytes(slot)
        return any(
            not np.array_equal(left[i : i + _COPY_BYTES], right[i : i + _COPY_BYTES])
            for i in range(0, left.size, _COPY_BYTES)
        )


class SharedMemory(TensorMemory):
    """A memfd of fixed size: no process can shrink it and so crash another one that has it mapped."""

    def __init__(self, size: int) -> None:
        self.size = whole_pages(size)
        try:
            self.fd = os.memfd_create("kernelwright", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            os.ftruncate(self.fd, self.size)
            fcntl.fcntl(
                self.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
            )
            memory = mmap.mmap(self.fd, self.size)
        except OSError as error:
            raise MachineError(f"cannot share {self.size} bytes between processes: {error}") from error
        self.bytes = np.frombuffer(memory, dtype=np.uint8)

    def shared_copy(self) -> "SharedMemory":
        """Return a copy that another process may map."""
        twin = SharedMemory(self.size)
        twin.copy_from(self)
        return twin

    def close(self) -> None:
        """Close the descriptor; the memory is freed with its last mapping."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __del__(self) -> None:
        self.close()


def address_of(array: np.ndarray[Any, Any]) -> int:
    """Return where an array begins. ``array.ctypes`` would keep the array until a garbage collection."""
    found: int = array.__array_interface__["data"][0]
    return found


def whole_pages(size: int) -> int:
    """Return the bytes of the fewest pages that hold ``size`` bytes, at least one page."""
    return max(-(-size // _PAGE) * _PAGE, _PAGE)


def slot_nbytes(slot: Slot) -> int:
    """Return the bytes that the tensor of a slot spans; it is dense where the slot names no strides."""
    count = extent(slot["shape"], slot["stride"]) if "stride" in slot else math.prod(slot["shape"])
    return count * ITEM_BYTES[slot["dtype"]]


def place(specs: list[tuple[str, tuple[int, ...]]]) -> tuple[list[Slot], int]:
    """Return row-major, page-aligned slots for (dtype, shape) pairs, and their bytes in all."""
    slots: list[Slot] = []
    offset = 0
    for dtype, shape in specs:
        strides = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
        slot = {"dtype": dtype, "shape": list(shape), "stride": strides, "offset": offset}
        slots.append(slot)
        offset += -(-slot_nbytes(slot) // _PAGE) * _PAGE
    return slots, offset
