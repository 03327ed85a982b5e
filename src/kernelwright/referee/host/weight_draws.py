"""Changes parameters and buffers away from their values after construction."""

import torch

from kernelwright.referee.host.redrawn import is_mask

ALONE_LOW, ALONE_HIGH = 4.0, 16.0
"""By how many root mean squares ``touched`` moves its one element."""
UNIT = 0.5
"""Root mean square of what replaces a tensor of zeros."""
LARGE_LOW, LARGE_HIGH, TINY = 100.0, 1000.0, 2.0**-20
"""Sizes of odd elements of parameters: exponentials of large ones overflow, tiny ones are scaled."""
ODD_ROWS = {
    "odd_rows": ("zero", "constant", "tiny", "same"),
    "odd_rows_but_zero": ("constant", "tiny", "same"),
    "tiny_rows": ("tiny", "same"),
}
"""Style -> kinds of odd slices of parameters along their first axis, besides odd elements of all kinds."""
ROWS_ODD, TINY_ROW = 16, 2.0**-10
"""Of each kind there is one in so many slices, at least one; size of tiny ones."""
ODD = {
    **dict.fromkeys(ODD_ROWS, ("large", "tiny", "zero")),
    "odd": ("large", "tiny", "zero"),
    "odd_but_zero": ("large", "tiny"),
    "odd_but_large": ("tiny", "zero"),
    "odd_tiny": ("tiny",),
}
"""Style -> kinds of odd elements; a reference may be finite on some of them only."""
WITH_BUFFERS = " with buffers"
"""Ends a style of ``ODD`` in which buffers that are no masks have zeros, too: counts or norms, say."""
ONE_OF, MOST_ODD = 1024, 32
"""Of each kind there is one in so many elements, at least one and at most so many."""


def change_state(x: torch.Tensor, is_parameter: bool, style: str, generator: torch.Generator) -> None:
    """Change one parameter or buffer, in place.

    Args:
        x: the value after construction; no two elements share memory.
        is_parameter: parameters can be anything after training, buffers keep their sign and their zeros.
        style: ``redrawn`` draws every parameter anew with its root mean square, so identities, triangles,
            constants and signs are gone. ``redrawn_positive`` does so too, but parameters without a negative
            value get none. ``signed`` scales, and flips signs of constant parameters. ``positive`` scales.
            ``touched`` moves one element far. The styles of ``ODD`` make few elements odd; those of buffers
            tiny, as variances may be, and zero as well where the style ends with ``WITH_BUFFERS``.
        generator: of all choices.
    """
    if x.numel() == 0:
        return
    if style == "touched":
        return _touch(x, is_parameter, generator)
    plain = style.removesuffix(WITH_BUFFERS)
    if plain in ODD:
        has_zeros = plain != style and not is_mask(x)
        _make_odd(x, ODD[plain] if is_parameter else ("tiny",) + ("zero",) * has_zeros, generator)
        rows = ODD_ROWS.get(plain, ()) if is_parameter else ("zero",) * has_zeros
        return _make_rows_odd(x, rows, generator)
    if is_parameter and style.startswith("redrawn"):
        return _redraw(x, style == "redrawn_positive", generator)
    _scale(x, is_parameter and style == "signed", generator)


def _redraw(x: torch.Tensor, keeps_positive: bool, generator: torch.Generator) -> None:
    rms = float(x.double().square().mean().sqrt()) or UNIT
    new = torch.randn(x.shape, generator=generator).mul_(rms)
    if keeps_positive and bool((x >= 0).all()):
        new.abs_().add_(rms / 10)
    x.copy_(new)


def _touch(x: torch.Tensor, is_parameter: bool, generator: torch.Generator) -> None:
    flat = x.clone(memory_format=torch.contiguous_format).view(-1)
    at = int(torch.randint(x.numel(), (1,), generator=generator))
    factor = ALONE_LOW + (ALONE_HIGH - ALONE_LOW) * float(torch.rand(1, generator=generator))
    rms = float(x.double().square().mean().sqrt()) or UNIT
    if not is_parameter and bool((flat != flat[0]).any()):
        flat[at] *= factor
    elif bool((flat >= 0).all()) or bool(torch.randint(2, (1,), generator=generator)):
        flat[at] += factor * rms
    else:
        flat[at] -= factor * rms
    x.copy_(flat.view(x.shape))


def _scale(x: torch.Tensor, flips: bool, generator: torch.Generator) -> None:
    """Scale by up to a half. Zeros in a non-constant tensor stay (masks); tensors of zeros become noise."""
    factor = torch.rand(x.shape, generator=generator).add_(0.5)
    first = x.reshape(-1)[0]
    is_constant = bool((x == first).all())
    if is_constant and float(first) == 0.0:
        x.copy_(torch.randn(x.shape, generator=generator).mul_(UNIT))
        return
    if flips and is_constant:
        factor *= torch.randint(2, x.shape, generator=generator) * 2 - 1
    x.mul_(factor.to(x.dtype))


def _make_rows_odd(x: torch.Tensor, kinds: tuple[str, ...], generator: torch.Generator) -> None:
    """Make slices along the first axis zero, constant, tiny, or the same as another one."""
    if x.ndim < 2 or len(x) < 2:
        return
    each = max(len(x) // ROWS_ODD, 1)
    places = torch.randperm(len(x), generator=generator)
    for i, kind in enumerate(kinds):
        at = places[i * each : (i + 1) * each]
        rows = x[at]
        if kind == "zero":
            rows.zero_()
        elif kind == "tiny":
            rows.mul_(TINY_ROW)
        elif kind == "same":
            rows = x[places[-1:].expand(len(at))]
        elif rows.numel():
            rows.copy_(rows.reshape(len(at), -1)[:, 0].view(-1, *[1] * (x.ndim - 1)).expand_as(rows))
        x[at] = rows


def _make_odd(x: torch.Tensor, kinds: tuple[str, ...], generator: torch.Generator) -> None:
    """Make elements large, tiny or zero.

    Where there are negative values, elements become large and negative, too.
    """
    flat = x.clone(memory_format=torch.contiguous_format).view(-1)
    if "large" in kinds and not bool((flat >= 0).all()):
        kinds = (*kinds, "low")
    each = min(max(flat.numel() // ONE_OF, 1), MOST_ODD)
    order = torch.randperm(len(kinds), generator=generator).tolist()
    places = torch.randperm(flat.numel(), generator=generator)[: each * len(kinds)]
    if flat.numel() < 2 * len(kinds):
        places = places[:1]
    for i, at in enumerate(places.tolist()):
        kind = kinds[order[i % len(kinds)]]
        if kind in ("large", "low"):
            size = LARGE_LOW + (LARGE_HIGH - LARGE_LOW) * float(torch.rand(1, generator=generator))
            flat[at] = size if kind == "large" else -size
        else:
            flat[at] *= TINY if kind == "tiny" else 0.0
    x.copy_(flat.view(x.shape))
