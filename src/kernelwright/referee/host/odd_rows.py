"""Input samples in which most values are ordinary and some rows, or some elements, are not.

A candidate that looks at a few elements to choose its path cannot tell such a sample from an ordinary one.
Which rows are odd, in which way, and along which axis they lie is random.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

import torch

from kernelwright.referee.host.input_distributions import FAR

SHARES = {"odd_rows": 4, "few_odd_rows": 64, "mild_rows": 4, "mixed": 4}
"""Family -> one row in this many is odd, at least one; of ``mild_rows`` as many as there are kinds. They
keep the range of the values as drawn, so no largest value tells them from ordinary ones."""
ODD_ELEMENTS = (3, 32)
ELEMENT_SHARE, LARGEST_SHARE = 4096, 64
"""``odd_elements`` changes one element in ``ELEMENT_SHARE``, within the bounds above, but at most one in
``LARGEST_SHARE`` unless it is the only one."""
LARGE = 1000.0
"""Size of large constants, up to four times as much: their squares have no bits left for a variance."""
SPIKE = 50.0
DEPTH, SPREAD = 150.0, 100.0
"""Rows of ``low`` lie below ``-DEPTH``, spread by ``SPREAD``: ``exp`` of them is zero."""
EXPONENTS = (80, 50, 30, 20, 12)
"""Powers of two that are tried as the range of magnitudes, the widest first."""
SQUARED = 62
"""The widest for references that are not elementwise: less the margin, sums of squares fit float32 in it. A
reference that sums in float64, as torch's ``std`` does, asks for no more of a kernel."""
MARGIN = 10
"""The range used is narrower by this many powers of two than the widest that the reference accepts: another
order of the same arithmetic may overflow a little earlier."""
SAME_SHARE, NEAR = 0.5, 2.0**-12
"""Of rows that are like others, this share is equal; the rest differs by up to ``NEAR`` of a value."""
LEAST_EXPONENT = 2
"""The range where an output is an index or a flag: these say nothing of how near another one was."""


MILD_KINDS = frozenset({"resampled", "constant"})
"""Kinds of ``mild_elements``: any value as drawn, or an end of their range. A huge element in a factor of a
product makes a whole column huge, which hides what is wrong beside it; these hide nothing."""


class Keeping(IntEnum):
    """What an odd row keeps of the input it belongs to, for references that accept nothing else."""

    NOTHING = 0
    SIGN = 1
    """Where no value as drawn is negative, none becomes so; and the other way round."""
    SIZE = 2
    """The sign, and no value becomes larger than ``LARGER`` times the largest as drawn."""
    RANGE = 3
    """All values stay between the least and the largest as drawn."""


LARGER = 4.0

Rows = torch.Tensor
"""Some rows of an input, one behind the other: (rows, width)."""


@dataclass(frozen=True)
class _Source:
    """What an odd row is made from."""

    values: torch.Tensor
    """All values of the input as drawn, flat."""
    rms: float
    exponent: int
    generator: torch.Generator
    rows: torch.Tensor | None = None
    """All rows; None: elements are changed one by one."""

    def uniform(self, n: int, low: float, high: float) -> torch.Tensor:
        return torch.rand(n, generator=self.generator) * (high - low) + low

    def signs(self, n: int) -> torch.Tensor:
        return torch.randint(2, (n,), generator=self.generator) * 2.0 - 1

    def places(self, n: int, width: int) -> torch.Tensor:
        return torch.randint(width, (n,), generator=self.generator)


def _constants(rows: Rows, sizes: torch.Tensor, source: _Source) -> Rows:
    return (sizes * source.signs(len(rows)))[:, None].expand(rows.shape)


def _one_hot(rows: Rows, source: _Source) -> Rows:
    hot = torch.zeros(rows.shape)
    hot[torch.arange(len(rows)), source.places(*rows.shape)] = 1.0
    return hot


def _spiked(rows: Rows, source: _Source) -> Rows:
    small = rows * 0.01
    height = SPIKE * source.signs(len(rows)) * source.uniform(len(rows), 0.5, 1.5)
    small[torch.arange(len(rows)), source.places(*rows.shape)] = height.to(rows.dtype)
    return small


def _narrow(rows: Rows, source: _Source) -> Rows:
    return rows + _constants(rows, source.rms * source.uniform(len(rows), *FAR).exp2(), source)


def _rounded(rows: Rows, source: _Source) -> Rows:
    step = max(source.rms / 2, 1e-30)
    return (rows / step).round() * step


def nearly(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Return the same values in half of the rows, and nearly the same ones in the others."""
    by = torch.rand(x.shape, generator=generator).to(x.dtype) * NEAR
    is_same = torch.rand(x.shape[:-1] + (1,) * bool(x.ndim), generator=generator) < SAME_SHARE
    return x * (1 + torch.where(is_same, 0, by))


def _repeated(rows: Rows, source: _Source) -> Rows:
    others = rows if source.rows is None else source.rows
    return nearly(others[source.places(len(rows), len(others))], source.generator)


def _wide(rows: Rows, source: _Source) -> Rows:
    powers = source.uniform(rows.numel(), -source.exponent, source.exponent).view(rows.shape)
    return rows * powers.to(rows.dtype).exp2()


def _scaled(rows: Rows, low: float, high: float, source: _Source) -> Rows:
    return rows * source.uniform(len(rows), low, high).to(rows.dtype).exp2()[:, None]


KINDS: Mapping[str, Callable[[Rows, _Source], Rows]] = {
    "zero": lambda rows, source: torch.zeros_like(rows),
    "constant": lambda rows, source: _constants(rows, source.uniform(len(rows), -3, 5).exp2(), source),
    "large_constant": lambda rows, source: _constants(
        rows, LARGE * source.uniform(len(rows), 0.5, 4), source
    ),
    "one_hot": _one_hot,
    "negated": lambda rows, source: -rows,
    "shifted": lambda rows, source: rows + (4 * source.rms * source.signs(len(rows)))[:, None],
    "narrow": _narrow,
    "rounded": _rounded,
    "repeated": _repeated,
    "resampled": lambda rows, source: source.values[source.places(rows.numel(), source.values.numel())].view(
        rows.shape
    ),
    "louder": lambda rows, source: _scaled(rows, 1, 7, source),
    "quieter": lambda rows, source: _scaled(rows, -10, -2, source),
    "spiked": _spiked,
    "low": lambda rows, source: -(DEPTH + SPREAD * rows.abs()),
    "wide": _wide,
    "huge": lambda rows, source: _scaled(rows, source.exponent / 2, source.exponent, source),
    "tiny": lambda rows, source: _scaled(rows, -source.exponent, -source.exponent / 2, source),
}
"""Ways for a row to be odd. ``wide``, ``huge`` and ``tiny`` depend on the range of magnitudes."""
WIDE_KINDS = frozenset({"wide", "huge", "tiny"})
MILD = 8
"""Range of magnitudes where nothing is known of the reference."""


@dataclass(frozen=True)
class Oddness:
    """Which odd rows a reference accepts in one input."""

    kinds: Mapping[str, Keeping] = field(default_factory=lambda: dict.fromkeys(KINDS, Keeping.NOTHING))
    exponent: int = MILD


ANY = Oddness()
"""All kinds, within a mild range of magnitudes."""


def make_odd(
    x: torch.Tensor, family: str, oddness: Oddness, generator: torch.Generator, *, is_across: bool = False,
    shared: Sequence[int] = (),
) -> None:  # fmt: skip
    """Make some rows or elements of an input odd, in place: ``odd_elements`` or a family of ``SHARES``.

    ``is_across``: rows lie along the middle axes, where there are any, each in a part of the first axis.
    ``shared``: a row is all that shares its places on these axes, as a channel or an image is; one is narrow.
    """
    if x.numel() == 0 or not oddness.kinds:
        return
    if family == "mild_elements":
        mild = {name: Keeping.RANGE for name in oddness.kinds.keys() & MILD_KINDS}
        return _make_elements_odd(x, Oddness(mild), generator)
    if family == "odd_elements":
        return _make_elements_odd(x, oddness, generator)
    drawn = x.clone(memory_format=torch.contiguous_format)
    if shared and x.ndim > len(shared):
        turned = x.movedim(tuple(shared), tuple(range(len(shared))))
        regions = turned.reshape(math.prod(turned.shape[: len(shared)]), -1)
        regions = regions.clone() if regions.data_ptr() == x.data_ptr() else regions
        _make_rows_odd(regions, drawn, SHARES[family], 1, oddness, generator, is_narrow=True)
        turned.copy_(regions.view(turned.shape))
        return
    least_kept = Keeping.RANGE if family == "mild_rows" else Keeping.NOTHING
    if is_across and x.ndim > 2:
        axes = 1 + torch.randperm(x.ndim - 2, generator=generator)[: len(x)]
        for i, axis in enumerate(axes.tolist()):
            part = x[i :: len(axes)]
            _make_rows_odd(part, drawn, SHARES[family], axis, oddness, generator, least_kept)
        return
    along = None if family == "few_odd_rows" else x.ndim - 1
    _make_rows_odd(x, drawn, SHARES[family], along, oddness, generator, least_kept)
    if family == "mixed":
        _make_rows_odd(x, drawn, SHARES["few_odd_rows"], None, oddness, generator)
        _make_elements_odd(x, oddness, generator)


def _make_rows_odd(
    x: torch.Tensor, drawn: torch.Tensor, one_in: int, along: int | None, oddness: Oddness,
    generator: torch.Generator, least_kept: Keeping = Keeping.NOTHING, *, is_narrow: bool = False,
) -> None:  # fmt: skip
    """Make one row in so many odd. ``along``: the axis on which rows lie; None: any one, or slabs of it.

    ``is_narrow``: if one row alone is odd, it is narrow, where that is accepted.
    """
    axis, is_slab = (along, False) if along is not None else _choose_axis(max(x.ndim, 1), generator)
    moved = x.movedim(axis, 0 if is_slab else -1) if x.ndim else x.view(1)
    rows = moved.reshape(moved.shape[0], -1) if is_slab else moved.reshape(-1, moved.shape[-1])
    rows = rows.clone() if rows.data_ptr() == x.data_ptr() else rows
    source = _Source(drawn.view(-1), _rms(drawn), oddness.exponent, generator, rows.clone())
    least = len(oddness.kinds) if least_kept is Keeping.RANGE else 1
    n_odd = min(max(len(rows) // one_in, least), len(rows))
    chosen = torch.randperm(len(rows), generator=generator)[:n_odd]
    names = sorted(oddness.kinds)
    order = torch.randperm(len(names), generator=generator).tolist()
    if is_narrow:
        order.sort(key=lambda place: names[place] != "narrow")
    for i, place in enumerate(order[:n_odd]):
        where, name = chosen[i :: len(order)], names[place]
        odd = KINDS[name](rows[where], source).to(x.dtype)
        rows[where] = kept(odd, least_kept or oddness.kinds[name], drawn)
    moved.copy_(rows.view(moved.shape))


def _choose_axis(ndim: int, generator: torch.Generator) -> tuple[int, bool]:
    """Return an axis, and whether a row is all that shares an index on it instead of a vector along it."""
    axis = int(torch.randint(ndim, (1,), generator=generator))
    return axis, bool(torch.randint(2, (1,), generator=generator))


def _make_elements_odd(x: torch.Tensor, oddness: Oddness, generator: torch.Generator) -> None:
    """Change up to ``N_ODD_ELEMENTS`` elements at random places."""
    drawn = x.clone(memory_format=torch.contiguous_format)
    flat = drawn.view(-1).clone()
    source = _Source(drawn.view(-1), _rms(drawn), oddness.exponent, generator)
    names = sorted(set(oddness.kinds) - {"rounded", "quieter", "one_hot", "tiny", "repeated", "narrow"})
    least, most = ODD_ELEMENTS
    wanted = min(max(x.numel() // ELEMENT_SHARE, least), most)
    for _ in range(min(wanted, max(x.numel() // LARGEST_SHARE, 1)) if names else 0):
        name = names[int(source.places(1, len(names)))]
        at = source.places(1, flat.numel())
        value = KINDS[name](flat[at].view(1, 1), source).to(x.dtype)
        flat[at] = kept(value, oddness.kinds[name], drawn).view(1)
    x.copy_(flat.view(x.shape))


def kept(odd: torch.Tensor, keeping: Keeping, drawn: torch.Tensor) -> torch.Tensor:
    """Return changed values, made finite, with what they must keep of the input as drawn."""
    odd = torch.nan_to_num(odd)
    if keeping is Keeping.NOTHING or drawn.numel() == 0:
        return odd
    low, high = drawn.min(), drawn.max()
    if keeping is Keeping.RANGE:
        return odd.clamp(low, high)
    odd = odd.abs() if low >= 0 else -odd.abs() if high <= 0 else odd
    if keeping is Keeping.SIGN:
        return odd
    largest = LARGER * torch.maximum(low.abs(), high.abs())
    return odd.clamp(-largest, largest)


def _rms(x: torch.Tensor) -> float:
    return float(x.double().square().mean().sqrt()) if x.numel() else 0.0
