"""A library matrix product taken into the kernel of what follows it: the epilogue runs on the tile.

The product becomes a reduction of the loop IR, which the printer finds again and prints with tl.dot.
"""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass

from kernelwright.core.errors import LoweringError
from kernelwright.core.machine import ANY_GPU, Accelerator
from kernelwright.core.plan import ParamValue
from kernelwright.ir.arguments import signature
from kernelwright.ir.dag import Dag
from kernelwright.ir.edits import Site
from kernelwright.ir.normalise import coefficient, map_affines
from kernelwright.ir.program import (
    Affine,
    Axis,
    Buffer,
    BufferRef,
    Call,
    Expr,
    Load,
    LoopStage,
    Op,
    Program,
    Region,
    StageValue,
)
from kernelwright.ir.regions import find_region
from kernelwright.targets.module_file.forward import is_dense, n_bytes
from kernelwright.targets.triton.schedule import TritonSchedule, complete, decide
from kernelwright.targets.triton.worth import FusedProduct, fusion_gain

_INNER = "k"
_PLACES = ("batch", "row", "column")
_TARGETS = {
    "torch.ops.aten.mm.default": 0,
    "torch.ops.aten.addmm.default": 1,
    "torch.ops.aten.bmm.default": 0,
}
"""Calls that are understood -> position of the left matrix."""


@dataclass(frozen=True)
class _Place:
    """A call whose result one pointwise region alone reads, each element where it writes its own."""

    call: Call
    region: Region
    epilogue: Region
    """The region, with batches, rows and columns as axes of their own."""
    batches: Affine
    """Which product of several; constant where there is one."""
    rows: Affine
    """Row of the product at a kept point."""
    columns: Affine


@dataclass
class FuseMatmul:
    """Carries out a matrix product and the pointwise region after it in one kernel."""

    name: str = "triton-matmul"
    gpu: Accelerator = ANY_GPU

    def sites(self, program: Program) -> tuple[Site, ...]:
        """Return the pointwise regions that alone read a matrix product, the most promising first."""
        found = []
        for step in program.steps:
            place = _place(step, program) if isinstance(step, Region) else None
            if place is None:
                continue
            megabytes = 8 * math.prod(_result(place.call, program).shape) / 1e6
            why = f"{place.call.name} writes and {place.region.name} reads its result: {megabytes:.1f} MB"
            product = _product(place, program)
            gain = fusion_gain(product, self.gpu) if product is not None else 1.0
            found.append((megabytes, Site(place.region.name, why, gain)))
        return tuple(site for _, site in sorted(found, key=lambda pair: (-pair[1].gain, -pair[0])))

    def apply(self, program: Program, region: str, params: Mapping[str, ParamValue]) -> Program:
        """Return the program with product and region as one; LoweringError where they cannot be."""
        place = _place(find_region(program, region), program)
        if place is None:
            raise LoweringError(f"{self.name}: region {region} is no pointwise reader of one matrix product")
        fused = _with_tiles(place, program)
        fused = dataclasses.replace(fused, schedule=complete(fused))
        steps: list[Call | Region] = []
        for step in program.steps:
            if step is place.call:
                continue
            steps.append(fused if step is place.region else step)
        gone = _result(place.call, program).name
        buffers = tuple(b for b in program.buffers if b.name != gone)
        return dataclasses.replace(program, steps=tuple(steps), buffers=buffers)


def _place(region: Region, program: Program) -> _Place | None:
    """Return the product that a region could take in, and where its elements are."""
    if any(stage.axes for stage in region.stages):
        return None
    dag = Dag(region)
    used = dag.needed([a.node for g in dag.groups for a in g.actions])
    loads = [dag.nodes[n] for n in used if dag.nodes[n].kind == "load"]
    for step in program.steps:
        if not isinstance(step, Call) or step.target not in _TARGETS or step.kwargs:
            continue
        result = _result(step, program)
        own = [node for node in loads if node.name == result.name]
        is_plain = len({n.index for n in own}) == 1 and not any(n.args for n in own)
        if not own or not is_plain or not is_dense(result) or _readers(result.name, program) != [region.name]:
            continue
        if any(program.buffer(a.buffer).dtype != "float32" for a in step.args if isinstance(a, BufferRef)):
            continue
        changed = _unmerged(region, own[0].index, result)
        spread = _spread(*changed, result) if changed is not None else None
        if changed is not None and spread is not None:
            return _Place(step, region, changed[0], *spread)
    return None


def _result(call: Call, program: Program) -> Buffer:
    return program.buffer(str(call.results[0]))


def _readers(name: str, program: Program) -> list[str]:
    """Return the steps that read a buffer; the program's own results count as one."""
    found = ["return"] * (name in program.outputs or any(b == name for _, b in program.mutations))
    for step in program.steps:
        if isinstance(step, Call):
            values = [*step.args, *(v for _, v in step.kwargs)]
            if any(BufferRef(name) == v or (isinstance(v, tuple) and BufferRef(name) in v) for v in values):
                found.append(step.name)
            continue
        dag = Dag(step)
        used = dag.needed([a.node for g in dag.groups for a in g.actions])
        if any(dag.nodes[n].kind == "load" and dag.nodes[n].name == name for n in used):
            found.append(step.name)
    return found


def _unmerged(region: Region, index: Affine, result: Buffer) -> tuple[Region, Affine] | None:
    """Return the region with axes that run over rows and columns at once cut in two, and the index there."""
    steps = [math.prod(result.shape[k + 1 :]) for k in range(len(result.shape) - 1)]
    for outer, step in zip(_PLACES[-len(result.shape) :], steps, strict=False):
        for axis in region.kept:
            own = coefficient(index, axis.name)
            if not own or not own < step < own * axis.size:
                continue
            if step % own or own * axis.size % step:
                return None
            inner = _PLACES[_PLACES.index(outer) + 1]
            if {outer, inner} & {a.name for a in region.kept if a is not axis}:
                return None
            region, index = _cut(region, index, axis, outer, inner, step // own)
            break
    return region, index


def _cut(
    region: Region, index: Affine, axis: Axis, outer: str, inner: str, size: int
) -> tuple[Region, Affine]:
    """Return region and index with an axis as two, the inner one of that size."""

    def cut(old: Affine) -> Affine:
        factor = coefficient(old, axis.name)
        rest = tuple((name, c) for name, c in old.terms if name != axis.name)
        new = ((outer, factor * size), (inner, factor)) if factor else ()
        return Affine(tuple(sorted((*rest, *new))), old.offset)

    place = region.kept.index(axis)
    parts = (Axis(outer, axis.size // size), Axis(inner, size))
    kept = (*region.kept[:place], *parts, *region.kept[place + 1 :])
    return dataclasses.replace(map_affines(region, cut), kept=kept), cut(index)


def _spread(region: Region, index: Affine, result: Buffer) -> tuple[Affine, Affine, Affine] | None:
    """Return (batch, row, column) of the product at a kept point, where every axis runs along one of them."""
    *first, rows, columns = result.shape
    sizes = (math.prod(first), rows, columns)
    steps = (rows * columns, columns, 1)
    if index.offset:
        return None
    parts: list[list[tuple[str, int]]] = [[], [], []]
    reach = [0, 0, 0]
    for axis in region.kept:
        own = coefficient(index, axis.name)
        place = next((k for k, step in enumerate(steps) if own >= step and own % step == 0), None)
        if not own or place is None:
            return None
        parts[place].append((axis.name, own // steps[place]))
        reach[place] += own // steps[place] * (axis.size - 1)
    if reach != [size - 1 for size in sizes] or not parts[1] or not parts[2]:
        return None
    batch, row, column = (Affine(tuple(sorted(part))) for part in parts)
    return batch, row, column


def _with_tiles(place: _Place, program: Program) -> Region:
    """Return product and epilogue as one region, to be printed over tl.dot."""
    return dataclasses.replace(_fused(place, program), schedule=TritonSchedule(form="dot"))


def _product(place: _Place, program: Program) -> FusedProduct | None:
    """Return what it would be in one kernel; None where that kernel could not be one of tiles."""
    fused = _with_tiles(place, program)
    decided = decide(fused)
    if decided.dot is None:
        return None
    result = _result(place.call, program)
    *batches, rows, columns = result.shape
    beside = {argument.buffer for argument in signature(place.region)} - {result.name}
    return FusedProduct(
        batches=math.prod(batches),
        rows=rows,
        inner=fused.inner[0].size,
        columns=columns,
        tiles=decided.blocks,
        beside_bytes=sum(n_bytes(program.buffer(name)) for name in beside),
    )


def _fused(place: _Place, program: Program) -> Region:
    """Return product and epilogue as one region."""
    result = _result(place.call, program)
    first = _TARGETS[place.call.target]
    operands = [
        program.buffer(a.buffer) for a in place.call.args[first : first + 2] if isinstance(a, BufferRef)
    ]
    left, right = operands
    region = place.epilogue
    inner = Affine(((_INNER, 1),))
    product = Op(
        "mul", (_load(left, place, place.rows, inner), _load(right, place, inner, place.columns)), "float32"
    )
    total = LoopStage(f"{place.call.name}_sum", "reduce", (_INNER,), product, "float32", combine="sum")
    value: Expr = StageValue(total.name, "float32")
    if first:
        bias = place.call.args[0]
        assert isinstance(bias, BufferRef)
        value = Op("add", (value, _bias(program.buffer(bias.buffer), place)), "float32")
    stages = tuple(
        dataclasses.replace(stage, expr=_with_value(stage.expr, result.name, value))
        for stage in region.stages
    )
    return dataclasses.replace(
        region,
        inner=(Axis(_INNER, left.shape[-1]),),
        stages=(total, *stages),
        comment=f"{place.call.target.split('.')[-2]} -> {region.comment}",
    )


def _load(buffer: Buffer, place: _Place, row: Affine, column: Affine) -> Load:
    """Return an element of an operand."""
    along = (place.batches, row, column)[-len(buffer.shape) :]
    index = Affine()
    for part, stride in zip(along, buffer.stride, strict=True):
        index = _sum(index, _times(part, stride))
    return Load(buffer.name, index, "float32")


def _bias(buffer: Buffer, place: _Place) -> Load:
    """Return the element of a bias that is broadcast to the product."""
    along = (place.rows, place.columns)[-len(buffer.shape) :] if buffer.shape else ()
    index = Affine()
    for place_index, size, stride in zip(along, buffer.shape, buffer.stride, strict=True):
        index = _sum(index, _times(place_index, stride if size > 1 else 0))
    return Load(buffer.name, index, "float32")


def _times(index: Affine, factor: int) -> Affine:
    terms = tuple((axis, c * factor) for axis, c in index.terms if factor)
    return Affine(terms, index.offset * factor)


def _sum(one: Affine, other: Affine) -> Affine:
    terms = dict(one.terms)
    for axis, c in other.terms:
        terms[axis] = terms.get(axis, 0) + c
    return Affine(tuple(sorted((a, c) for a, c in terms.items() if c)), one.offset + other.offset)


def _with_value(expr: Expr, buffer: str, value: Expr) -> Expr:
    """Return the expression with the loads of a buffer replaced."""
    known: dict[int, Expr] = {}

    def visit(one: Expr) -> Expr:
        if id(one) not in known:
            result: Expr = one
            if isinstance(one, Load):
                dynamic = tuple((visit(e), s) for e, s in one.dynamic)
                result = value if one.buffer == buffer else dataclasses.replace(one, dynamic=dynamic)
            elif isinstance(one, Op):
                result = Op(one.name, tuple(visit(a) for a in one.args), one.dtype)
            known[id(one)] = result
        return known[id(one)]

    return visit(expr)
