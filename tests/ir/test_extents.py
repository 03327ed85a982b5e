"""Extents: numbers that know of what they are made."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.core.errors import LoweringError
from kernelwright.ir.extents import Dim, Extent, Family, dims_in, made_for, most
from kernelwright.ir.program import Affine, Axis

N = Dim("n", 1, 50, 8, 8)
M = Dim("m", 2, 9, 4, 4)
Value = Callable[[int, int], int]

leaves = st.one_of(
    st.integers(-9, 9).map(lambda k: (k, lambda n, m: k)),
    st.just((Extent({(N,): 1}), lambda n, m: n)),
    st.just((Extent({(M,): 1}), lambda n, m: m)),
)
sums = st.recursive(
    leaves,
    lambda inner: st.tuples(st.sampled_from("+-*"), inner, inner).map(lambda given: _joined(*given)),
    max_leaves=6,
)


def _joined(sign: str, one: tuple[int, Value], other: tuple[int, Value]) -> tuple[int, Value]:
    (a, f), (b, g) = one, other
    if sign == "+":
        return a + b, lambda n, m: f(n, m) + g(n, m)
    if sign == "-":
        return a - b, lambda n, m: f(n, m) - g(n, m)
    return a * b, lambda n, m: f(n, m) * g(n, m)


@given(sums, st.integers(1, 50), st.integers(2, 9))
def test_arithmetic_holds_at_every_extent(made: tuple[int, Value], n: int, m: int) -> None:
    extent, value = made
    assert int(extent) == value(8, 4)
    if not isinstance(extent, Extent):
        assert value(n, m) == extent
        return
    assert int(extent.at({"n": n, "m": m})) == value(n, m)
    assert eval(str(extent), {"extent_n": n, "extent_m": m}) == value(n, m)
    assert value(n, m) <= most(extent)


@given(sums, st.integers(1, 6), st.integers(1, 50), st.integers(2, 9))
def test_a_quotient_is_exact_or_a_plain_number(made: tuple[int, Value], by: int, n: int, m: int) -> None:
    extent, value = made
    quotient = extent * by // by
    assert int(quotient) == value(8, 4)
    if isinstance(extent, Extent):
        assert isinstance(quotient, Extent)
        assert int(quotient.at({"n": n, "m": m})) == value(n, m)
        assert not isinstance((extent * 2 + 1) // 2, Extent)


def test_it_equals_no_plain_number() -> None:
    extent = Extent({(N,): 1})
    assert extent != 8
    assert extent == Extent({(N,): 1})
    assert extent < 9
    assert extent - extent == 0


@given(st.integers(-5, 5), st.integers(-5, 5), st.integers(-5, 5))
def test_sizes_are_found_from_values(square: int, slope: int, offset: int) -> None:
    family = Family([N], [(n,) for n in (6, 7, 9, 10, 12)])
    found = family.fitted([square * n * n + slope * n + offset for (n,) in family.points])
    at_31 = found.at({"n": 31}) if isinstance(found, Extent) else found
    assert int(at_31) == square * 31 * 31 + slope * 31 + offset


def test_other_dependences_are_refused() -> None:
    family = Family([N], [(n,) for n in (6, 7, 9, 10, 12)])
    with pytest.raises(LoweringError, match="no sum of products of n"):
        family.fitted([n // 2 for (n,) in family.points])
    with pytest.raises(LoweringError, match="in more than its sizes"):
        family.unified([(1.0 / n,) for (n,) in family.points])
    with pytest.raises(LoweringError, match="in more than its sizes"):
        family.unified([tuple(range(n)) for (n,) in family.points])


def test_programs_are_compared_part_by_part() -> None:
    family = Family([N], [(6,), (7,), (9,)])
    made = family.unified([(Axis("i", 3 * n), Affine((("i", n),), 2), "same") for (n,) in family.points])
    assert [str(size) for size in (made[0].size, made[1].terms[0][1])] == ["(3 * extent_n)", "extent_n"]
    assert dims_in(made) == (N,)
    assert made_for(made, {"n": 11})[0].size.at({"n": 11}) == made_for(made, {"n": 11})[0].size
    assert int(made_for(made, {"n": 11})[0].size) == 33
