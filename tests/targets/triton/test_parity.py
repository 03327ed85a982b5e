"""What the C++ printer can print Triton's can too, but for what is named here."""

import itertools
from typing import Any, get_args

import pytest
import torch
from tests.ir.lowering_checks import Wrap, regions
from tests.ir.regions import reduction, scan
from tests.targets.triton.printed import print_module
from tests.targets.triton.test_operations import NOT_FLOAT, region_of

from kernelwright.core.errors import LoweringError
from kernelwright.ir.lower import lower
from kernelwright.ir.lower.pointwise import ARITHMETIC, COMPARISONS
from kernelwright.ir.program import OPS, Combine, DType, Region
from kernelwright.targets.cpp.printer import print_source
from kernelwright.tasks.capture import capture_module

INTEGERS: tuple[DType, ...] = ("int64", "int32", "int16", "int8", "uint8")
OF_INTEGERS = "add sub mul neg abs min max floordiv remainder fmod sign square where eq ne lt le gt ge"
REFUSED = {("pow", "float64"): "exp2 of a product loses digits of large powers; torch keeps them"}
"""(operation, type) that C++ has and Triton has not -> why. Integer powers are refused by lowering itself."""


def is_printed(region: Region) -> bool:
    assert print_source((region,))
    try:
        return "@triton.jit" in print_module((region,))
    except LoweringError:
        return False


def test_operations_are_printed_in_both_languages_but_for_those_named() -> None:
    wanted: list[tuple[str, DType]] = [
        (n, d) for n in OPS if n not in NOT_FLOAT for d in ("float32", "float64")
    ]
    wanted += itertools.product(OF_INTEGERS.split(), INTEGERS)
    assert {(name, dtype) for name, dtype in wanted if not is_printed(region_of(name, dtype))} == set(REFUSED)


@pytest.mark.parametrize("over", ["i", "j", "both"])
def test_every_way_of_combining_is_printed_in_both(over: str) -> None:
    for combine in get_args(Combine):
        assert is_printed(reduction(5, 7, combine, over))
        if over != "both" and not combine.startswith("arg") and combine not in ("any", "all"):
            assert all(is_printed(scan(5, 7, combine, over, reverse=r)) for r in (False, True))


def sample(name: str) -> tuple[Any, tuple[Any, ...]] | None:
    """A pointwise operator and arguments that fit its schema; None where plain ones do not."""
    base, overload = name.rsplit(".", 1)
    found = getattr(torch.ops.aten, base, None)
    if found is None or not hasattr(found, overload):
        return None
    function = getattr(found, overload)
    plain = {"Tensor": torch.rand(2, 4, 6) + 0.5, "int": 1, "float": 0.5, "bool": False, "number": 2.0}
    args = []
    for argument in function._schema.arguments:
        if argument.has_default_value() or argument.kwarg_only:
            break
        kind = str(argument.type)
        args.append(None if kind.startswith("Optional") else plain.get(kind, 1))
    try:
        function(*args)
    except (RuntimeError, TypeError, IndexError):
        return None
    return function, tuple(args)


def test_pointwise_operators_that_lower_are_printed_in_both() -> None:
    """Handlers of other operators (reductions, pooling, norms) have tasks of the suite; see test_suite.py."""
    known = [*ARITHMETIC, *COMPARISONS]
    samples = {name: made for name in known if (made := sample(name)) is not None}
    assert len(samples) > 0.8 * len(known), sorted(set(known) - set(samples))
    x = torch.rand(2, 4, 6) + 0.5

    def all_of_them(x: torch.Tensor) -> tuple[Any, ...]:
        results = []
        for function, args in samples.values():
            own = [x if isinstance(a, torch.Tensor) and a.shape == x.shape else a for a in args]
            results.append(function(*own))
        return tuple(results)

    made = regions(lower(capture_module(Wrap(all_of_them), (x,))))
    assert made and all(is_printed(region) for region in made)
