"""Redraws what is no ordinary float input: indices, labels, flags and masks, within what the task draws."""

from collections.abc import Sequence

import torch

SPECIAL_SHARE = 0.15
"""Share of the elements that take a value which the reference treats apart, such as ``ignore_index``."""
FULL_SHARE = 0.25
"""Share of a mask's rows that are true, and as many that are false, from the style ``UNEVEN`` on."""
SPECIAL_ROWS = 0.25
"""Share of the rows that take such a value everywhere, where a reference accepts that."""
N_FEW = 3
FEW_SHARE = 0.9
"""``UNEVEN`` integers: this share of them takes one of a few values, so others are rare or do not occur."""
SURELY_SORTED, SURELY_DISTINCT = 6, 3.0
"""Rows are sorted by intention where they have so many steps together, and without repetitions where so many
would be expected of random values."""
PADDED, RANDOM, UNEVEN, EQUAL = STYLES = range(4)
"""Styles of redrawing. ``PADDED`` and ``RANDOM`` are the same for integers, ``EQUAL`` makes all alike."""
FULL, EMPTY = 4, 5
"""Rows of a mask that are all true, and all false: where a reference refuses one of the two."""
WIDE = 6
"""Integers far outside the range as drawn."""
TRADED = 9
"""Counts whose sum along the last axis stays: where a reference takes no other counts."""
TRADED_WHOLE = 0.25
"""Share of the trades after which nothing is left of a count."""
SHIFTED, SHUFFLED, SWAPPED = 7, 8, 10
"""Of integers in a row without a gap, such as positions: all larger by one number, each row by its own; in
another order; two of them in each other's place."""
WIDEST = {torch.int64: 1 << 15, torch.int32: 1 << 11, torch.int16: 1 << 11}
"""Size of ``WIDE`` integers of which nothing more is known: sums of their products stay below what the type
holds. Bytes take any value."""
EXACT_STEP, EXACT_BELOW = 0.125, 4096.0
"""Floats that are multiples of this step, and smaller than this, have few bits."""
LEAST_BITS, MOST_BITS = 12, 62
"""Between how many bits ``WIDE`` integers may have where that is looked for."""


def is_mask(x: torch.Tensor) -> bool:
    """Tell whether an input says yes or no of each element: booleans, two floats, rows of 0 and 1."""
    if x.dtype is torch.bool:
        return True
    if x.is_complex() or x.numel() < 2:
        return False
    if not x.is_floating_point():
        return x.ndim > 1 and int(x.min()) == 0 and int(x.max()) == 1
    first = x.reshape(-1)[0]
    others = x[x != first]
    return others.numel() > 0 and bool((others == others[0]).all())


def has_few_bits(x: torch.Tensor) -> torch.Tensor:
    """Tell which floats have few bits, as counts and levels have."""
    steps = x.double() / EXACT_STEP
    return (steps == steps.round()) & (x.abs() < EXACT_BELOW)


def is_integer(x: torch.Tensor) -> bool:
    """Tell whether an input holds integers; a mask of 0 and 1 does, too."""
    return not x.is_floating_point() and not x.is_complex() and x.dtype is not torch.bool and x.numel() > 0


def redraw_mask(
    x: torch.Tensor, style: int, generator: torch.Generator, *, share: float = FULL_SHARE
) -> None:
    """Redraw a mask in place, with its own two values.

    Up to ``RANDOM``, every vector along the last axis that is longer than 1 keeps at least one of each value:
    a row of which everything is masked has no softmax.

    Args:
        x: as ``is_mask`` wants it. A single boolean becomes the other one, except in the styles ``RANDOM``
            and ``EQUAL``, in which either may come.
        style: ``PADDED``: the ends of rows differ from their beginnings, one length for each first index;
            ``RANDOM``: with the share as drawn; ``UNEVEN``: also, but in some rows all values are the same;
            ``EQUAL``: in all rows together; ``FULL`` and ``EMPTY``: as drawn, but some rows are all true, or
            all false; of floats, the larger value stands for true.
        generator: of the choices.
        share: of the rows that are ``FULL`` or ``EMPTY``.
    """
    if x.numel() == 0:
        return
    while x.ndim > 1 and x.shape[-1] == 1:  # a mask that is broadcast along its last axis
        x = x.squeeze(-1)
    if x.ndim == 0:
        x.copy_(torch.randint(2, (), generator=generator) if style in (RANDOM, EQUAL) else ~x)
        return
    flat = x.reshape(-1)
    if style in (FULL, EMPTY):
        rows = torch.rand((*x.shape[:-1], 1), generator=generator) < share
        x.copy_(torch.where(rows, flat.amax() if style == FULL else flat.amin(), x))
        return
    one = flat[0].clone()
    differing = flat[flat != one]
    other = differing[0].clone() if differing.numel() else (~one if x.dtype is torch.bool else one)
    width = x.shape[-1]
    if style == EQUAL:
        x.copy_((one, other)[int(torch.randint(2, (1,), generator=generator))])
        return
    if style == PADDED:
        lengths = torch.randint(1, max(width, 2), (x.shape[0], *(1,) * (x.ndim - 1)), generator=generator)
        is_first = (torch.arange(width) < lengths).expand(x.shape)
    else:
        share = float((flat == one).double().mean())
        is_first = torch.rand(x.shape, generator=generator) < min(max(share, 0.1), 0.9)
    if width > 1:
        places = torch.randint(width, (*x.shape[:-1], 1), generator=generator)
        is_first = is_first.clone().scatter_(-1, places, True)
        is_first.scatter_(-1, (places + 1) % width, False)
    if style == UNEVEN:
        lot = torch.rand((*x.shape[:-1], 1), generator=generator)
        is_first = (is_first | (lot < FULL_SHARE)) & (lot < 1 - FULL_SHARE)
    if bool(torch.randint(2, (1,), generator=generator)) and x.dtype is torch.bool:
        is_first = ~is_first
    x.copy_(torch.where(is_first, one, other))


def redraw_integers(
    x: torch.Tensor, generator: torch.Generator, style: int = RANDOM, *, may_repeat: bool = False,
    is_farthest: bool = False, bits: int = 0,
) -> None:  # fmt: skip
    """Redraw integers in place within their range.

    Where all are the same, the range begins at zero or one; where all are zero, it ends at one.

    What is sorted stays sorted, and its ends stay. Where every value occurs once, every value still does,
    unless ``may_repeat`` and the style is ``UNEVEN`` or ``EQUAL``; numbers without a gap stay as they are.
    The same holds for rows along the last axis that are sorted or without repetitions, one and all; of these
    an end stays that all of them have in common. All this does not hold for ``WIDE``, ``SHIFTED``,
    ``SHUFFLED``, ``SWAPPED`` and ``TRADED``. With ``is_farthest`` they are shifted as far as they ever are:
    who accepts that accepts less. ``bits``: how many ``WIDE`` ones may have, as far as their type has them.
    """
    if x.numel() == 0:
        return
    if style in (WIDE, SHIFTED, SHUFFLED, SWAPPED, TRADED):
        return _redraw_freely(x, style, generator, is_farthest=is_farthest, bits=bits)
    rows, ascends, is_distinct = _ordered_rows(x)
    low, high = int(rows.min()), int(rows.max())
    repeats = may_repeat and style >= UNEVEN
    if is_distinct and ascends and (not repeats or high - low < rows.shape[1]):
        return
    if is_distinct and not repeats:
        new = rows.gather(1, torch.rand(rows.shape, generator=generator).argsort(1))
    else:
        if low == high:
            low, high = min(low, int(style < UNEVEN)), high or 1
        new = _drawn_between(low, high, rows.shape, style, generator).to(x.dtype)
    if ascends and not (is_distinct and not repeats):
        new = new.sort(dim=1).values
        for end in (0, -1):
            if bool((rows[:, end] == rows[0, end]).all()):
                new[:, end] = rows[:, end]
    x.copy_(new.view(x.shape))


def has_order(x: torch.Tensor) -> bool:
    """Tell whether integers are sorted or without repetitions, as a whole or in each row."""
    _, ascends, is_distinct = _ordered_rows(x)
    return ascends or is_distinct


def is_sorted(x: torch.Tensor) -> bool:
    """Tell whether integers ascend, as a whole or in each row, and not by chance."""
    return _ordered_rows(x)[1]


def _ordered_rows(x: torch.Tensor) -> tuple[torch.Tensor, bool, bool]:
    """Return integers as one row, or as those of the last axis where only these are in order.

    Also whether the rows are sorted, and whether they are without repetitions.
    """
    flat = x.reshape(1, -1)
    for rows in (flat, x.reshape(-1, x.shape[-1])) if x.ndim > 1 else (flat,):
        ascends, is_distinct = _are_sorted(rows), _are_distinct(rows)
        if ascends or is_distinct:
            return rows, ascends, is_distinct
    return flat, False, False


def _are_sorted(rows: torch.Tensor) -> bool:
    """Tell whether each row ascends, and not by chance."""
    steps = rows.diff(dim=1)
    least = 2 if len(rows) == 1 else SURELY_SORTED
    return steps.numel() >= least and bool((steps >= 0).all()) and bool((steps > 0).any())


def _are_distinct(rows: torch.Tensor) -> bool:
    """Tell whether no row holds a value twice; of several rows, whether that is no chance."""
    n_rows, width = rows.shape
    if width < 2 or bool((rows.sort(dim=1).values.diff(dim=1) == 0).any()):
        return False
    expected = n_rows * width * (width - 1) / 2 / (int(rows.max()) - int(rows.min()) + 1)
    return n_rows == 1 or expected >= SURELY_DISTINCT


def are_in_a_row(x: torch.Tensor) -> bool:
    """Tell whether integers are numbers in a row without a gap, as a whole or along the last axis."""
    return len(_rows_in_a_row(x)) > 0


def _rows_in_a_row(x: torch.Tensor) -> torch.Tensor:
    """Return integers as one row of numbers without a gap, or as several; as no row where they are none."""
    if x.numel() > 1:
        for rows in (x.reshape(1, -1), x.reshape(-1, x.shape[-1])):
            if rows.shape[1] > 1 and bool((rows.diff(dim=1) == 1).all()):
                return rows
    return x.reshape(-1)[:0].reshape(0, 1)


def _redraw_freely(
    x: torch.Tensor, style: int, generator: torch.Generator, *, is_farthest: bool, bits: int
) -> None:
    if style == SHIFTED:
        rows = _rows_in_a_row(x)
        by = torch.randint(1, rows.shape[1] + 1, (len(rows), 1), generator=generator)
        x.copy_((rows + (rows.shape[1] if is_farthest else by)).view(x.shape))
    elif style == TRADED:
        _trade(x, generator)
    elif style == SHUFFLED:
        rows = _rows_in_a_row(x)
        x.copy_(rows.gather(1, torch.rand(rows.shape, generator=generator).argsort(1)).view(x.shape))
    elif style == SWAPPED:
        two, flat = torch.randperm(x.numel(), generator=generator)[:2], x.reshape(-1).clone()
        flat[two] = flat[two.flip(0)]
        x.copy_(flat.view(x.shape))
    else:
        of = torch.iinfo(x.dtype)
        most = WIDEST.get(x.dtype, of.max)
        most = max(most, min((1 << bits) - 1, of.max >> 1))
        x.copy_(torch.randint(max(-most, of.min), most + 1, x.shape, generator=generator))


def _trade(x: torch.Tensor, generator: torch.Generator) -> None:
    """Move units between counts of a row, where none is negative; some counts become zero."""
    width = x.shape[-1] if x.ndim else 1
    if width < 2 or int(x.min()) < 0:
        return
    rows = x.reshape(-1, width)
    order = torch.rand(rows.shape, generator=generator).argsort(1)
    giving, taking = order[:, : width // 2], order[:, width // 2 : width // 2 * 2]
    most = rows.gather(1, giving)
    share = torch.rand(most.shape, generator=generator)
    share[torch.rand(most.shape, generator=generator) < TRADED_WHOLE] = 1.0
    by = (most * share).ceil().to(x.dtype)
    x.copy_(rows.scatter_add(1, giving, -by).scatter_add(1, taking, by).view(x.shape))


def _drawn_between(
    low: int, high: int, shape: torch.Size, style: int, generator: torch.Generator
) -> torch.Tensor:
    if style < UNEVEN:
        return torch.randint(low, high + 1, shape, generator=generator)
    few = torch.randint(low, high + 1, (1 if style == EQUAL else N_FEW,), generator=generator)
    few[0] = (low, high)[int(torch.randint(2, (1,), generator=generator))]
    new = few[torch.randint(len(few), shape, generator=generator)]
    if style == EQUAL:
        return new
    others = torch.randint(low, high + 1, shape, generator=generator)
    return torch.where(torch.rand(shape, generator=generator) < FEW_SHARE, new, others)


def put_special(
    x: torch.Tensor, values: Sequence[float], generator: torch.Generator, *, in_rows: bool = False
) -> None:
    """Give some elements, at least one and not all, a value that the reference treats apart.

    ``in_rows``: some rows get it everywhere as well.
    """
    if x.numel() < 2 or not values:
        return
    flat = x.reshape(-1).clone()
    n = min(max(int(SPECIAL_SHARE * flat.numel()), 1), flat.numel() - 1)
    where = torch.randperm(flat.numel(), generator=generator)[:n]
    picks = torch.randint(len(values), (n,), generator=generator)
    known = torch.tensor(list(values), dtype=x.dtype)
    flat[where] = known[picks]
    x.copy_(flat.view(x.shape))
    if in_rows and x.ndim > 1:
        rows = (*x.shape[:-1], 1)
        is_whole = torch.rand(rows, generator=generator) < SPECIAL_ROWS
        x.copy_(torch.where(is_whole, known[torch.randint(len(known), rows, generator=generator)], x))
