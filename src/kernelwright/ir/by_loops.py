"""Keeps what depends on a region alone: the points of a space share loops, and most differ by a schedule."""

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
    return _once(work, lambda region: ())


def by_region(work: Callable[..., T]) -> Callable[..., T]:
    """Return a function of a region, its schedule included, and of others that works each out once."""
    return _once(work, lambda region: (region.name, region.schedule, region.sequence, region.comment))


def _once(work: Callable[..., T], besides: Callable[[Region], tuple[Any, ...]]) -> Callable[..., T]:
    known: OrderedDict[tuple[Any, ...], tuple[Region, T]] = OrderedDict()

    @wraps(work)
    def once(region: Region, *others: Any) -> T:
        key = (id(region.kept), id(region.inner), id(region.stages), *besides(region), *others)
        found = known.get(key)
        if found is None:
            found = known[key] = region, work(region, *others)
            if len(known) > KEPT:
                known.popitem(last=False)
        return found[1]

    return once
