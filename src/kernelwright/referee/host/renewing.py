"""Makes other values of what comes again in every draw of a task, so that nobody gains by keeping results."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import torch

from kernelwright.referee.host.input_distributions import lots_alike
from kernelwright.referee.host.redrawn import (
    SHIFTED,
    SWAPPED,
    are_in_a_row,
    is_integer,
    is_mask,
    redraw_integers,
)

LEAST_FACTOR, RMS_FOR_ZEROS = 0.5, 0.5
"""Floats are multiplied by factors between this and 1. Zeros become noise of that root mean square."""
NEAR_ENDS = 1 / 16
"""Where a reference is asked, factors of elements lie no further than so from an end of their range, as a
share of it; and no two are equal, as sorted values may have to differ."""
RANK = 8
"""Of the factors that leave a definite matrix definite."""
FEW, SAMPLED, REPEATED = 64, 4096, 0.5
"""An input holds few values where two draws have no more than so many together, or a sample of both has no
more than this share of its size. Zeros do not count; floats of two bytes are as often alike by chance."""
LEAST_SHARE, LEAST_HALF_SHARE = 2.0**-12, 2.0**-5
"""Share of an input that is the same in both draws, from which on this is no chance; the second one of floats
of two bytes."""


class Way(IntEnum):
    """How an input is renewed. Signs, zeros and the order of sorted floats stay in all ways but ``NOISE``."""

    EACH = 0
    """Every float is multiplied by a factor of its own."""
    DEFINITE = 1
    """Too, but a symmetric matrix stays symmetric, and definite where it is: so are the factors (Schur)."""
    BY_VALUE = 2
    """Equal floats are multiplied by the same factor."""
    TOGETHER = 3
    """All floats are multiplied by one factor."""
    NOISE = 4
    """Zeros become noise."""
    SHIFTED = 5
    """Integers in a row are all larger by one number."""
    SWAPPED = 6
    """Two of these change places."""


STYLES = {Way.SHIFTED: SHIFTED, Way.SWAPPED: SWAPPED}


@dataclass(frozen=True)
class Renewing:
    """How one input is renewed."""

    way: Way
    is_partial: bool = False
    """Only where it is the same in other draws."""


def ways_to_renew(x: torch.Tensor, y: torch.Tensor, *, may_swap: bool) -> Sequence[Renewing]:
    """Return the ways in which an input could be renewed, best first, by its values in two draws.

    None where nothing comes again, or where other values might take honest kernels another time: masks, and
    integers that are no positions. ``may_swap``: two integers may change places.
    """
    if is_integer(x):
        ways = [Way.SHIFTED, Way.SWAPPED][: 1 + may_swap]
        return [Renewing(way) for way in ways if are_in_a_row(x) and torch.equal(x, y)]
    if not x.is_floating_point() or not x.numel() or (is_mask(x) and x.numel() > 2):
        return []
    if torch.equal(x, y) or (x.numel() > 1 and bool((x == x.reshape(-1)[0]).all())):
        if not bool(x.any() or y.any()):
            return [Renewing(Way.NOISE)]
        is_symmetric = x.ndim > 1 and x.shape[-1] == x.shape[-2] and torch.allclose(x, x.mT)
        return _ways(x, Way.DEFINITE if is_symmetric else Way.EACH)
    if _has_few_values(x, y):
        return _ways(x, Way.BY_VALUE)
    least = LEAST_SHARE if x.element_size() > 2 else LEAST_HALF_SHARE
    if int(((x == y) & (x != 0)).sum()) > least * x.numel() + 1:
        return _ways(x, Way.EACH, is_partial=True)
    return []


def _ways(x: torch.Tensor, best: Way, *, is_partial: bool = False) -> Sequence[Renewing]:
    ways = [best] * (x.numel() > 1) + [Way.TOGETHER]
    return [Renewing(way, is_partial) for way in ways]


def renew(
    x: torch.Tensor, renewing: Renewing, generator: torch.Generator, *, known: torch.Tensor | None = None,
    is_farthest: bool = False,
) -> None:  # fmt: skip
    """Change an input in place so that honest kernels take no longer.

    ``known``: its values in another draw, needed where it is renewed in part. ``is_farthest``: as far as it
    is ever changed, to ask whether a reference accepts that.
    """
    way = renewing.way
    if way in STYLES:
        redraw_integers(x, generator, STYLES[way], is_farthest=is_farthest)
    elif way is Way.NOISE:
        x.copy_(torch.randn(x.shape, generator=generator).mul_(RMS_FOR_ZEROS))
    else:
        factors = LEAST_FACTOR + (1 - LEAST_FACTOR) * _shares(x, way, generator, is_farthest=is_farthest)
        if renewing.is_partial and known is not None:
            factors = torch.where(x == known.view(x.shape), factors, 1.0)
        is_sorted = _is_ascending(x)
        x.mul_(factors)
        if is_sorted:
            x.copy_(x.squeeze().sort(dim=-1).values.view(x.shape))


def _shares(x: torch.Tensor, way: Way, generator: torch.Generator, *, is_farthest: bool) -> torch.Tensor:
    """Return numbers from 0 to 1 for the elements of an input."""
    if way is Way.TOGETHER:
        return torch.rand((), generator=generator) * (not is_farthest)
    if way is Way.DEFINITE:
        rows = torch.rand((x.shape[-1], RANK), generator=generator)
        return rows @ rows.mT / RANK
    if way is Way.BY_VALUE:
        shares = lots_alike(x, int(torch.randint(1 << 62, (), generator=generator))).float().add_(1).div_(2)
    else:
        shares = torch.rand(x.shape, generator=generator)
    return shares.lerp(shares.round(), 1 - NEAR_ENDS) if is_farthest else shares


def _is_ascending(x: torch.Tensor) -> bool:
    """Tell whether all rows ascend, along the last axis that has several places, and are not constant."""
    rows = x.squeeze()
    steps = rows.diff(dim=-1) if rows.ndim else rows[None][1:]
    return bool((steps >= 0).all() and (steps > 0).any())


def _has_few_values(x: torch.Tensor, y: torch.Tensor) -> bool:
    step = max(x.numel() // SAMPLED, 1) | 1
    both = torch.cat([one.reshape(-1)[::step] for one in (x, y)])
    both = both[both != 0]
    n = len(set(both.tolist()))
    return 0 < n <= (FEW if x.element_size() == 2 else max(FEW, REPEATED * both.numel()))
