"""Extents that are known at run time: numbers that also know of what they are made.

A graph is captured and lowered at several extents. ``Family.unified`` compares the programs and puts an
``Extent`` wherever a number depends on them. An ``Extent`` calculates like the number at the extent that
kernels are made for, so schedules are decided as for that size. It prints as an expression, so the text holds
for all.
"""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from fractions import Fraction
from functools import reduce
from typing import Any, TypeVar

from kernelwright.core.errors import LoweringError

PREFIX = "extent_"
"""Of the variables that hold extents in generated code."""
T = TypeVar("T")


@dataclass(frozen=True, order=True)
class Dim:
    """One extent that varies."""

    name: str
    low: int
    high: int
    made_for: int
    """The one that schedules are decided for."""
    value: int
    """The one that numbers have: ``made_for``, or another to see what depends on it."""

    @property
    def variable(self) -> str:
        """Its name in generated code."""
        return f"{PREFIX}{self.name}"


Terms = Mapping[tuple[Dim, ...], int]
"""Product of dims -> its coefficient; the empty product is the constant."""


class Extent(int):
    """A sum of products of dims.

    It equals only an extent of the same terms, never a plain number: what holds at one extent by accident
    does not count. Order is that of the values. Arithmetic without a result of this form gives a plain
    number; ``targets/module_file`` finds it, because the text differs from one value to another.
    """

    terms: tuple[tuple[tuple[Dim, ...], int], ...]

    def __new__(cls, terms: Terms) -> "Extent":
        """Return the extent of these terms, which are not constant."""
        made = super().__new__(cls, _evaluated(terms, lambda dim, _: dim.value))
        made.terms = tuple(sorted(terms.items()))
        return made

    @property
    def most(self) -> int:
        """No value in the range is larger."""
        return _evaluated(dict(self.terms), lambda dim, factor: dim.high if factor > 0 else dim.low)

    @property
    def planned(self) -> int:
        """The value at the extents that schedules are decided for."""
        return _evaluated(dict(self.terms), lambda dim, _: dim.made_for)

    @property
    def dims(self) -> frozenset[Dim]:
        """The dims it depends on."""
        return frozenset(dim for product, _ in self.terms for dim in product)

    def at(self, values: Mapping[str, int]) -> "Extent":
        """Return the same with other values of the dims."""
        return Extent(
            {
                tuple(replace(dim, value=values[dim.name]) for dim in product): factor
                for product, factor in self.terms
            }
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Extent) and self.terms == other.terms

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.terms)

    def __str__(self) -> str:
        parts = []
        for product, factor in reversed(self.terms):
            names = [dim.variable for dim in product]
            shown = [str(abs(factor))] if abs(factor) != 1 or not names else []
            parts.append(("- " if factor < 0 else "+ ") + " * ".join([*shown, *names]))
        text = " ".join(parts)
        text = text[2:] if text.startswith("+ ") else "-" + text[2:]
        return text if text.isidentifier() else f"({text})"

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        return format(int(self), spec) if spec else str(self)

    def __int__(self) -> int:
        return int.__int__(self)

    def __add__(self, other: int) -> int:
        return _sum(_terms(self), _terms(other)) if isinstance(other, int) else NotImplemented

    __radd__ = __add__

    def __neg__(self) -> int:
        return self * -1

    def __abs__(self) -> int:
        if all(factor >= 0 for _, factor in self.terms):
            return self
        return -self if all(factor <= 0 for _, factor in self.terms) else abs(int(self))

    def __sub__(self, other: int) -> int:
        return self + -other if isinstance(other, int) else NotImplemented

    def __rsub__(self, other: int) -> int:
        return -self + other if isinstance(other, int) else NotImplemented

    def __mul__(self, other: int) -> int:
        if not isinstance(other, int):
            return NotImplemented
        products = [
            {tuple(sorted((*a, *b))): m * n}
            for a, m in _terms(self).items()
            for b, n in _terms(other).items()
        ]
        return _sum(*products)

    __rmul__ = __mul__

    def __floordiv__(self, other: int) -> int:
        exact = _quotient(self, other)
        return int(self) // int(other) if exact is None else exact

    def __mod__(self, other: int) -> int:
        return int(self) % int(other) if _quotient(self, other) is None else 0

    def __divmod__(self, other: int) -> tuple[int, int]:
        return self // other, self % other

    def __reduce__(self) -> tuple[Any, ...]:
        return Extent, (dict(self.terms),)


def planned(value: int) -> int:
    """Return the number that a choice of speed, right at every extent, is made by."""
    return value.planned if isinstance(value, Extent) else value


def most(value: int) -> int:
    """Return the largest value of a number or an extent."""
    return value.most if isinstance(value, Extent) else value


def _terms(value: int) -> Terms:
    return dict(value.terms) if isinstance(value, Extent) else {(): int(value)}


def _evaluated(terms: Terms, value: Callable[[Dim, int], int]) -> int:
    return sum(
        factor * reduce(lambda n, dim: n * value(dim, factor), product, 1)
        for product, factor in terms.items()
    )


def _sum(*parts: Terms) -> int:
    total: dict[tuple[Dim, ...], int] = {}
    for product, factor in itertools.chain.from_iterable(part.items() for part in parts):
        total[product] = total.get(product, 0) + factor
    return _made({product: factor for product, factor in total.items() if factor})


def _made(terms: Terms) -> int:
    return Extent(terms) if any(terms) else terms.get((), 0)


def _quotient(value: Extent, other: int) -> int | None:
    """Return the exact quotient; None where there is none for every extent."""
    divisor = list(_terms(other).items())
    if len(divisor) != 1 or not divisor[0][1]:
        return None
    (below, by), found = divisor[0], {}
    for product, factor in value.terms:
        rest = list(product)
        for dim in below:
            if dim not in rest:
                return None
            rest.remove(dim)
        if factor % by:
            return None
        found[tuple(rest)] = factor // by
    return _made(found)


# -- from several programs to one ----------------------------------------------------------------------


class Family:
    """Values at several points, one extent for each dim in each."""

    def __init__(self, dims: Sequence[Dim], points: Sequence[Sequence[int]]) -> None:
        self.dims = tuple(dims)
        self.points = [tuple(point) for point in points]

    def fitted(self, values: Sequence[int]) -> int:
        """Return the number or extent that has these values at the points.

        Raises:
            LoweringError: no sum of products of at most two dims has.
        """
        if len(set(values)) == 1:
            return values[0]
        for degree in (1, 2):
            products = [
                product
                for n in range(degree + 1)
                for product in itertools.combinations_with_replacement(sorted(self.dims), n)
            ]
            terms = self._solved(products, values)
            if terms is not None:
                return _made(terms)
        raise LoweringError(f"a size is no sum of products of {self._names}: {', '.join(map(str, values))}")

    @property
    def _names(self) -> str:
        return ", ".join(dim.name for dim in self.dims)

    def _solved(self, products: list[tuple[Dim, ...]], values: Sequence[int]) -> Terms | None:
        if len(products) >= len(self.points) and len(products) > 1 + len(self.dims):
            return None  # nothing would be left to check it by
        position = {dim: i for i, dim in enumerate(self.dims)}
        rows = [
            [Fraction(reduce(lambda n, dim: n * point[position[dim]], product, 1)) for product in products]
            + [Fraction(value)]
            for point, value in zip(self.points, values, strict=True)
        ]
        solution = _eliminated(rows, len(products))
        if solution is None or any(factor.denominator != 1 for factor in solution):
            return None
        return {p: int(factor) for p, factor in zip(products, solution, strict=True) if factor}

    def unified(self, parts: Sequence[T]) -> T:
        """Return the value that is each of the parts at its point; only numbers may depend on it.

        Raises:
            LoweringError: the parts differ in more than that.
        """
        return _Unifier(self).unified(parts)  # type: ignore[no-any-return]


def _eliminated(rows: list[list[Fraction]], n_columns: int) -> list[Fraction] | None:
    """Solve linear equations exactly; None where there is no solution, or more than one."""
    rows, done = [list(row) for row in rows], 0
    for column in range(n_columns):
        pivot = next((i for i in range(done, len(rows)) if rows[i][column]), None)
        if pivot is None:
            return None
        rows[done], rows[pivot] = rows[pivot], rows[done]
        rows[done] = [value / rows[done][column] for value in rows[done]]
        for i, row in enumerate(rows):
            if i != done and row[column]:
                rows[i] = [a - row[column] * b for a, b in zip(row, rows[done], strict=True)]
        done += 1
    if any(row[-1] for row in rows[done:]):
        return None
    return [row[-1] for row in rows[:n_columns]]


class _Unifier:
    def __init__(self, family: Family) -> None:
        self._family = family
        self._known: dict[tuple[int, ...], tuple[Sequence[Any], Any]] = {}

    def unified(self, parts: Sequence[Any], name: str = "") -> Any:
        first = parts[0]
        if all(part is first for part in parts):
            return first
        key = tuple(map(id, parts))
        if key not in self._known:
            self._known[key] = parts, self._made(parts, name)
        return self._known[key][1]

    def _made(self, parts: Sequence[Any], name: str) -> Any:
        first = parts[0]
        if any(type(part) is not type(first) for part in parts):
            raise LoweringError(self._words(name, parts))
        if type(first) is int:
            return self._family.fitted(parts)
        if isinstance(first, tuple):
            if len({len(part) for part in parts}) > 1:
                raise LoweringError(self._words(name, parts))
            return tuple(self.unified(items, name) for items in zip(*parts, strict=True))
        if is_dataclass(first) and not isinstance(first, type):
            changed = {
                field.name: self.unified([getattr(part, field.name) for part in parts], field.name)
                for field in fields(first)
                if field.compare and field.name != "comment"
            }
            return replace(first, **changed)
        if any(part != first for part in parts):
            raise LoweringError(self._words(name, parts))
        return first

    def _words(self, name: str, parts: Sequence[Any]) -> str:
        shown = " or ".join(dict.fromkeys(" ".join(repr(part).split())[:60] for part in parts[:2]))
        names = ", ".join(dim.name for dim in self._family.dims)
        return f"the program depends on {names} in more than its sizes: {name or 'a part'} is {shown}"


# -- inside a program ----------------------------------------------------------------------------------


def dims_in(value: Any) -> tuple[Dim, ...]:
    """Return the dims that a program, or a part of one, depends on, in a stable order."""
    found: set[Dim] = set()
    seen: dict[int, Any] = {}
    pending = [value]
    while pending:
        part = pending.pop()
        if isinstance(part, Extent):
            found |= part.dims
        if id(part) in seen:
            continue
        seen[id(part)] = part
        pending += _inside(part)
    return tuple(sorted(found))


def _inside(part: Any) -> Iterable[Any]:
    if isinstance(part, tuple):
        return part
    if is_dataclass(part) and not isinstance(part, type):
        return [getattr(part, field.name) for field in fields(part) if field.compare]
    return ()


def made_for(value: T, values: Mapping[str, int]) -> T:
    """Return a program, or a part of one, with other values for its dims; it means the same."""
    return _rebuilt(value, values, {})  # type: ignore[no-any-return]


def _rebuilt(part: Any, values: Mapping[str, int], known: dict[int, tuple[Any, Any]]) -> Any:
    if isinstance(part, Extent):
        return part.at(values)
    if id(part) in known:
        return known[id(part)][1]
    result = part
    if isinstance(part, tuple):
        items = tuple(_rebuilt(item, values, known) for item in part)
        result = items if any(a is not b for a, b in zip(items, part, strict=True)) else part
    elif is_dataclass(part) and not isinstance(part, type):
        changed = {
            field.name: new
            for field in fields(part)
            if field.compare and (new := _rebuilt(old := getattr(part, field.name), values, known)) is not old
        }
        result = replace(part, **changed) if changed else part
    known[id(part)] = part, result
    return result
