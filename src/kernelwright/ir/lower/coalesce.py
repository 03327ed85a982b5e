"""Orders loops by their strides in memory, and merges neighbouring loops that can be one."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from kernelwright.ir.lower.affine import linear
from kernelwright.ir.lower.expressions import affines, map_stage
from kernelwright.ir.program import Affine, Axis, Expr, Region


def in_memory_order(region: Region) -> Region:
    """Return the region with the axes of long strides outermost: in stores, of inner axes in all accesses.

    Only the order of summation depends on it; scans and the first position of a maximum keep theirs.
    """
    stores = [store.index for stage in region.stages for store in stage.stores]
    kept = sorted(region.kept, key=_longest(stores))
    if any(stage.kind == "scan" or stage.position is not None for stage in region.stages):
        return replace(region, kept=tuple(kept))
    inner = sorted(region.inner, key=_longest(list(affines(region.stages))))
    rank = {axis.name: position for position, axis in enumerate(inner)}
    stages = tuple(
        replace(stage, axes=tuple(sorted(stage.axes, key=rank.__getitem__))) for stage in region.stages
    )
    return replace(region, kept=tuple(kept), inner=tuple(inner), stages=stages)


def _longest(indices: Iterable[Affine]) -> Callable[[Axis], int]:
    """Return a sort key: axes with long strides first."""
    total: dict[str, int] = {}
    for index in set(indices):
        for name, coefficient in index.terms:
            total[name] = total.get(name, 0) + abs(coefficient)
    return lambda axis: -total.get(axis.name, 0)


def coalesce(region: Region) -> Region:
    """Return the same region with as few axes as its indices allow; attention and recurrences keep theirs."""
    if any(stage.per for stage in region.stages):
        return region
    while (pair := _mergeable(region)) is not None:
        region = _merge(region, *pair)
    return region


def _mergeable(region: Region) -> tuple[Axis, Axis] | None:
    indices = [dict(index.terms) for index in set(affines(region.stages))]
    for axes in (region.kept, region.inner):
        for outer, inner in pairwise(axes):
            if _walk_together(indices, outer, inner) and _iterated_together(region, outer, inner):
                return outer, inner
    return None


def _walk_together(indices: Iterable[dict[str, int]], outer: Axis, inner: Axis) -> bool:
    return all(i.get(outer.name, 0) == i.get(inner.name, 0) * inner.size for i in indices)


def _iterated_together(region: Region, outer: Axis, inner: Axis) -> bool:
    for stage in region.stages:
        if stage.scan_axis in (outer.name, inner.name):
            return False
        if (outer.name in stage.axes) != (inner.name in stage.axes):
            return False
    return True


def _merge(region: Region, outer: Axis, inner: Axis) -> Region:
    def change(index: Affine) -> Affine:
        return linear({n: c for n, c in index.terms if n != outer.name}, index.offset)

    memo: dict[Expr, Expr] = {}
    stages = tuple(
        replace(
            map_stage(stage, change, memo),
            axes=tuple(name for name in stage.axes if name != outer.name),
        )
        for stage in region.stages
    )
    merged = Axis(inner.name, outer.size * inner.size)
    return replace(
        region,
        kept=_replaced(region.kept, outer, inner, merged),
        inner=_replaced(region.inner, outer, inner, merged),
        stages=stages,
    )


def _replaced(axes: Sequence[Axis], outer: Axis, inner: Axis, merged: Axis) -> tuple[Axis, ...]:
    return tuple(merged if axis == inner else axis for axis in axes if axis != outer)
