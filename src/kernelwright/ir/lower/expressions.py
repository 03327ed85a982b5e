"""Walk and rewrite the expressions of a region."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from kernelwright.ir.program import (
    Affine,
    Bound,
    Expr,
    IndexValue,
    Inside,
    Load,
    LoopStage,
    Op,
    StageValue,
    StoreTo,
)


def walk(roots: Iterable[Expr]) -> Iterator[Expr]:
    """Yield every distinct expression below and including ``roots``."""
    seen: set[Expr] = set()
    pending = list(roots)
    while pending:
        expr = pending.pop()
        if expr in seen:
            continue
        seen.add(expr)
        yield expr
        if isinstance(expr, Op):
            pending.extend(expr.args)
        elif isinstance(expr, Load):
            pending.extend(term for term, _ in expr.dynamic)


def loads(roots: Iterable[Expr]) -> Iterator[Load]:
    """Yield the distinct loads."""
    return (expr for expr in walk(roots) if isinstance(expr, Load))


def stage_values(roots: Iterable[Expr]) -> Iterator[StageValue]:
    """Yield the distinct references to earlier stages."""
    return (expr for expr in walk(roots) if isinstance(expr, StageValue))


def affines(stages: Iterable[LoopStage]) -> Iterator[Affine]:
    """Yield every index that the stages use: of loads, bounds, positions and stores."""
    for stage in stages:
        yield from (store.index for store in stage.stores)
        if stage.position is not None:
            yield stage.position
        for expr in walk([stage.expr]):
            if isinstance(expr, Load | IndexValue):
                yield expr.index
            if isinstance(expr, Load | Inside):
                yield from (bound.index for bound in expr.bounds)


def map_stage(stage: LoopStage, change: Callable[[Affine], Affine], memo: dict[Expr, Expr]) -> LoopStage:
    """Return the stage with every index changed; ``memo`` keeps equal expressions one object."""
    return replace(
        stage,
        expr=map_indices(stage.expr, change, memo),
        position=None if stage.position is None else change(stage.position),
        stores=tuple(StoreTo(store.buffer, change(store.index)) for store in stage.stores),
    )


def map_indices(expr: Expr, change: Callable[[Affine], Affine], memo: dict[Expr, Expr]) -> Expr:
    """Return the expression with every index changed."""
    if expr not in memo:
        memo[expr] = _mapped(expr, change, memo)
    return memo[expr]


def _mapped(expr: Expr, change: Callable[[Affine], Affine], memo: dict[Expr, Expr]) -> Expr:
    if isinstance(expr, Op):
        return replace(expr, args=tuple(map_indices(arg, change, memo) for arg in expr.args))
    if isinstance(expr, Load):
        dynamic = tuple((map_indices(term, change, memo), stride) for term, stride in expr.dynamic)
        bounds = tuple(Bound(change(b.index), b.size) for b in expr.bounds)
        return replace(expr, index=change(expr.index), bounds=bounds, dynamic=dynamic)
    if isinstance(expr, IndexValue):
        return replace(expr, index=change(expr.index))
    if isinstance(expr, Inside):
        return Inside(tuple(Bound(change(b.index), b.size) for b in expr.bounds))
    return expr
