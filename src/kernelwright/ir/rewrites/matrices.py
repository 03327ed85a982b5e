"""What the graph says about the structure of a matrix: diagonal or triangular whatever its values."""

from typing import Any, NamedTuple

import torch
from torch import fx

from kernelwright.ir.rewrites.reading import (
    args_of,
    aten,
    constant_value,
    is_call,
    is_tensor,
    scalar_value,
    shape,
)

Triangle = tuple[bool, int]
"""(lower, k): elements (i, j) with j - i <= k, or >= k of an upper one; as in helpers.triangular_matmul."""


class Masked(NamedTuple):
    """A tensor that is kept where a constant mask is true and is zero elsewhere."""

    mask: torch.Tensor
    kept: fx.Node


def peel(node: Any) -> Any:
    """Follow operators that change neither shape nor values."""
    same = (aten.view.default, aten.expand.default, aten.alias.default, aten.clone.default)
    while is_call(node, *same) and shape(args_of(node)[0]) == shape(node):
        node = args_of(node)[0]
    return node


def masked(node: Any) -> Masked | None:
    """Read ``where(mask, x, 0)`` or ``where(mask, 0, x)`` on the last two dims with a constant mask."""
    if not is_call(node, aten.where.self):
        return None
    condition, one, other = args_of(node)
    if not is_tensor(condition) or not is_tensor(one) or not is_tensor(other):
        return None
    zero_first = scalar_value(one) == 0.0
    if not zero_first and scalar_value(other) != 0.0:
        return None
    mask = constant_value(condition)
    if (
        mask is None
        or mask.dim() < 2
        or mask.shape[-2:] != shape(node)[-2:]
        or mask.numel() != mask.shape[-2:].numel()
    ):
        return None
    mask = mask.reshape(mask.shape[-2:]).bool()
    return Masked(~mask, other) if zero_first else Masked(mask, one)


def triangle(mask: torch.Tensor) -> Triangle | None:
    """Name the triangle that a mask keeps; None for other masks, full and empty ones."""
    rows = torch.arange(mask.shape[0]).unsqueeze(1)
    distance = torch.arange(mask.shape[1]) - rows
    inside = distance[mask]
    if inside.numel() in (0, mask.numel()):
        return None
    highest, lowest = int(inside.max()), int(inside.min())
    if torch.equal(mask, distance <= highest):
        return (True, highest)
    if torch.equal(mask, distance >= lowest):
        return (False, lowest)
    return None


def matrix_triangle(node: Any) -> Triangle | None:
    """Where a matrix can be other than zero, if that is a triangle."""
    found = masked(peel(node))
    return None if found is None else triangle(found.mask)


def diagonal_row(node: Any) -> fx.Node | float | None:
    """Return the diagonal of a diagonal matrix: a number, or a node of shape [..., 1, n]."""
    node = peel(node)
    found = masked(node)
    if found is not None:
        size = shape(node)
        is_row = shape(found.kept)[-2:] == (1, size[-1]) and len(shape(found.kept)) == len(size)
        return found.kept if is_row and _is_eye(found.mask) else None
    if not is_tensor(node) or len(shape(node)) != 2:
        return None
    value = constant_value(node)
    if value is None or value.shape[0] != value.shape[1] or not value.is_floating_point():
        return None
    scale = value[0, 0]
    return float(scale) if torch.equal(value, torch.eye(len(value), dtype=value.dtype) * scale) else None


def _is_eye(mask: torch.Tensor) -> bool:
    return mask.shape[0] == mask.shape[1] and torch.equal(mask, torch.eye(len(mask), dtype=torch.bool))
