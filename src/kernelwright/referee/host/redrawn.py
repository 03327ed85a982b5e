"""Redraws what is no ordinary float input: indices, labels, flags and masks, within what the task draws."""

from collections.abc import Sequence

import torch

SPECIAL_SHARE = 0.15
"""Share of the elements that take a value which the reference treats apart, such as ``ignore_index``."""
MASK_VALUES = 2
"""A float input with at most this many values is a mask."""


def is_mask(x: torch.Tensor) -> bool:
    """Tell whether an input says yes or no of each element: booleans, or floats of two values."""
    if x.dtype is torch.bool:
        return True
    if not x.is_floating_point() or x.numel() < 2:
        return False
    first = x.reshape(-1)[0]
    others = x[x != first]
    return others.numel() > 0 and bool((others == others[0]).all())


def redraw_mask(x: torch.Tensor, style: int, generator: torch.Generator) -> None:
    """Redraw a mask in place, with its own two values.

    Every vector along the last axis keeps at least one of each value where it is long enough: a row of
    which everything is masked has no softmax.

    Args:
        x: booleans, or floats of two values.
        style: 0: the ends of rows differ from their beginnings, one length for each first index (padding);
            1: at random, with the share as drawn.
        generator: of the choices.
    """
    if x.numel() == 0 or x.ndim == 0:
        return
    flat = x.reshape(-1)
    one = flat[0].clone()
    differing = flat[flat != one]
    other = differing[0].clone() if differing.numel() else (~one if x.dtype is torch.bool else one)
    width = x.shape[-1]
    if style % 2 == 0:
        lengths = torch.randint(1, max(width, 2), (x.shape[0], *(1,) * (x.ndim - 1)), generator=generator)
        is_first = (torch.arange(width) < lengths).expand(x.shape)
    else:
        share = float((flat == one).double().mean())
        is_first = torch.rand(x.shape, generator=generator) < min(max(share, 0.1), 0.9)
    if width > 1:
        places = torch.randint(width, (*x.shape[:-1], 1), generator=generator)
        is_first = is_first.clone().scatter_(-1, places, True)
        is_first.scatter_(-1, (places + 1) % width, False)
    if bool(torch.randint(2, (1,), generator=generator)) and x.dtype is torch.bool:
        is_first = ~is_first
    x.copy_(torch.where(is_first, one, other))


def redraw_integers(x: torch.Tensor, generator: torch.Generator) -> None:
    """Redraw integers in place within their range.

    What is sorted stays sorted, and where every value occurs once, every value still does.
    """
    if x.numel() == 0:
        return
    flat = x.reshape(-1)
    low, high = int(flat.min()), int(flat.max())
    is_sorted = flat.numel() > 2 and bool((flat[1:] >= flat[:-1]).all())
    ordered = flat.sort().values
    is_distinct = flat.numel() > 1 and bool((ordered[1:] > ordered[:-1]).all())
    if is_distinct and is_sorted:
        return
    if is_distinct:
        new = flat[torch.randperm(flat.numel(), generator=generator)]
    else:
        new = torch.randint(low, high + 1, flat.shape, generator=generator).to(x.dtype)
        new = new.sort().values if is_sorted else new
    x.copy_(new.view(x.shape))


def put_special(x: torch.Tensor, values: Sequence[int], generator: torch.Generator) -> None:
    """Give some elements, at least one and not all, a value that the reference treats apart."""
    if x.numel() < 2 or not values:
        return
    flat = x.reshape(-1).clone()
    n = min(max(int(SPECIAL_SHARE * flat.numel()), 1), flat.numel() - 1)
    where = torch.randperm(flat.numel(), generator=generator)[:n]
    picks = torch.randint(len(values), (n,), generator=generator)
    flat[where] = torch.tensor(list(values), dtype=x.dtype)[picks]
    x.copy_(flat.view(x.shape))
