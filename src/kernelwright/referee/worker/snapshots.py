"""Copies of outputs that a device makes in the order of its work, as soon as the calls have returned.

A copy sees what the next user of an output would see on the same stream. What another stream does without the
current one waiting for it, or what a thread begins later, comes too late for it.
"""

import os
from collections.abc import Callable
from typing import Any

import torch

from kernelwright.referee.worker.layouts import extent

N_OTHERS = 2
"""Calls besides the last whose outputs are copied; drawn when all of the series have returned."""
MANY_BYTES = 1 << 30
"""So much memory is taken for copies at most, except for that of one call's outputs."""
ALIGNMENT = 4096
_ITEM_BYTES, _ADDRESS = torch.Tensor.element_size, torch.Tensor.data_ptr
_SHAPE, _STRIDE = torch.Tensor.size, torch.Tensor.stride
"""Looked up before any candidate is imported."""


class Snapshots:
    """The copies taken after the last series of calls."""

    def __init__(self, device: str, copy: Callable[[int, int, int], None]) -> None:
        """``copy(to, source, bytes)`` has memory copied after the work that the default stream has."""
        self._device, self._copy = torch.device(device).type, copy
        self._areas: list[torch.Tensor] = []
        self._depth = 0
        self._copies: dict[int, list[torch.Tensor]] = {}

    def make_room(self, depth: int, output_bytes: int) -> None:
        """Have memory for the outputs of calls among the last ``depth``, ``output_bytes`` each."""
        self._copies.clear()
        self._areas.clear()
        self._depth = depth
        size = output_bytes + ALIGNMENT
        count = max(1, min(1 + N_OTHERS, depth, MANY_BYTES // size))
        try:
            self._areas = [torch.empty(size, dtype=torch.uint8, device=self._device) for _ in range(count)]
        except torch.OutOfMemoryError:
            self._areas = []  # outputs are read where they are, when somebody asks

    def take(self, first: int, end: int, output: Callable[[int], Any]) -> None:
        """Copy the outputs of the call before ``end`` and of some others from ``first`` on."""
        self._copies.clear()
        depth = min(self._depth, end - first)
        if depth < 1:
            return
        backs = dict.fromkeys([0, *(byte % depth for byte in os.urandom(N_OTHERS))])
        for back, area in zip(backs, self._areas, strict=False):
            number = end - 1 - back
            result = output(number)
            values = result if isinstance(result, tuple | list) else (result,)
            if (copies := self._copied(values, area)) is not None:
                self._copies[number] = copies

    def _copied(self, values: Any, area: torch.Tensor) -> list[torch.Tensor] | None:
        """Copy these tensors; None where one has no plain memory on the device, or too much."""
        copies: list[torch.Tensor] = []
        at = 0
        for value in values:
            is_plain = type(value) is torch.Tensor and value.layout is torch.strided
            if not is_plain or value.device.type != self._device:
                return None
            shape, stride = tuple(_SHAPE(value)), tuple(_STRIDE(value))
            span = extent(shape, stride) * _ITEM_BYTES(value)
            if at + span > area.numel():
                return None
            if span:
                self._copy(_ADDRESS(area) + at, _ADDRESS(value), span)
            copies.append(area[at : at + span].view(value.dtype).as_strided(shape, stride))
            at += -(-span // ALIGNMENT) * ALIGNMENT
        return copies

    def numbers(self) -> list[int]:
        """Return the numbers of the calls whose outputs were copied."""
        return list(self._copies)

    def of(self, number: int) -> list[torch.Tensor] | None:
        """Return the copies of a call's outputs; None where there are none."""
        return self._copies.get(number)
