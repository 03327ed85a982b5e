"""Moves a module's parameters and buffers into shared memory, where the parent writes and reads them.

A storage keeps its identity and gets other memory. So everything that shares it follows: tied parameters,
views, tensors that a constructor packed together. Strides stay. No tensor is written to by the process
itself, so no version counter moves.
"""

import ctypes
from collections.abc import Mapping
from typing import Any

import torch

from kernelwright.referee.worker.tensors import ALIGNMENT, Arena, dtype_name

WORDS = 16
"""How far into a storage's record its address is looked for."""


class NoRoom(Exception):
    """The memory for a module's state is too small for its storages."""


def _address_at() -> int:
    """Return where torch keeps the address of a storage's memory in the storage's record, in bytes."""
    probe = torch.zeros(64, dtype=torch.uint8)
    storage = probe.untyped_storage()
    words = (ctypes.c_uint64 * WORDS).from_address(storage._cdata)
    return list(words).index(storage.data_ptr()) * 8


_AT = _address_at()


class HeldState:
    """The state of one module in one arena. Regions are given away once and kept for their storages."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._begin = ctypes.addressof(ctypes.c_char.from_buffer(arena.memory))
        self._next = 0
        self._regions: dict[str, tuple[int, int]] = {}

    def hold(self, state: Mapping[str, torch.Tensor]) -> dict[str, Any]:
        """Move what does not lie in the arena yet, with its values; return name -> slot in the arena.

        Raises:
            NoRoom: the storages together are larger than the arena.
        """
        return {name: self._slot(name, value) for name, value in state.items()}

    def _slot(self, name: str, value: torch.Tensor) -> dict[str, Any]:
        storage = value.untyped_storage()
        if storage.nbytes():
            self._move(name, storage)
        offset = value.data_ptr() - self._begin if value.numel() else 0
        return {
            "dtype": dtype_name(value.dtype),
            "shape": list(value.shape),
            "stride": list(value.stride()),
            "offset": offset,
        }

    def _move(self, name: str, storage: torch.UntypedStorage) -> None:
        nbytes = storage.nbytes()
        if 0 <= storage.data_ptr() - self._begin <= self._arena.size - nbytes:
            return
        offset, room = self._regions.get(name, (0, -1))
        if nbytes > room:
            offset, room = self._next, -(-nbytes // ALIGNMENT) * ALIGNMENT
            if offset + room > self._arena.size:
                raise NoRoom(f"the state takes more than {self._arena.size} bytes of memory")
            self._next += room
            self._regions[name] = offset, room
        ctypes.memmove(self._begin + offset, storage.data_ptr(), nbytes)
        ctypes.c_uint64.from_address(storage._cdata + _AT).value = self._begin + offset
