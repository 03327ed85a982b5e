"""Changes the inputs of one sample to its input distribution, as far as the reference accepts it."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from kernelwright.referee.host.input_distributions import change_inputs, permute
from kernelwright.referee.host.odd_rows import ANY, Keeping, Oddness, kept, make_odd
from kernelwright.referee.host.redrawn import (
    EMPTY,
    EQUAL,
    FULL,
    FULL_SHARE,
    PADDED,
    RANDOM,
    SHIFTED,
    SHUFFLED,
    UNEVEN,
    WIDE,
    are_in_a_row,
    is_mask,
    put_special,
    redraw_integers,
    redraw_mask,
)

ODD = frozenset({"odd_rows", "few_odd_rows", "odd_elements", "mild_rows", "mild_elements", "mixed"})
FLAT = frozenset({"zeros", "flat"})
REDRAWN = {
    "odd_rows": (PADDED, RANDOM),
    "mixed": (PADDED, RANDOM),
    "few_odd_rows": (UNEVEN,),
    "odd_elements": (UNEVEN,),
    "zeros": (EQUAL,),
    "flat": (EQUAL,),
}
"""Families that redraw masks and integers as well -> in which style, by variant."""
BEYOND = frozenset({"odd_elements", "mixed"})
"""Families in which integers leave the range as drawn, where the reference takes them as numbers."""
INSTEAD = frozenset({FULL, EMPTY, SHIFTED, SHUFFLED})
"""Styles that are taken where a reference refuses the family's own."""
RENEWED = "renewed"
"""As drawn, but inputs that the task always draws alike are others."""
LEAST_FACTOR, RMS_FOR_ZEROS = 0.5, 0.5
"""Such floats are multiplied by a factor between this and 1. Zeros become noise of that root mean square."""
LABELLED = frozenset({"odd_rows", "mixed"})
"""Families in which labels take values that the reference treats apart."""
SAME_SHARE, NEAR = 0.5, 2.0**-12
"""Of inputs that are alike, this share of rows is equal; the others differ by up to ``NEAR`` of a value."""
NONFINITE = "nonfinite"
NAN = (float("nan"),)
ALL_NONFINITE = (*NAN, float("inf"), -float("inf"))


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Use one thread inside: on a busy machine, short parallel operations take longer than serial ones."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@dataclass(frozen=True)
class AcceptedInputs:
    """What a reference accepts as inputs, by the number of the input tensor."""

    odd: Mapping[int, Oddness] = field(default_factory=dict)
    """A float input that is missing accepts the kinds of ``odd_rows.ANY``."""
    redrawn: Mapping[int, frozenset[int]] = field(default_factory=dict)
    """Masks and integers that may be redrawn -> styles of ``host/redrawn.py`` in which they may be."""
    may_repeat: bool = False
    """Integers that are all different may become equal."""
    special: Mapping[int, Sequence[int]] = field(default_factory=dict)
    """Values that the reference treats apart: ``ignore_index`` and its like."""
    nonfinite: Mapping[int, tuple[float, ...]] = field(default_factory=dict)
    """Float inputs in which NaN, or infinities as well, are tried."""
    steady: frozenset[int] = frozenset()
    """Inputs that the task always draws alike, and that may be others."""
    ordered: frozenset[int] = frozenset()
    """Float inputs among whose values others are sought: what an unsorted one gives is nobody's promise."""
    skipped: Mapping[str, str] = field(default_factory=dict)
    """What is not tried -> why, for the evaluation."""


def as_float(x: torch.Tensor) -> torch.Tensor:
    """Return the parts of complex numbers, one behind the other in the same memory; others as they are."""
    if not x.is_complex():
        return x
    parts = torch.view_as_real(x)
    return parts.flatten(-2) if x.ndim and x.stride(-1) == 1 else parts


def change_sample(
    inputs: Sequence[torch.Tensor], family: str, variant: int, keeping: Keeping,
    generator: torch.Generator, accepted: AcceptedInputs,
) -> None:  # fmt: skip
    """Change all inputs of a sample in place.

    Args:
        inputs: the values as drawn; no two elements of one share memory.
        family: name of the input distribution.
        variant: which of several like it.
        keeping: what float inputs must keep of their values as drawn.
        generator: of all choices.
        accepted: what the reference accepts.
    """
    if family == "alike":
        make_alike(inputs, keeping, generator)
        return
    if family == RENEWED:
        for i in accepted.steady:
            renew(inputs[i], generator)
        return
    n_floats = 0
    for i, x in enumerate(inputs):
        if x.is_floating_point():
            _change_floats(x, i, family, variant, n_floats, keeping, generator, accepted)
            n_floats += 1
        style = _style(family, variant, accepted.redrawn.get(i, frozenset()), generator)
        if style is not None and keeping < Keeping.SIZE:
            is_whole = family in FLAT
            redraw(x, style, generator, may_repeat=accepted.may_repeat, is_whole=is_whole)
        if family in LABELLED and i in accepted.special:
            put_special(x, accepted.special[i], generator)


def _change_floats(
    x: torch.Tensor, i: int, family: str, variant: int, n_before: int, keeping: Keeping,
    generator: torch.Generator, accepted: AcceptedInputs,
) -> None:  # fmt: skip
    """Change one float input, the one of number ``i``; ``n_before``: float inputs before it."""
    drawn = x.clone() if keeping is not Keeping.NOTHING else x
    if family in ODD:
        make_odd(x, family, accepted.odd.get(i, ANY), generator)
    elif family == "permuted":
        permute(x, generator)
    elif family == NONFINITE:
        put_nonfinite(x, accepted.nonfinite.get(i, ()), generator)
    else:
        change_inputs(x, family, variant * n_before if family == "offset" else variant, generator)
    if keeping is not Keeping.NOTHING:
        x.copy_(kept(x, keeping, drawn))
    if i in accepted.ordered:
        x.copy_(x.sort(dim=-1).values)


def make_alike(inputs: Sequence[torch.Tensor], keeping: Keeping, generator: torch.Generator) -> None:
    """Make every float input nearly the same as the first of its shape and type, some of its rows equal."""
    first: dict[tuple[torch.Size, torch.dtype], torch.Tensor] = {}
    for x in inputs:
        other = first.setdefault((x.shape, x.dtype), x)
        if other is x or not x.is_floating_point():
            continue
        drawn = x.clone()
        rows = x.shape[:-1] + (1,) * bool(x.ndim)
        is_same = torch.rand(rows, generator=generator) < SAME_SHARE
        by = torch.rand(x.shape, generator=generator).to(x.dtype) * NEAR
        x.copy_(kept(other * (1 + torch.where(is_same, 0, by)), keeping, drawn))


def _style(family: str, variant: int, accepted: frozenset[int], generator: torch.Generator) -> int | None:
    """Return the style in which a family redraws an input, of those that the reference accepts."""
    styles = REDRAWN.get(family, ())
    if not styles or not accepted:
        return None
    if family in BEYOND and WIDE in accepted:
        return WIDE
    style = styles[variant % len(styles)]
    if style in accepted:
        return style
    others = sorted(accepted & INSTEAD)
    return others[int(torch.randint(len(others), (1,), generator=generator))] if others else None


def renew(x: torch.Tensor, generator: torch.Generator, *, is_farthest: bool = False) -> None:
    """Change an input in place so that honest kernels take no longer: order, signs and places stay.

    ``is_farthest``: as far as it is ever changed, to ask whether a reference accepts that.
    """
    if not x.is_floating_point():
        redraw_integers(x, generator, SHIFTED, is_farthest=is_farthest)
    elif bool(x.any()):
        share = 0.0 if is_farthest else float(torch.rand(1, generator=generator))
        x.mul_(LEAST_FACTOR + (1 - LEAST_FACTOR) * share)
    else:
        x.copy_(torch.randn(x.shape, generator=generator).mul_(RMS_FOR_ZEROS))


def may_renew(x: torch.Tensor) -> bool:
    """Tell whether ``renew`` has a way to change an input: floats that are no mask, and positions."""
    if x.is_floating_point():
        return x.numel() > 0 and not is_mask(x)
    return x.dtype is not torch.bool and not x.is_complex() and are_in_a_row(x)


def redraw(
    x: torch.Tensor, style: int, generator: torch.Generator, *, may_repeat: bool, is_whole: bool = False
) -> None:
    """Redraw a mask or integers in place, in a style of ``host/redrawn.py``.

    ``is_whole``: in all rows, and as far as integers are ever shifted.
    """
    if x.is_floating_point() or is_mask(x):
        redraw_mask(x, style, generator, share=1.0 if is_whole else FULL_SHARE)
    elif not x.is_complex():
        redraw_integers(x, generator, style, may_repeat=may_repeat, is_farthest=is_whole)


def put_nonfinite(x: torch.Tensor, values: Sequence[float], generator: torch.Generator) -> None:
    """Put values at random places of an input, in different rows; as many as there are rows for."""
    if x.numel() == 0:
        return
    width = max(x.shape[-1], 1) if x.ndim else 1
    rows = torch.randperm(max(x.numel() // width, 1), generator=generator)
    flat = x.clone(memory_format=torch.contiguous_format).view(-1)
    for i, value in enumerate(values[: len(rows)]):
        flat[int(rows[i]) * width + int(torch.randint(width, (1,), generator=generator))] = value
    x.copy_(flat.view(x.shape))
