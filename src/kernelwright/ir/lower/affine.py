"""Arithmetic on affine indices, including the division that reshapes need."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from kernelwright.ir.program import Affine

Index: TypeAlias = tuple[Affine, ...]
"""One affine expression per dimension of the value that is read."""

ZERO = Affine()


class NeedSplitError(Exception):
    """A loop axis must become two, the inner of ``factor`` iterations, before an index is affine."""

    def __init__(self, axis: str, factor: int) -> None:
        super().__init__(f"axis {axis} must be split by {factor}")
        self.axis = axis
        self.factor = factor


class NotAffineError(Exception):
    """No split of the loop axes makes the index affine."""


def const(offset: int) -> Affine:
    """Return a constant index."""
    return Affine(offset=offset)


def axis(name: str, coefficient: int = 1) -> Affine:
    """Return ``coefficient * name``."""
    return Affine(((name, coefficient),)) if coefficient else ZERO


def linear(terms: Mapping[str, int], offset: int = 0) -> Affine:
    """Return the normal form of ``offset + sum(coefficient * axis)``."""
    return Affine(tuple(sorted((name, c) for name, c in terms.items() if c)), offset)


def add(left: Affine, right: Affine) -> Affine:
    """Return the sum."""
    if not right.terms:
        return Affine(left.terms, left.offset + right.offset)
    terms = dict(left.terms)
    for name, coefficient in right.terms:
        terms[name] = terms.get(name, 0) + coefficient
    return linear(terms, left.offset + right.offset)


def scale(index: Affine, factor: int) -> Affine:
    """Return the product with an integer."""
    if factor == 0:
        return ZERO
    return Affine(tuple((n, c * factor) for n, c in index.terms), index.offset * factor)


def shift(index: Affine, offset: int) -> Affine:
    """Return ``index + offset``."""
    return Affine(index.terms, index.offset + offset)


def span(index: Affine, sizes: Mapping[str, int]) -> tuple[int, int]:
    """Return the least and the greatest value over all iterations."""
    low = high = index.offset
    for name, coefficient in index.terms:
        reach = coefficient * (sizes[name] - 1)
        low, high = low + min(reach, 0), high + max(reach, 0)
    return low, high


def flatten(index: Sequence[Affine], strides: Sequence[int]) -> Affine:
    """Return ``sum(index * stride)``."""
    flat = ZERO
    for part, stride in zip(index, strides, strict=True):
        flat = add(flat, scale(part, stride))
    return flat


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the row-major strides of a shape, in elements."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def unflatten(flat: Affine, shape: Sequence[int], sizes: Mapping[str, int]) -> Index:
    """Return the indices whose row-major position in ``shape`` is ``flat``.

    Raises NeedSplitError when splitting a loop axis makes it possible, NotAffineError when nothing does.
    """
    parts: list[Affine] = []
    for size in reversed(shape[1:]):
        flat, rest = _divide(flat, size, sizes)
        parts.append(rest)
    if shape:
        parts.append(flat if shape[0] != 1 else ZERO)
    return tuple(reversed(parts))


def _divide(index: Affine, divisor: int, sizes: Mapping[str, int]) -> tuple[Affine, Affine]:
    if divisor == 1:
        return index, ZERO
    whole = {name: c // divisor for name, c in index.terms if c % divisor == 0}
    part = {name: c for name, c in index.terms if c % divisor}
    quotient, remainder = divmod(index.offset, divisor)
    rest = linear(part, remainder)
    low, high = span(rest, sizes)
    if low >= 0 and high < divisor:
        return linear(whole, quotient), rest
    for name, coefficient in sorted(part.items(), key=lambda term: -term[1]):
        if coefficient > 0 and divisor % coefficient == 0:
            factor = divisor // coefficient
            if 1 < factor < sizes[name] and sizes[name] % factor == 0:
                raise NeedSplitError(name, factor)
    raise NotAffineError(f"{index} // {divisor}")


def refine(left: Sequence[int], right: Sequence[int]) -> list[int] | None:
    """Return the coarsest sizes that both row-major factorisations split into; None if there are none."""
    a, b = [s for s in left if s != 1], [s for s in right if s != 1]
    common: list[int] = []
    while a and b:
        x, y = a.pop(), b.pop()
        small = min(x, y)
        if max(x, y) % small:
            return None
        common.append(small)
        if x > small:
            a.append(x // small)
        if y > small:
            b.append(y // small)
    return list(reversed(common)) if not a and not b else None
