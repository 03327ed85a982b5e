"""Equivalent forms of a region that are simpler to print: fewer axes, no argmax."""

import dataclasses
import itertools
from collections.abc import Callable, Iterator

from kernelwright.ir.by_loops import by_loops
from kernelwright.ir.program import (
    Affine,
    Axis,
    Bound,
    Const,
    Expr,
    IndexValue,
    Inside,
    Load,
    LoopStage,
    Op,
    Region,
    StageValue,
    StoreTo,
)


def normalise(region: Region) -> Region:
    """Return the region without axes of size 1, argmax and mergeable axes; axis names survive.

    Attention and recurrences keep their axes: each has a part of its own.
    """
    loops = _normalised(region)
    return dataclasses.replace(region, kept=loops.kept, inner=loops.inner, stages=loops.stages)


@by_loops
def _normalised(region: Region) -> Region:
    if any(stage.per for stage in region.stages):
        return region
    region = _drop_single(region)
    region = dataclasses.replace(region, kept=_sorted_kept(region))
    region = _merge_axes(region)
    return _expand_arg_reductions(region)


def affines(region: Region) -> Iterator[Affine]:
    """Yield every index of the region: loads, bounds, positions and stores."""
    seen: dict[int, Expr] = {}
    for stage in region.stages:
        yield from _expr_affines(stage.expr, seen)
        yield from (store.index for store in stage.stores)
        if stage.position is not None:
            yield stage.position


def axis_sizes(region: Region) -> dict[str, int]:
    """Return every axis's size by name."""
    return {axis.name: axis.size for axis in (*region.kept, *region.inner)}


def coefficient(index: Affine, axis: str) -> int:
    """Return by how much the index grows per step of the axis."""
    return next((c for name, c in index.terms if name == axis), 0)


def map_affines(region: Region, change: Callable[[Affine], Affine]) -> Region:
    """Return the region with every index changed."""
    memo: dict[int, tuple[Expr, Expr]] = {}
    stages = tuple(
        dataclasses.replace(
            stage,
            expr=_map_expr(stage.expr, change, memo),
            position=None if stage.position is None else change(stage.position),
            stores=tuple(StoreTo(s.buffer, change(s.index)) for s in stage.stores),
        )
        for stage in region.stages
    )
    return dataclasses.replace(region, stages=stages)


def map_loads(region: Region, change: Callable[[Load], Load]) -> Region:
    """Return the region with every load changed."""
    memo: dict[int, tuple[Expr, Expr]] = {}
    stages = tuple(
        dataclasses.replace(stage, expr=_map_loads(stage.expr, change, memo)) for stage in region.stages
    )
    return dataclasses.replace(region, stages=stages)


def _map_loads(expr: Expr, change: Callable[[Load], Load], memo: dict[int, tuple[Expr, Expr]]) -> Expr:
    if id(expr) not in memo:
        result: Expr = expr
        if isinstance(expr, Load):
            dynamic = tuple((_map_loads(e, change, memo), s) for e, s in expr.dynamic)
            result = change(dataclasses.replace(expr, dynamic=dynamic))
        elif isinstance(expr, Op):
            result = Op(expr.name, tuple(_map_loads(a, change, memo) for a in expr.args), expr.dtype)
        memo[id(expr)] = (expr, result)
    return memo[id(expr)][1]


def _expr_affines(expr: Expr, seen: dict[int, Expr]) -> Iterator[Affine]:
    if id(expr) in seen:
        return
    seen[id(expr)] = expr
    match expr:
        case Load():
            yield expr.index
            yield from (b.index for b in expr.bounds)
            for sub, _ in expr.dynamic:
                yield from _expr_affines(sub, seen)
        case IndexValue():
            yield expr.index
        case Inside():
            yield from (b.index for b in expr.bounds)
        case Op():
            for arg in expr.args:
                yield from _expr_affines(arg, seen)


def _map_expr(expr: Expr, change: Callable[[Affine], Affine], memo: dict[int, tuple[Expr, Expr]]) -> Expr:
    if id(expr) in memo:
        return memo[id(expr)][1]

    def bounds(old: tuple[Bound, ...]) -> tuple[Bound, ...]:
        return tuple(Bound(change(b.index), b.size) for b in old)

    result: Expr = expr
    match expr:
        case Load():
            dynamic = tuple((_map_expr(e, change, memo), s) for e, s in expr.dynamic)
            result = dataclasses.replace(
                expr, index=change(expr.index), bounds=bounds(expr.bounds), dynamic=dynamic
            )
        case IndexValue():
            result = IndexValue(change(expr.index), expr.dtype)
        case Inside():
            result = Inside(bounds(expr.bounds))
        case Op():
            result = Op(expr.name, tuple(_map_expr(a, change, memo) for a in expr.args), expr.dtype)
    memo[id(expr)] = (expr, result)
    return result


def _without(index: Affine, axis: str) -> Affine:
    return Affine(tuple(t for t in index.terms if t[0] != axis), index.offset)


def _drop_single(region: Region) -> Region:
    for axis in (*region.kept, *region.inner):
        if axis.size == 1:
            region = _remove_axis(region, axis.name)
    return region


def _remove_axis(region: Region, name: str) -> Region:
    region = map_affines(region, lambda index: _without(index, name))
    return dataclasses.replace(
        region,
        kept=tuple(a for a in region.kept if a.name != name),
        inner=tuple(a for a in region.inner if a.name != name),
        stages=tuple(_stage_without(stage, name) for stage in region.stages),
    )


def _stage_without(stage: LoopStage, name: str) -> LoopStage:
    """A scan along a removed axis is its only element; the reduction over none is the value."""
    axes = tuple(a for a in stage.axes if a != name)
    if stage.scan_axis == name:
        return dataclasses.replace(stage, kind="map", axes=axes, combine=None, scan_axis=None)
    is_trivial = stage.kind == "reduce" and not axes and bool(stage.axes)
    if not is_trivial:
        return dataclasses.replace(stage, axes=axes)
    expr: Expr = stage.expr
    if stage.position is not None:
        expr = IndexValue(stage.position, stage.dtype)
    elif stage.dtype != _dtype_of(expr):
        expr = Op("cast", (expr,), stage.dtype)
    return dataclasses.replace(stage, kind="map", axes=axes, expr=expr, combine=None, position=None)


def _dtype_of(expr: Expr) -> str:
    return "bool" if isinstance(expr, Inside) else expr.dtype


def _sorted_kept(region: Region) -> tuple[Axis, ...]:
    """Outermost first by stride in memory: the order of kept axes has no meaning."""
    stores = [store.index for stage in region.stages for store in stage.stores]
    return tuple(
        sorted(region.kept, key=lambda a: -max((abs(coefficient(s, a.name)) for s in stores), default=0))
    )


def _merge_axes(region: Region) -> Region:
    indices = list(affines(region))
    sizes = axis_sizes(region)
    pairs = [*_neighbours(tuple(a.name for a in region.kept))]
    for stage in region.stages:
        pairs += _neighbours(stage.axes)
    for outer, inner in pairs:
        fits = all(coefficient(i, outer) == coefficient(i, inner) * sizes[inner] for i in indices)
        if fits and _may_merge(region, outer, inner):
            return _merge_axes(_merged(region, outer, inner))
    return region


def _neighbours(names: tuple[str, ...]) -> list[tuple[str, str]]:
    return list(itertools.pairwise(names))


def _may_merge(region: Region, outer: str, inner: str) -> bool:
    is_kept = any(a.name == outer for a in region.kept)
    for stage in region.stages:
        if stage.scan_axis in (outer, inner):
            return False
        together = (outer, inner) in _neighbours(stage.axes)
        apart = outer not in stage.axes and inner not in stage.axes
        if not (apart or (together and not is_kept)):
            return False
    return True


def _merged(region: Region, outer: str, inner: str) -> Region:
    sizes = axis_sizes(region)
    whole = Axis(inner, sizes[outer] * sizes[inner])

    def merge(axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
        return tuple(whole if a.name == inner else a for a in axes if a.name != outer)

    region = map_affines(region, lambda index: _without(index, outer))
    stages = tuple(dataclasses.replace(s, axes=tuple(a for a in s.axes if a != outer)) for s in region.stages)
    return dataclasses.replace(region, kept=merge(region.kept), inner=merge(region.inner), stages=stages)


def _expand_arg_reductions(region: Region) -> Region:
    """Argmax as two reductions that vectorise: the largest value, then the first position of it."""
    stages: list[LoopStage] = []
    for stage in region.stages:
        if stage.combine not in ("argmax", "argmin") or stage.position is None:
            stages.append(stage)
            continue
        dtype = "bool" if isinstance(stage.expr, Inside) else stage.expr.dtype
        best = dataclasses.replace(
            stage,
            name=f"{stage.name}_value",
            dtype=dtype,
            combine="max" if stage.combine == "argmax" else "min",
            position=None,
            stores=(),
        )
        value = StageValue(best.name, dtype)
        hit: Expr = Op("eq", (stage.expr, value), "bool")
        if dtype in ("float32", "float64"):
            hit = Op("or", (hit, Op("isnan", (stage.expr,), "bool")), "bool")
        none = Const(2**31 - 1, "int32")
        candidate = Op("where", (hit, IndexValue(stage.position, "int32"), none), "int32")
        first = LoopStage(f"{stage.name}_first", "reduce", stage.axes, candidate, "int32", combine="min")
        cast = Op("cast", (StageValue(first.name, "int32"),), stage.dtype)
        result = LoopStage(stage.name, "map", (), cast, stage.dtype, stores=stage.stores)
        stages += [best, first, result]
    return dataclasses.replace(region, stages=tuple(stages))
