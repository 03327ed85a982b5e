"""Changes the inputs of one sample to its input distribution, as far as the reference accepts it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import torch

from kernelwright.referee.host.input_distributions import change_inputs, permute
from kernelwright.referee.host.odd_rows import ANY, SAME_SHARE, Keeping, Oddness, kept, make_odd, nearly
from kernelwright.referee.host.redrawn import (
    EMPTY,
    EQUAL,
    FULL,
    FULL_SHARE,
    LEAST_BITS,
    PADDED,
    RANDOM,
    SHIFTED,
    SHUFFLED,
    TRADED,
    UNEVEN,
    WIDE,
    has_order,
    is_integer,
    is_mask,
    is_sorted,
    put_special,
    redraw_integers,
    redraw_mask,
)
from kernelwright.referee.host.renewing import Renewing, renew

T = TypeVar("T")
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
INSTEAD = frozenset({FULL, EMPTY, SHIFTED, SHUFFLED, TRADED})
"""Styles that are taken where a reference refuses the family's own."""
REGIONS: Mapping[int, tuple[int, ...]] = {2: (1,), 3: (0,), 4: (0, 1)}
"""Variants of ``odd_rows``: a row is a channel or column, a sample of a batch, or an image -> the axes
on which its elements share their places."""
ALIKE = "alike"
RENEWED = "renewed"
"""As drawn, but what comes again in every draw of the task is other."""
LABEL_SHARE, MOST_RANKS = 0.75, 32
"""Share of the labels that agree with large scores; with one of so many."""
LABELLED = frozenset({"odd_rows", "mixed", "mild_rows"})
"""Families in which labels take values that the reference treats apart."""
FLOODED = "offset"
"""The family in which one input holds such a value everywhere."""
NONFINITE, UP, DOWN = "nonfinite", "nonfinite_up", "nonfinite_down"
"""NaN and infinities; large and small finite values at the same places, to see which results hang on them."""
MASKED_ROWS = 8
"""Of rows that may begin with negative infinities, one in so many does."""
FINITE = {UP: 64.0, DOWN: -64.0}
"""In root mean squares of the input."""
NAN = (float("nan"),)
ALL_NONFINITE = (*NAN, float("inf"), -float("inf"))


@dataclass(frozen=True)
class AcceptedInputs:
    """What a reference accepts as inputs, by the number of the input tensor."""

    odd: Mapping[int, Oddness] = field(default_factory=dict)
    """A float input that is missing accepts the kinds of ``odd_rows.ANY``."""
    redrawn: Mapping[int, frozenset[int]] = field(default_factory=dict)
    """Masks and integers that may be redrawn -> styles of ``host/redrawn.py`` in which they may be."""
    may_repeat: frozenset[int] = frozenset()
    """Integers that are all different and may become equal."""
    bits: int = 0
    """How many bits integers may have, all inputs together, that leave their range; 0: nothing is known."""
    special: Mapping[int, Sequence[float]] = field(default_factory=dict)
    """Values that the reference treats apart: ``ignore_index`` and its like, and what lies beyond bounds."""
    special_rows: frozenset[int] = frozenset()
    """Inputs of which whole rows may hold such a value."""
    special_whole: frozenset[int] = frozenset()
    """Inputs that may hold one of them everywhere."""
    nonfinite: Mapping[int, tuple[float, ...]] = field(default_factory=dict)
    """Float inputs in which NaN, or infinities as well, are tried."""
    masked: frozenset[int] = frozenset()
    """Float inputs of which rows may begin with negative infinities, as scores do that a mask excludes."""
    renewed: Mapping[int, Renewing] = field(default_factory=dict)
    """Inputs of which the same comes again in every draw, and that may be others."""
    counts: frozenset[int] = frozenset()
    """Float inputs that the task draws as numbers of few bits: they are exact, and no rounding moves them."""
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
    generator: torch.Generator, accepted: AcceptedInputs, codes: Sequence[torch.Tensor] = (),
    known: Mapping[int, torch.Tensor] | None = None,
) -> None:  # fmt: skip
    """Change all inputs of a sample in place.

    Args:
        inputs: the values as drawn; no two elements of one share memory.
        family: name of the input distribution.
        variant: which of several like it.
        keeping: what float inputs must keep of their values as drawn.
        generator: of all choices.
        accepted: what the reference accepts.
        codes: rows of weights, which inputs may be like.
        known: values in another draw of inputs that are renewed in part.
    """
    if family == ALIKE:
        make_alike(inputs, keeping, generator, codes)
        make_integers_alike(inputs, accepted, generator)
        return
    if family == RENEWED:
        for i, renewing in accepted.renewed.items():
            renew(inputs[i], renewing, generator, known=(known or {}).get(i))
        return
    n_floats, bits = 0, accepted.bits
    if bits and variant:
        bits = int(torch.randint(LEAST_BITS, bits + 1, (1,), generator=generator))
    for i, x in enumerate(inputs):
        if x.is_floating_point():
            _change_floats(x, i, family, variant, n_floats, keeping, generator, accepted)
            n_floats += 1
        style = _style(family, variant, accepted.redrawn.get(i, frozenset()), generator)
        if style is not None and keeping < Keeping.SIZE:
            is_whole = family in FLAT
            redraw(x, style, generator, may_repeat=i in accepted.may_repeat, is_whole=is_whole, bits=bits)
        if family in LABELLED and i in accepted.special and keeping < Keeping.RANGE:
            put_special(x, accepted.special[i], generator, in_rows=i in accepted.special_rows)
    if family == FLOODED and accepted.special_whole and keeping < Keeping.RANGE:
        i = _one_of(sorted(accepted.special_whole), generator)
        inputs[i].fill_(_one_of(accepted.special[i], generator))


def _change_floats(
    x: torch.Tensor, i: int, family: str, variant: int, n_before: int, keeping: Keeping,
    generator: torch.Generator, accepted: AcceptedInputs,
) -> None:  # fmt: skip
    """Change one float input, the one of number ``i``; ``n_before``: float inputs before it."""
    drawn = x.clone() if keeping is not Keeping.NOTHING else x
    if family in ODD:
        is_across = family == "mild_rows" and variant % 2 == 1
        shared = REGIONS.get(variant, ()) if family == "odd_rows" else ()
        oddness = accepted.odd.get(i, ANY)
        make_odd(x, family, oddness, generator, is_across=is_across, shared=shared)
    elif family == "permuted":
        permute(x, generator)
    elif family in (NONFINITE, UP, DOWN):
        values, size = accepted.nonfinite.get(i, ()), None
        if family in FINITE:
            size = FINITE[family] * float(x.double().square().mean().sqrt() or 1.0)
        put_nonfinite(x, values, generator, is_masked=i in accepted.masked, instead=size)
    else:
        change_inputs(x, family, variant * n_before if family == "offset" else variant, generator)
    if keeping is not Keeping.NOTHING:
        x.copy_(kept(x, keeping, drawn))
    if i in accepted.ordered:
        x.copy_(x.sort(dim=-1).values)


def _one_of(values: Sequence[T], generator: torch.Generator) -> T:
    return values[int(torch.randint(len(values), (1,), generator=generator))]


def make_alike(
    inputs: Sequence[torch.Tensor], keeping: Keeping, generator: torch.Generator,
    codes: Sequence[torch.Tensor] = (),
) -> None:  # fmt: skip
    """Make float inputs nearly the same as others of their type, some of their rows equal.

    Others are the first one of the same shape, else the first one with rows of the same length. Where there
    is none, half of the rows become like rows of ``codes``.
    """
    by_shape: dict[tuple[torch.dtype, torch.Size], torch.Tensor] = {}
    by_width: dict[tuple[torch.dtype, int], torch.Tensor] = {}
    for x in inputs:
        if not x.is_floating_point() or not x.numel():
            continue
        drawn, other = x.clone(), by_shape.setdefault((x.dtype, x.shape), x)
        if other is x and x.ndim > 1:
            other = by_width.setdefault((x.dtype, x.shape[-1]), x)
        like = _like_codes(x, codes, generator) if other is x else nearly(_wrapped(other, x.shape), generator)
        x.copy_(kept(like, keeping, drawn))


def _like_codes(x: torch.Tensor, codes: Sequence[torch.Tensor], generator: torch.Generator) -> torch.Tensor:
    """Return an input of which half of the rows are like some of the codes that fit, if any do."""
    fitting = [c for c in codes if c.dtype == x.dtype and c.shape[-1] == x.shape[-1] and len(c)]
    if x.ndim < 2 or not fitting:
        return x
    code = fitting[int(torch.randint(len(fitting), (1,), generator=generator))]
    near = nearly(code[torch.randint(len(code), x.shape[:-1], generator=generator)], generator)
    return torch.where(torch.rand((*x.shape[:-1], 1), generator=generator) < SAME_SHARE, near, x)


def _wrapped(x: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    """Return as many rows as a shape has, which has rows of this length, or is the shape of ``x``."""
    if x.shape == shape:
        return x
    rows = x.reshape(-1, shape[-1])
    return rows[torch.arange(shape[:-1].numel()) % len(rows)].view(shape)


def make_integers_alike(
    inputs: Sequence[torch.Tensor], accepted: AcceptedInputs, generator: torch.Generator
) -> None:
    """Let integers agree: with the first of their form, with others of their range, or labels with scores.

    Half of the elements do, or all of a row that is sorted or holds no value twice; of labels more.
    """
    first: dict[tuple[torch.Size, torch.dtype], int] = {}
    for i, styles in accepted.redrawn.items():
        x = inputs[i]
        if RANDOM not in styles or is_mask(x) or not is_integer(x):
            continue
        other = inputs[first.setdefault((x.shape, x.dtype), i)]
        if other is not x:
            whole = x.shape[:-1] + (1,) * bool(x.ndim)
            shape = whole if has_order(x) or has_order(other) else x.shape
            x.copy_(torch.where(torch.rand(shape, generator=generator) < SAME_SHARE, other, x))
        elif i in accepted.may_repeat:
            share, chosen = LABEL_SHARE, _chosen_of(x, inputs, generator)
            if chosen is None and not is_sorted(x):
                share, chosen = SAME_SHARE, _from_others(x, inputs, generator)
            if chosen is not None:
                x.copy_(torch.where(torch.rand(x.shape, generator=generator) < share, chosen, x))


def _from_others(
    x: torch.Tensor, inputs: Sequence[torch.Tensor], generator: torch.Generator
) -> torch.Tensor | None:
    """Return values of other inputs, from random places, that lie in the range of ``x``; None for none."""
    low, high = int(x.min()), int(x.max())
    others = [y for y in inputs if y is not x and y.dtype == x.dtype and not is_mask(y)]
    fitting = [y[(y >= low) & (y <= high)] for y in others]
    if not sum(map(len, fitting)):
        return None
    values = torch.cat(fitting)
    return values[torch.randint(len(values), x.shape, generator=generator)]


def _chosen_of(
    labels: torch.Tensor, inputs: Sequence[torch.Tensor], generator: torch.Generator
) -> torch.Tensor | None:
    """Return places of some of the ``MOST_RANKS`` largest scores, in the first input that has such scores.

    The logarithm of a rank is uniform.
    """
    for scores in inputs:
        for axis in range(scores.ndim) if scores.is_floating_point() and scores.numel() else ():
            shape = (*scores.shape[:axis], *scores.shape[axis + 1 :])
            if shape == labels.shape and 0 <= int(labels.max()) < scores.shape[axis]:
                n = min(MOST_RANKS, scores.shape[axis])
                places = scores.movedim(axis, -1).topk(n).indices
                ranks = (n ** torch.rand((*labels.shape, 1), generator=generator)).long() - 1
                return places.gather(-1, ranks).squeeze(-1).to(labels.dtype)
    return None


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


def redraw(
    x: torch.Tensor, style: int, generator: torch.Generator, *, may_repeat: bool, is_whole: bool = False,
    bits: int = 0,
) -> None:  # fmt: skip
    """Redraw a mask or integers in place, in a style of ``host/redrawn.py``.

    ``is_whole``: in all rows, and as far as integers are ever shifted. ``bits``: of those beyond their range.
    """
    if x.is_floating_point() or is_mask(x):
        redraw_mask(x, style, generator, share=1.0 if is_whole else FULL_SHARE)
    elif not x.is_complex():
        redraw_integers(x, generator, style, may_repeat=may_repeat, is_farthest=is_whole, bits=bits)


def put_nonfinite(
    x: torch.Tensor, values: Sequence[float], generator: torch.Generator, *, is_masked: bool = False,
    instead: float | None = None,
) -> None:  # fmt: skip
    """Put values at random places of an input, in different rows; as many as there are rows for.

    ``is_masked``: some rows begin with negative infinities. ``instead``: stands in the place of all of them.
    """
    if x.numel() == 0:
        return
    width = max(x.shape[-1], 1) if x.ndim else 1
    rows = x.clone(memory_format=torch.contiguous_format).view(-1, width)
    order = torch.randperm(len(rows), generator=generator)
    for i, value in enumerate(values[: len(rows)]):
        at = int(torch.randint(width, (1,), generator=generator))
        rows[order[i], at] = value if instead is None else instead
    if is_masked and width > 1:
        for at in order[len(values) :][: max(len(rows) // MASKED_ROWS, 1)].tolist():
            length = int(torch.randint(1, width, (1,), generator=generator))
            rows[at, :length] = -torch.inf if instead is None else instead
    x.copy_(rows.view(x.shape))
