"""Fresh inputs that look like given examples: other values of the same kind."""

from typing import Any

import torch
from torch.utils import _pytree as pytree

_FEW_VALUES = 16
_JITTER = 0.01


def resample(example: Any) -> Any:
    """Redraw every tensor inside ``example`` from torch's current seed; other values stay.

    Shape, strides, dtype and device are kept. Floating tensors are drawn with replacement from their own
    values and moved a little, never beyond their own range; with few different values (masks, codes)
    they are only drawn. Rows that sum to one still do. Integers and booleans are permuted; sorted vectors
    (offsets, positions) stay as they are.
    """
    return pytree.tree_map(lambda leaf: _redraw(leaf) if isinstance(leaf, torch.Tensor) else leaf, example)


def _redraw(example: torch.Tensor) -> torch.Tensor:
    values = example.detach().reshape(-1).cpu()
    if values.numel() < 2:
        drawn = values
    elif values.is_floating_point() or values.is_complex():
        drawn = _draw_floats(values)
    else:
        drawn = values if _is_offsets(example) else values[torch.randperm(values.numel())]
    fresh = torch.empty_like(example, requires_grad=False)
    fresh.copy_(_keep_rows_normal(drawn.reshape(example.shape), example))
    return fresh


def _draw_floats(values: torch.Tensor) -> torch.Tensor:
    drawn = values[torch.randint(values.numel(), values.shape)]
    finite = values[torch.isfinite(values)]
    if values.is_complex() or _has_few_values(values) or not finite.numel():
        return drawn
    low, high = finite.min(), finite.max()
    moved = drawn + (torch.rand(values.shape) - 0.5).to(values.dtype) * (2 * _JITTER) * (high - low)
    return torch.where(torch.isfinite(drawn), moved.clamp(low, high), drawn)


def _has_few_values(values: torch.Tensor) -> bool:
    first_ones = values[: 64 * _FEW_VALUES]  # spares sorting a large tensor whose first values already differ
    return all(torch.unique(some).numel() <= _FEW_VALUES for some in (first_ones, values))


def _is_offsets(example: torch.Tensor) -> bool:
    return example.dim() == 1 and bool((example[1:] >= example[:-1]).all())


def _keep_rows_normal(drawn: torch.Tensor, example: torch.Tensor) -> torch.Tensor:
    """Divide rows by their sums where the example's rows are distributions."""
    if not example.is_floating_point() or example.dim() == 0 or example.shape[-1] < 2:
        return drawn
    sums = example.detach().double().sum(-1)
    if bool((example < 0).any()) or not torch.allclose(sums, torch.ones_like(sums), atol=1e-3):
        return drawn
    return drawn / drawn.sum(-1, keepdim=True).clamp_min(1e-12)
