"""Inputs of other sizes, drawn as a task draws its own."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

Axes = Sequence[Sequence[tuple[int, int]]]
"""For each extent, the (position, axis) pairs that have it."""


def resized(draw: Callable[[], Sequence[Any]], axes: Axes, extents: Sequence[int]) -> list[Any]:
    """Return what ``draw`` gives, cut or continued with further draws until every axis has its extent."""
    drawn = list(draw())
    wanted: dict[int, list[tuple[int, int]]] = {}
    for pairs, extent in zip(axes, extents, strict=True):
        for position, axis in pairs:
            wanted.setdefault(position, []).append((axis, extent))
    for position, sizes in wanted.items():
        first = [drawn[position]]

        def one(position: int = position, first: list[torch.Tensor] = first) -> torch.Tensor:
            tensor: torch.Tensor = first.pop() if first else draw()[position]
            return tensor

        drawn[position] = _of_sizes(one, sizes)
    return drawn


def _of_sizes(draw: Callable[[], torch.Tensor], sizes: Sequence[tuple[int, int]]) -> torch.Tensor:
    if not sizes:
        return draw()
    *others, (axis, extent) = sizes
    parts = [_of_sizes(draw, others)]
    if parts[0].shape[axis] == extent:
        return parts[0]
    while sum(part.shape[axis] for part in parts) < extent:
        parts.append(_of_sizes(draw, others))
    return torch.cat(parts, axis).narrow(axis, 0, extent).clone()
