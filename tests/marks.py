"""Which of many like cases run in ``make test``; the others run in ``make test-slow``."""

from collections.abc import Iterable
from typing import Any

import pytest

SLOW = pytest.mark.slow


def mostly_slow(cases: Iterable[Any], *quick: Any) -> list[Any]:
    """Return the cases for ``parametrize``; all but those named ``quick`` are slow."""
    found = list(cases)
    assert all(name in found for name in quick), f"{set(quick) - set(found)}: no such case"
    return [case if case in quick else pytest.param(case, marks=SLOW) for case in found]


def first_quick(cases: Iterable[Any], count: int = 1) -> list[Any]:
    """Return the cases for ``parametrize``; all but the first few are slow. A tuple holds a case's values."""
    return [
        case if n < count else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=SLOW)
        for n, case in enumerate(cases)
    ]


def each_nth(cases: Iterable[Any], step: int) -> list[Any]:
    """Return the cases for ``parametrize``; all but the first of every so many are slow."""
    return [pytest.param(case, marks=SLOW) if n % step else case for n, case in enumerate(cases)]
