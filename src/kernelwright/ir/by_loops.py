"""Keeps what depends on a region or a program alone: most points of a space differ by one schedule."""

from collections import OrderedDict
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from kernelwright.ir.program import Program, Region

KEPT = 2048
"""Answers of one function that are kept, the oldest given up first; unrolled graphs have many regions."""
KEPT_OF_PROGRAMS = 8
"""The same of a function of a whole program."""
T = TypeVar("T")


def by_loops(work: Callable[..., T]) -> Callable[..., T]:
    """Return a function of a region, and of names, that works each out once.

    Regions are told apart by their loops as objects, never by value: an extent that varies equals a number
    that does not. The region is kept with its answer, so no other object takes its loops' place.
    """
    return _once(work, _loops, KEPT)


def by_region(work: Callable[..., T]) -> Callable[..., T]:
    """Return a function of a region, its schedule included, and of others that works each out once."""

    def key(region: Region) -> tuple[Any, ...]:
        return (*_loops(region), region.name, region.schedule, region.sequence, region.comment)

    return _once(work, key, KEPT)


def by_program(work: Callable[..., T]) -> Callable[..., T]:
    """Return a function of a program's steps and buffers, told apart as objects, that works each out once."""

    def key(program: Program) -> tuple[Any, ...]:
        return id(program.steps), id(program.buffers)

    return _once(work, key, KEPT_OF_PROGRAMS)


def _loops(region: Region) -> tuple[Any, ...]:
    return id(region.kept), id(region.inner), id(region.stages)


def _once(work: Callable[..., T], key_of: Callable[[Any], tuple[Any, ...]], n_kept: int) -> Callable[..., T]:
    known: OrderedDict[tuple[Any, ...], tuple[Any, T]] = OrderedDict()

    @wraps(work)
    def once(of: Any, *others: Any) -> T:
        key = (*key_of(of), *others)
        found = known.get(key)
        if found is None:
            found = known[key] = of, work(of, *others)
            if len(known) > n_kept:
                known.popitem(last=False)
        return found[1]

    return once
