"""Reductions of few long rows, split among many programs: partial results, then their combination.

A rewrite of the loop IR, so its meaning can be checked without Triton. One region becomes several that
run one after another; partial results go through memory, nothing is added by atomics, and the order of
additions depends on the number of parts alone.
"""

import dataclasses
import itertools
import math
from collections.abc import Mapping

from kernelwright.core.errors import LoweringError
from kernelwright.ir.attention import is_attention
from kernelwright.ir.dag import Dag
from kernelwright.ir.normalise import axis_sizes, coefficient, map_affines, map_loads, normalise
from kernelwright.ir.program import (
    Affine,
    Axis,
    Bound,
    Buffer,
    Call,
    Const,
    DType,
    Expr,
    Inside,
    Load,
    LoopStage,
    Op,
    Program,
    Region,
    StageValue,
    StoreTo,
)
from kernelwright.targets.triton.schedule import decide, inner_points

FEW_PROGRAMS = 128
"""Fewer programs than this leave processors of a large GPU idle."""
ENOUGH_POINTS = 1 << 16
"""From so many points on a second launch is worth it."""
LEAST_ROW, LEAST_COLUMN = 4096, 64
"""Inner points that a part should have at least: along the contiguous axis, across it."""
PART_AXIS = "part"
_FLOATS = ("float32", "float64")


def parts_for(region: Region) -> int | None:
    """Return into how many parts the rule would split each row; None: not at all."""
    if not can_split(region):
        return None
    decided, inner = decide(region), inner_points(region)
    if decided.dot is not None or decided.blocks >= FEW_PROGRAMS:
        return None
    if decided.kept_points * inner < ENOUGH_POINTS:
        return None
    least = LEAST_ROW if decided.form == "row" else LEAST_COLUMN
    parts = min(2 * FEW_PROGRAMS // decided.blocks, inner // least)
    return parts if parts >= 2 else None


def can_split(region: Region) -> bool:
    """True when the region reduces, and what it does on the way can be cut between its stages."""
    if is_attention(region):
        return False
    return any(s.kind == "reduce" and s.axes for s in region.stages) and not any(
        s.kind == "scan" for s in region.stages
    )


def split(program: Program, region: Region, parts: int) -> Program:
    """Return the program with every reduction of a region done in parts; LoweringError where it cannot be."""
    if not can_split(region) or parts < 2:
        raise LoweringError(f"region {region.name} has no reduction that could be done in {parts} parts")
    splitter = _Splitter(normalise(region), parts, {b.name for b in program.buffers})
    made = _without_unread(splitter.run(), set(splitter.buffers))
    kept = {store.buffer for r in made for s in r.stages for store in s.stores}
    steps: list[Call | Region] = []
    for step in program.steps:
        steps += made if isinstance(step, Region) and step.name == region.name else [step]
    buffers = (b for b in splitter.buffers.values() if b.name in kept)
    return dataclasses.replace(program, steps=tuple(steps), buffers=(*program.buffers, *buffers))


def _without_unread(regions: list[Region], own: set[str]) -> list[Region]:
    """Drop stores to buffers of the splitting that no later region reads."""
    read: set[str] = set()
    for region in regions:
        dag = Dag(region)
        needed = dag.needed([a.node for g in dag.groups for a in g.actions])
        read |= {dag.nodes[n].name for n in needed if dag.nodes[n].kind == "load"}

    def alive(stage: LoopStage) -> LoopStage:
        stores = tuple(s for s in stage.stores if s.buffer not in own or s.buffer in read)
        return dataclasses.replace(stage, stores=stores)

    return [dataclasses.replace(r, stages=tuple(alive(s) for s in r.stages)) for r in regions]


class _Splitter:
    def __init__(self, region: Region, parts: int, taken: set[str]) -> None:
        self.region = region
        self.parts = parts
        self.taken = taken
        self.sizes = axis_sizes(region)
        self.rows = math.prod(axis.size for axis in region.kept)
        self.row_index = _flat(region.kept)
        self.buffers: dict[str, Buffer] = {}
        self.values: dict[str, Expr] = {}
        """Stage -> what stands for its value in later regions."""
        self.total: int | None = None
        """Position of the last region that combines parts: it takes what is done once a row."""
        self.here: dict[str, Expr] = {}
        """Stage -> what stands for its value in that region."""
        self.steps: list[Region] = []

    def run(self) -> list[Region]:
        """Return the regions, in the order they run in."""
        for batch in _batches(self.region.stages):
            if batch[0].kind == "reduce":
                self._reduce(batch)
            else:
                self._map(batch[0])
        return self.steps

    def _map(self, stage: LoopStage) -> None:
        """A map is known by its expression; one that stores becomes a region over all its points."""
        self.here[stage.name] = _replaced(stage.expr, self.here)
        expr = self.values[stage.name] = _replaced(stage.expr, self.values)
        if stage.stores and not stage.axes and self.total is not None:
            done = dataclasses.replace(stage, expr=self.here[stage.name])
            last = self.steps[self.total]
            self.steps[self.total] = dataclasses.replace(last, stages=(*last.stages, done))
        elif stage.stores:
            axes = tuple(a for a in self.region.inner if a.name in stage.axes)
            done = dataclasses.replace(stage, axes=(), expr=expr)
            self._add("map", (*self.region.kept, *axes), (), (done,))

    def _reduce(self, batch: list[LoopStage]) -> None:
        """Reductions over the same axes that do not wait for one another share one pass."""
        axes = batch[0].axes
        long = max(axes, key=lambda name: self.sizes[name])
        size = self.sizes[long]
        chunk = -(-size // self.parts)
        count = -(-size // chunk)
        inner = tuple(Axis(a, chunk if a == long else self.sizes[a]) for a in axes)
        row = Affine(tuple(sorted((*self.row_index.terms, (PART_AXIS, self.rows)))))
        first, second = [], []
        for stage in batch:
            part = self._buffer(stage, "parts", count * self.rows)
            total = self._buffer(stage, "total", self.rows)
            value = _with_dtype(_replaced(stage.expr, self.values), stage.dtype)
            done = dataclasses.replace(stage, expr=value, stores=(StoreTo(part, row),))
            first.append(_cut(done, long, chunk, size))
            load = Load(part, row, stage.dtype)
            stores = (*stage.stores, StoreTo(total, self.row_index))
            second.append(dataclasses.replace(stage, axes=(PART_AXIS,), expr=load, stores=stores))
            self.values[stage.name] = Load(total, self.row_index, stage.dtype)
        self.here = self.values | {stage.name: StageValue(stage.name, stage.dtype) for stage in batch}
        part_axis = Axis(PART_AXIS, count)
        self._add("part", (*self.region.kept, part_axis), inner, tuple(first))
        self._add("total", self.region.kept, (part_axis,), tuple(second))
        self.total = len(self.steps) - 1

    def _add(
        self, what: str, kept: tuple[Axis, ...], inner: tuple[Axis, ...], stages: tuple[LoopStage, ...]
    ) -> None:
        name = f"{self.region.name}_{what}"
        if any(step.name == name for step in self.steps):
            name += f"_{len(self.steps)}"
        comment = f"{self.region.comment} ({what})".strip()
        self.steps.append(Region(name, kept, inner, stages, comment=comment))

    def _buffer(self, stage: LoopStage, what: str, size: int) -> str:
        base = f"{stage.combine}_{what}"
        names = (base if k == 1 else f"{base}_{k}" for k in itertools.count(1))
        name = next(n for n in names if n not in self.taken and n not in self.buffers)
        self.buffers[name] = Buffer(name, (size,), (1,), stage.dtype, "temporary")
        return name


def _batches(stages: tuple[LoopStage, ...]) -> list[list[LoopStage]]:
    """Return the stages in order; neighbouring independent reductions over the same axes together."""
    batches: list[list[LoopStage]] = []
    for stage in stages:
        last = batches[-1] if batches else []
        joins = last and stage.kind == last[0].kind == "reduce" and stage.axes == last[0].axes
        if joins and not _reads(stage.expr, {s.name for s in last}):
            last.append(stage)
        else:
            batches.append([stage])
    return batches


def _reads(expr: Expr, stages: set[str]) -> bool:
    """True when an expression uses the value of one of these stages."""
    seen: set[int] = set()
    pending: list[Expr] = [expr]
    while pending:
        one = pending.pop()
        if isinstance(one, StageValue) and one.stage in stages:
            return True
        if id(one) not in seen:
            seen.add(id(one))
            pending += one.args if isinstance(one, Op) else ()
            pending += [e for e, _ in one.dynamic] if isinstance(one, Load) else []
    return False


def _flat(kept: tuple[Axis, ...]) -> Affine:
    step, terms = 1, []
    for axis in reversed(kept):
        terms.append((axis.name, step))
        step *= axis.size
    return Affine(tuple(sorted(terms)))


def _replaced(expr: Expr, values: Mapping[str, Expr]) -> Expr:
    """Return the expression with the values of earlier stages put in."""
    known: dict[int, Expr] = {}

    def visit(one: Expr) -> Expr:
        if id(one) not in known:
            result: Expr = one
            if isinstance(one, StageValue):
                result = values[one.stage]
            elif isinstance(one, Op):
                result = Op(one.name, tuple(visit(a) for a in one.args), one.dtype)
            elif isinstance(one, Load) and one.dynamic:
                result = dataclasses.replace(one, dynamic=tuple((visit(e), s) for e, s in one.dynamic))
            known[id(one)] = result
        return known[id(one)]

    return visit(expr)


def _with_dtype(expr: Expr, dtype: DType) -> Expr:
    own = "bool" if isinstance(expr, Inside) else expr.dtype
    return expr if own == dtype else Op("cast", (expr,), dtype)


def _cut(stage: LoopStage, long: str, chunk: int, size: int) -> LoopStage:
    """Let an axis run over one part; points beyond its end count as the neutral element."""

    def shift(index: Affine) -> Affine:
        factor = coefficient(index, long)
        terms = [*index.terms, (PART_AXIS, factor * chunk)] if factor else list(index.terms)
        return Affine(tuple(sorted(terms)), index.offset)

    stores = stage.stores
    holder = Region("", (), (), (dataclasses.replace(stage, stores=()),))
    holder = map_affines(holder, shift)
    if size % chunk:
        bound = Bound(Affine(tuple(sorted(((long, 1), (PART_AXIS, chunk))))), size)
        holder = map_loads(
            holder,
            lambda load: dataclasses.replace(load, bounds=(*load.bounds, bound)) if _uses(load) else load,
        )
        cut = holder.stages[0]
        value = Op("where", (Inside((bound,)), cut.expr, _neutral(cut)), cut.dtype)
        holder = dataclasses.replace(holder, stages=(dataclasses.replace(cut, expr=value),))
    return dataclasses.replace(holder.stages[0], stores=stores)


def _uses(load: Load) -> bool:
    return any(axis == PART_AXIS for axis, _ in load.index.terms)


def _neutral(stage: LoopStage) -> Const:
    is_float = stage.dtype in _FLOATS
    match stage.combine:
        case "prod":
            return Const(1, stage.dtype)
        case "any" | "all":
            return Const(stage.combine == "all", stage.dtype)
        case "max" | "min":
            low = stage.combine == "max"
            if is_float:
                return Const(float("-inf") if low else float("inf"), stage.dtype)
            bits = 8 if stage.dtype in ("int8", "uint8") else int(stage.dtype.removeprefix("int"))
            if stage.dtype == "uint8":
                return Const(0 if low else 255, stage.dtype)
            return Const(-(2 ** (bits - 1)) if low else 2 ** (bits - 1) - 1, stage.dtype)
    return Const(0, stage.dtype)
