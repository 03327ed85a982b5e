"""Keeps what depends on a region's loops alone: the points of a space share loops and differ by schedule."""

from collections import OrderedDict
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from kernelwright.ir.program import Region

KEPT = 2048
"""Answers of one function that are kept, the oldest given up first; unrolled graphs have many regions."""
T = TypeVar("T")


def by_loops(work: Callable[..., T]) -> Callable[..., T]:
    """Return a function of a region, and of names, that works each out once.

    Regions are told apart by their loops as objects, never by value: an extent that varies equals a number
    that does not. The region is kept with its answer, so no other object takes its loops' place.
    """
    known: OrderedDict[tuple[Any, ...], tuple[Region, T]] = OrderedDict()

    @wraps(work)
    def once(region: Region, *names: str) -> T:
        key = (id(region.kept), id(region.inner), id(region.stages), *names)
        found = known.get(key)
        if found is None:
            found = known[key] = region, work(region, *names)
            if len(known) > KEPT:
                known.popitem(last=False)
        return found[1]

    return once
