"""Tensors in shared memory and Python values in JSON, for a process that has torch.

An *arena* is one mapped memory, a *slot* (worker/layouts.py) says where a tensor lies in it. A *value* is
JSON: numbers, strings, None and bools stay as they are, everything else is tagged.
"""

import mmap
from collections.abc import Iterator
from typing import Any, Protocol

import torch

from kernelwright.referee.worker.layouts import Json, Slot, extent

ALIGNMENT = 4096
"""Every slot starts on a page boundary, as a fresh large allocation does."""


class Unsupported(Exception):
    """A value that cannot travel between processes."""


class MappedMemory(Protocol):
    """Where the tensors of a value lie."""

    def tensor(self, slot: Slot) -> torch.Tensor:
        """Return the tensor of a slot."""


class Arena:
    """One mapped memfd."""

    def __init__(self, fd: int, size: int) -> None:
        self.memory = mmap.mmap(fd, size)
        self.size = size

    def touch(self) -> None:
        """Read a byte of every page, so that the process has it from now on."""
        bytes(memoryview(self.memory)[:: mmap.PAGESIZE])

    def tensor(self, slot: Slot) -> torch.Tensor:
        """Return the tensor that lies in a slot; writes go to the shared memory."""
        dtype = dtype_of(slot["dtype"])
        shape = slot["shape"]
        count = extent(shape, slot["stride"])
        if count == 0:
            return torch.empty(shape, dtype=dtype)
        flat = torch.frombuffer(self.memory, dtype=dtype, count=count, offset=slot["offset"])
        return flat.as_strided(shape, slot["stride"])


def dtype_name(dtype: torch.dtype) -> str:
    """Return torch's name of a dtype without the prefix ``torch.``."""
    return str(dtype).removeprefix("torch.")


def dtype_of(name: str) -> torch.dtype:
    """Invert dtype_name; raises Unsupported."""
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise Unsupported(f"dtype {name!r}")
    return dtype


def is_dense(tensor: torch.Tensor) -> bool:
    """True when no two elements share memory and there are no gaps between elements."""
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size == 1:
            continue
        if stride != expected:
            return False
        expected *= size
    return True


def compact(tensor: torch.Tensor) -> torch.Tensor:
    """Return a view of the same memory in which every element is there once.

    Expanded axes have length 1 in it. Where elements overlap otherwise (sliding windows), it is the memory
    itself, flat.
    """
    axes = sorted((step, n) for n, step in zip(tensor.shape, tensor.stride(), strict=True) if step and n > 1)
    spanned = 1
    for step, n in axes:
        if step < spanned:
            count = extent(tensor.shape, tensor.stride())
            return tensor.as_strided((count,), (1,))
        spanned += (n - 1) * step
    shape = [n if step or n == 0 else 1 for n, step in zip(tensor.shape, tensor.stride(), strict=True)]
    return tensor.as_strided(shape, tensor.stride())


class SlotLayout:
    """Assigns page-aligned slots, one after the other."""

    def __init__(self, *, keeps_strides: bool = False) -> None:
        """Tensors that are not dense become row-major, unless ``keeps_strides``."""
        self.size = 0
        self._keeps_strides = keeps_strides

    def place(self, tensor: torch.Tensor) -> Slot:
        """Return a slot for a tensor like this one; strides are kept when they are dense."""
        is_kept = self._keeps_strides or is_dense(tensor)
        stride = tensor.stride() if is_kept else _row_major(tensor.shape)
        slot = {
            "dtype": dtype_name(tensor.dtype),
            "shape": list(tensor.shape),
            "stride": list(stride),
            "offset": self.size,
        }
        nbytes = extent(tensor.shape, stride) * tensor.element_size()
        self.size += (-(-nbytes // ALIGNMENT) + 1) * ALIGNMENT  # with an unused page between two tensors
        return slot


def _row_major(shape: torch.Size) -> list[int]:
    return list(torch.empty(shape, device="meta").stride())


def encode(value: Any, layout: SlotLayout, found: list[torch.Tensor]) -> Json:
    """Return a value as JSON; tensors get a slot and are appended to ``found`` in slot order."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, torch.Tensor):
        found.append(value)
        return {"tensor": layout.place(value)}
    if isinstance(value, torch.dtype):
        return {"dtype": dtype_name(value)}
    if isinstance(value, torch.Size):
        return {"tuple": list(value)}
    if isinstance(value, list | tuple) and type(value) in (list, tuple):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [encode(item, layout, found) for item in value]}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"dict": {key: encode(item, layout, found) for key, item in value.items()}}
    raise Unsupported(f"a value of type {type(value).__name__}")


def with_tensors(value: Any, tensors: Iterator[torch.Tensor]) -> Any:
    """Return a value with its tensors replaced, in the order in which ``encode`` finds them."""
    if isinstance(value, torch.Tensor):
        return next(tensors)
    if isinstance(value, list | tuple) and type(value) in (list, tuple):
        return type(value)(with_tensors(item, tensors) for item in value)
    if isinstance(value, dict):
        return {key: with_tensors(item, tensors) for key, item in value.items()}
    return value


def decode(value: Json, arena: MappedMemory | None) -> Any:
    """Invert encode; tensors are views of the arena."""
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "tensor":
        if arena is None:
            raise Unsupported("a tensor without an arena")
        return arena.tensor(content)
    if kind == "dtype":
        return dtype_of(content)
    if kind == "dict":
        return {key: decode(item, arena) for key, item in content.items()}
    items = [decode(item, arena) for item in content]
    return items if kind == "list" else tuple(items)
