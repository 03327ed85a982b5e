"""Turn groups and calls into the program: buffers, stores, names, final loops."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from torch import fx

from kernelwright.ir.lower.affine import linear
from kernelwright.ir.lower.calls import make_call
from kernelwright.ir.lower.coalesce import coalesce, in_memory_order
from kernelwright.ir.lower.expressions import loads, map_stage, stage_values
from kernelwright.ir.lower.fuse import Fusion, FusionGroup
from kernelwright.ir.lower.translate import TranslatedNode, dtype_name, operator_name
from kernelwright.ir.lower.values import Value, placement
from kernelwright.ir.program import Affine, Axis, Buffer, Call, Expr, LoopStage, Program, Region, StageValue
from kernelwright.tasks.capture import Captured


def assemble(
    captured: Captured,
    fusion: Fusion,
    results: Mapping[str, Value],
    memory_of: Callable[[fx.Node], Value],
) -> Program:
    """Return the program.

    ``results``: output or mutated node -> the value in memory that holds it; ``memory_of``: the value in
    memory that a call reads for a node.
    """
    return _Assembly(captured, fusion, results, memory_of).program()


class _Assembly:
    def __init__(
        self,
        captured: Captured,
        fusion: Fusion,
        results: Mapping[str, Value],
        memory_of: Callable[[fx.Node], Value],
    ) -> None:
        self._captured = captured
        self._fusion = fusion
        self._results = results
        self._memory_of = memory_of
        self._buffers: dict[str, Buffer] = {}
        self._names: set[str] = set()

    def program(self) -> Program:
        """Return the assembled program."""
        for record in self._captured.placeholders:
            dtype = dtype_name(record.dtype)
            self._buffers[record.node] = Buffer(
                record.node, record.shape, record.stride, dtype, record.kind, record.source
            )
        needed = self._needed()
        steps: list[Call | Region] = []
        for unit in self._fusion.order:
            steps.append(self._call(unit) if isinstance(unit, TranslatedNode) else self._region(unit, needed))
        outputs = tuple(None if n is None else _buffer(self._results[n]) for n in self._captured.outputs)
        mutations = tuple((state, _buffer(self._results[n])) for state, n in self._captured.mutations.items())
        return Program(
            buffers=tuple(self._buffers.values()),
            steps=tuple(steps),
            outputs=outputs,
            returns_tuple=self._captured.returns_tuple,
            mutations=mutations,
            constants=dict(self._captured.constants),
        )

    def _needed(self) -> set[str]:
        """Return the names of the values that somebody reads from memory."""
        needed = {_buffer(v) for v in self._results.values()}
        for unit in self._fusion.order:
            if isinstance(unit, FusionGroup):
                needed |= {load.buffer for load in loads(s.expr for s in unit.draft.stages)}
            elif unit.base is not None:
                needed.add(_buffer(unit.base))
            else:
                needed |= {_buffer(self._memory_of(n)) for n in unit.node.all_input_nodes}
        return needed

    def _call(self, step: TranslatedNode) -> Call:
        buffers: dict[str, str] = {}
        for node in step.node.all_input_nodes:
            buffers[node.name] = _buffer(step.base if step.base is not None else self._memory_of(node))
        for result in step.results:
            if result is not None:
                self._add_buffer(result)
        return make_call(step, lambda node: buffers[node.name])

    def _add_buffer(self, value: Value) -> None:
        name, stride = placement(value)
        self._buffers[name] = Buffer(name, value.shape, stride, value.dtype, "temporary")

    def _region(self, group: FusionGroup, needed: set[str]) -> Region:
        stages = _forwarded(_alive(group.draft.stages, needed))
        values = {v.name: v for v in group.values}
        for store in (store for stage in stages for store in stage.stores):
            self._add_buffer(values[store.buffer])
        used = {name for stage in stages for name in stage.axes}
        region = Region(
            name=self._region_name(group),
            kept=group.draft.kept,
            inner=tuple(axis for axis in group.draft.inner if axis.name in used),
            stages=tuple(stages),
            sequence=group.draft.sequence,
            comment=_comment(group, self._captured),
        )
        return _numbered(coalesce(in_memory_order(region)))

    def _region_name(self, group: FusionGroup) -> str:
        name = f"r_{group.values[-1].node}"
        while name in self._names:
            name += "_"
        self._names.add(name)
        return name


def _alive(stages: Sequence[LoopStage], needed: Collection[str]) -> list[LoopStage]:
    """Return the stages and stores that somebody reads; what only ends in memory once per point is last."""
    alive: list[LoopStage] = []
    read: set[str] = set()
    for stage in reversed(stages):
        stores = tuple(store for store in stage.stores if store.buffer in needed)
        if stores or stage.name in read:
            alive.append(replace(stage, stores=stores))
            read |= {value.stage for value in stage_values([stage.expr])}
    ends = [s for s in alive if s.kind == "map" and not s.axes and s.name not in read]
    return [s for s in reversed(alive) if s not in ends] + list(reversed(ends))


def _forwarded(stages: Sequence[LoopStage]) -> list[LoopStage]:
    """Return the stages without maps that only store what a reduction found: it stores that itself."""
    kept: dict[str, LoopStage] = {}
    for stage in stages:
        source = kept.get(stage.expr.stage) if isinstance(stage.expr, StageValue) else None
        if source is not None and source.kind == "reduce" and stage.kind == "map" and not stage.axes:
            kept[source.name] = replace(source, stores=source.stores + stage.stores)
        else:
            kept[stage.name] = stage
    return list(kept.values())


def _numbered(region: Region) -> Region:
    """Return the region with its axes named i0, i1, ... and r0, r1, ... without gaps."""
    names = {axis.name: f"i{k}" for k, axis in enumerate(region.kept)}
    names |= {axis.name: f"r{k}" for k, axis in enumerate(region.inner)}

    def change(index: Affine) -> Affine:
        return linear({names[name]: c for name, c in index.terms}, index.offset)

    memo: dict[Expr, Expr] = {}
    stages = tuple(
        replace(
            map_stage(stage, change, memo),
            axes=tuple(names[name] for name in stage.axes),
            scan_axis=None if stage.scan_axis is None else names[stage.scan_axis],
            per=tuple(names[name] for name in stage.per),
        )
        for stage in region.stages
    )
    return replace(
        region,
        kept=tuple(Axis(names[axis.name], axis.size) for axis in region.kept),
        inner=tuple(Axis(names[axis.name], axis.size) for axis in region.inner),
        stages=stages,
        sequence=None if region.sequence is None else names[region.sequence],
    )


def _buffer(value: Value) -> str:
    return placement(value)[0]


def _comment(group: FusionGroup, captured: Captured) -> str:
    """Return the operators that a region carries out, in the graph's order."""
    nodes = {value.node for value in (*group.values, *group.draft.evaluated)}
    chain = [
        str(operator_name(node) or node.name).split(".")[0]
        for node in captured.graph.nodes
        if node.name in nodes and node.op == "call_function"
    ]
    shown = chain if len(chain) <= 12 else [*chain[:6], "...", *chain[-5:]]
    return " -> ".join(shown)
