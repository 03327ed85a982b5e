"""Decide what is written to memory, fuse, and assemble the program."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from torch import fx

from kernelwright.kernels.ir import Affine, Buffer, Call, Expr, Op, Program, Region, Stage
from kernelwright.kernels.ir import TRANSCENDENTALS
from kernelwright.kernels.lower.affine import contiguous_strides
from kernelwright.kernels.lower.calls import RESHAPING, VIEWS, make_call, relay
from kernelwright.kernels.lower.coalesce import coalesce
from kernelwright.kernels.lower.expressions import loads, stage_values, walk
from kernelwright.kernels.lower.fuse import Fuser, Fusion, Group, is_root
from kernelwright.kernels.lower.maker import Maker
from kernelwright.kernels.lower.translate import DTYPES, Step, Translation, operator_name
from kernelwright.kernels.lower.values import Inline, Stored, Value, sources
from kernelwright.kernels.lowering import FusionOptions
from kernelwright.tasks.capture import Captured

BYTES = {"float64": 8, "int64": 8, "int32": 4, "float32": 4, "int16": 2, "int8": 1, "uint8": 1, "bool": 1}
TRANSCENDENTAL_BYTES = 4
"""Memory traffic that costs about as much as one vectorised transcendental."""


class Planner:
    """One attempt to lower a translated graph."""

    def __init__(self, captured: Captured, graph: Translation, options: FusionOptions) -> None:
        self._captured = captured
        self._graph = graph
        self._options = options
        self._nodes = {node.name: node for node in captured.graph.nodes}
        self._roots: dict[Value, None] = {}
        self._views: dict[str, Step] = {}
        self._copies: dict[Value, Inline] = {}
        self._interned: dict[Expr, Expr] = {}
        self._results: dict[str, Value] = {}
        """Output or mutated node -> the value in memory that holds it."""

    def run(self, extra: Collection[str]) -> Program:
        """Return the program; ``extra`` names values that must be in memory besides the obvious ones."""
        self._choose_roots(extra)
        fusion = self._fuse()
        for _ in range(3):
            more = [v for v in self._worth_storing(fusion) if v not in self._roots]
            if not more:
                break
            self._roots |= dict.fromkeys(more)
            fusion = self._fuse()
        return _Assembly(self._captured, self._graph, fusion, self._results, self._views).program()

    # What is in memory ------------------------------------------------------------------------------

    def _choose_roots(self, extra: Collection[str]) -> None:
        for item in self._graph.made:
            if isinstance(item, Step):
                for node in item.node.all_input_nodes:
                    self._in_memory(node)
            elif item.name in extra or item.node in self._options.materialise:
                self._force(item)
        wanted = [n for n in (*self._captured.outputs, *self._captured.mutations.values()) if n is not None]
        for name in wanted:
            self._results[name] = self._result(self._nodes[name])

    def _force(self, value: Value) -> None:
        last = isinstance(self._graph.values.get(value.node), Value) and self._graph.value(value.node) is value
        if isinstance(value, Inline) and (last or value.node not in self._options.materialise):
            self._roots[value] = None

    def _in_memory(self, node: fx.Node) -> Value:
        """Return the value a call reads for ``node``, making it one that is in memory."""
        value = self._graph.value(node.name)
        if isinstance(value, Stored) or is_root(value) or value in self._roots:
            return value
        if node.name in self._views:
            result = self._views[node.name].results[0]
            assert result is not None
            return result
        base = node.args[0] if operator_name(node) in VIEWS else None
        if isinstance(base, fx.Node) and self._graph.value(base.name) is not value:
            return self._view(node, self._in_memory(base))
        self._roots[value] = None
        return value

    def _view(self, node: fx.Node, base: Value) -> Value:
        value = self._graph.value(node.name)
        stride = tuple(node.meta["val"].stride())
        result = Stored(node.name, value.shape, value.dtype, node.name, node.name, stride)
        self._views[node.name] = Step(node, [result], True, base)
        return result

    def _result(self, node: fx.Node) -> Value:
        """Return the value that holds an output: fresh memory, dense."""
        value = self._graph.value(node.name)
        if node.op == "placeholder" or (isinstance(value, Stored) and value.node not in self._graph.steps):
            return self._copy(value, node.name)
        step = self._graph.steps.get(value.node)
        if isinstance(value, Stored) and step is not None and operator_name(step.node) in VIEWS:
            return self._copy(value, node.name)
        if isinstance(value, Stored) or is_root(value) or value in self._roots:
            return value
        base = node.args[0] if operator_name(node) in RESHAPING else None
        if isinstance(base, fx.Node) and self._is_owned(base) and self._graph.value(base.name) is not value:
            return self._view(node, self._in_memory(base))
        self._roots[value] = None
        return value

    def _is_owned(self, node: fx.Node) -> bool:
        """Return whether a node's value is in memory anyway, and not an input's memory."""
        value = self._graph.value(node.name)
        if isinstance(value, Stored):
            step = self._graph.steps.get(value.node)
            return step is not None and operator_name(step.node) not in VIEWS
        return value in self._roots

    def _copy(self, value: Value, node: str) -> Value:
        if value not in self._copies:
            make = Maker(f"{node}_copy", value.shape, value.dtype)  # type: ignore[arg-type]
            self._copies[value] = make.pointwise(lambda e, x: x, value)
        copy = self._copies[value]
        self._roots[copy] = None
        return copy

    # Fusion -----------------------------------------------------------------------------------------

    def _fuse(self) -> Fusion:
        live = self._live()
        items = [i for i in self._items() if i in live]
        roots = [i for i in items if not isinstance(i, Step)]
        stored = [v for v in self._graph.values.values() if isinstance(v, Stored)]
        stored += [r for s in self._views.values() for r in s.results if r is not None]
        reads = {i: self._reads(i) for i in items if isinstance(i, Step)}
        return Fuser(roots, stored, self._interned).run(items, reads)

    def _reads(self, step: Step) -> list[Value]:
        if step.base is not None:
            return [step.base]
        return [self._in_memory(n) for n in step.node.all_input_nodes]

    def _items(self) -> Iterator[Value | Step]:
        """Yield roots, calls and views in an order in which they can be computed."""
        pending = dict(self._views)
        for made in [*self._graph.made, *self._copies.values()]:
            if isinstance(made, Step):
                for node in made.node.all_input_nodes:
                    yield from self._pop_views(node, pending)
                yield made
            elif is_root(made) or made in self._roots:
                yield made
        for name in list(pending):
            yield from self._pop_views(self._nodes[name], pending)

    def _pop_views(self, node: fx.Node, pending: dict[str, Step]) -> Iterator[Step]:
        if node.name in pending:
            step = pending.pop(node.name)
            base = step.node.args[0]
            assert isinstance(base, fx.Node)
            yield from self._pop_views(base, pending)
            yield step

    def _live(self) -> set[Value | Step]:
        """Return everything that an output depends on, and calls for their effect."""
        producers: dict[Value, Step] = {}
        for step in [*self._graph.steps.values(), *self._views.values()]:
            producers |= {r: step for r in step.results if r is not None}
        live: set[Value | Step] = set()
        pending: list[Value] = list(self._results.values())
        for name, value in self._graph.values.items():
            if name in self._captured.mutations.values() and isinstance(value, Value):
                pending.append(value)
        while pending:
            value = pending.pop()
            if value in live:
                continue
            live.add(value)
            pending.extend(sources(value))
            step_of = producers.get(value)
            if step_of is not None and step_of not in live:
                live.add(step_of)
                pending.extend(self._reads(step_of))
        return live

    def _worth_storing(self, fusion: Fusion) -> list[Value]:
        """Return values that several regions compute although writing them once would be cheaper."""
        readers: dict[Value, list[Expr]] = {}
        for group in fusion.groups:
            for value, expr in group.draft.evaluated.items():
                readers.setdefault(value, []).append(expr)
        chosen: list[Value] = []
        covered: set[Value] = set()
        inputs = {value for value in _windowed(fusion)}
        for item in reversed(self._graph.made):
            if isinstance(item, Step) or item not in readers or item in covered:
                continue
            assert isinstance(item, Inline)
            times = len(readers[item]) + (1 if item in inputs else 0)
            if self._is_cheaper_stored(item, readers[item][0], times):
                chosen.append(item)
                covered |= _ancestors(item)
        return chosen

    def _is_cheaper_stored(self, value: Inline, expr: Expr, times: int) -> bool:
        if times < 2 or value.is_view or value.node in self._options.inline or isinstance(value, Stored):
            return False
        elements = _elements(value.shape)
        found = list(walk([expr]))
        if elements < 1024 or not any(isinstance(e, Op) for e in found):
            return False
        sizes = {load.buffer: self._bytes_read(load.buffer, elements, load.dtype) for load in loads([expr])}
        heavy = sum(isinstance(e, Op) and e.name in TRANSCENDENTALS for e in found)
        again = sum(sizes.values()) + elements * heavy * TRANSCENDENTAL_BYTES
        return again > 2 * elements * BYTES[value.dtype]

    def _bytes_read(self, buffer: str, elements: int, dtype: str) -> int:
        known = self._shapes().get(buffer)
        return min(elements, _elements(known) if known is not None else elements) * BYTES[dtype]

    def _shapes(self) -> Mapping[str, tuple[int, ...]]:
        if not hasattr(self, "_shape_of"):
            shapes = {v.buffer: v.shape for v in self._graph.values.values() if isinstance(v, Stored)}
            self._shape_of = shapes | {v.name: v.shape for v in self._graph.made if isinstance(v, Value)}
        return self._shape_of


def _windowed(fusion: Fusion) -> Iterator[Value]:
    """Yield the computed inputs of overlapping windows."""
    for group in fusion.groups:
        for value in group.draft.evaluated:
            if isinstance(value, Inline) and value.window:
                yield from value.inputs


def _ancestors(value: Value) -> set[Value]:
    found: set[Value] = set()
    pending = [value]
    while pending:
        for source in sources(pending.pop()):
            if source not in found:
                found.add(source)
                pending.append(source)
    return found


def _elements(shape: tuple[int, ...]) -> int:
    total = 1
    for size in shape:
        total *= size
    return total


class _Assembly:
    """Turns groups and steps into the program."""

    def __init__(
        self,
        captured: Captured,
        graph: Translation,
        fusion: Fusion,
        results: Mapping[str, Value],
        views: Mapping[str, Step],
    ) -> None:
        self._captured = captured
        self._graph = graph
        self._fusion = fusion
        self._results = results
        self._views = views
        self._buffers: dict[str, Buffer] = {}
        self._names: set[str] = set()

    def program(self) -> Program:
        """Return the assembled program."""
        for record in self._captured.placeholders:
            dtype = str(record.dtype).removeprefix("torch.")
            self._buffers[record.node] = Buffer(
                record.node, record.shape, record.stride, dtype, record.kind, record.source
            )
        needed = self._needed()
        steps: list[Call | Region] = []
        for unit in self._fusion.order:
            steps.append(self._call(unit) if isinstance(unit, Step) else self._region(unit, needed))
        outputs = tuple(None if n is None else _buffer(self._results[n]) for n in self._captured.outputs)
        mutations = tuple(
            (state, _buffer(self._results[n])) for state, n in self._captured.mutations.items()
        )
        used = {p.node for p in self._captured.placeholders if p.kind != "constant"} | self._used(steps)
        return Program(
            buffers=tuple(b for name, b in self._buffers.items() if name in used),
            steps=tuple(steps),
            outputs=outputs,
            returns_tuple=self._captured.returns_tuple,
            mutations=mutations,
            constants=dict(self._captured.constants),
        )

    def _used(self, steps: list[Call | Region]) -> set[str]:
        temporaries = {name for name, b in self._buffers.items() if b.kind == "temporary"}
        constants = {name for name, b in self._buffers.items() if b.kind == "constant"}
        return temporaries | constants

    def _needed(self) -> set[str]:
        """Return the names of the values that somebody reads from memory."""
        needed = {_buffer(v) for v in self._results.values()}
        for unit in self._fusion.order:
            if isinstance(unit, Group):
                needed |= {load.buffer for load in loads(s.expr for s in unit.draft.stages)}
            elif unit.base is not None:
                needed.add(_buffer(unit.base))
            else:
                needed |= {_buffer(self._memory_of(n)) for n in unit.node.all_input_nodes}
        return needed

    def _memory_of(self, node: fx.Node) -> Value:
        value = self._graph.value(node.name)
        if node.name in self._views and not isinstance(value, Stored):
            result = self._views[node.name].results[0]
            assert result is not None
            return result
        return value

    def _call(self, step: Step) -> Call:
        actual: dict[str, tuple[int, ...]] = {}
        buffers: dict[str, str] = {}
        for node in step.node.all_input_nodes:
            value = step.base if step.base is not None else self._memory_of(node)
            assert value is not None
            buffers[node.name] = _buffer(value)
            actual[node.name] = self._buffers[buffers[node.name]].stride
        relay(step, actual)
        for result in step.results:
            if result is not None:
                self._buffers[result.buffer] = Buffer(
                    result.buffer, result.shape, result.stride, result.dtype, "temporary"
                )
        return make_call(step, lambda node: buffers[node.name])

    def _region(self, group: Group, needed: set[str]) -> Region:
        stages: list[Stage] = []
        read: set[str] = set()
        for stage in reversed(group.draft.stages):
            kept = tuple(store for store in stage.stores if store.buffer in needed)
            if kept or stage.name in read:
                stages.append(replace(stage, stores=kept))
                read |= {value.stage for value in stage_values([stage.expr])}
        shapes = {v.name: v for v in group.values}
        for stage in stages:
            for store in stage.stores:
                value = shapes[store.buffer]
                self._buffers[value.name] = Buffer(
                    value.name, value.shape, contiguous_strides(value.shape), value.dtype, "temporary"
                )
        region = Region(
            name=self._region_name(group),
            kept=group.draft.kept,
            inner=group.draft.inner,
            stages=tuple(reversed(stages)),
            comment=_comment(group, self._captured),
        )
        return coalesce(_without_unused_axes(region))

    def _region_name(self, group: Group) -> str:
        name = f"r_{group.values[-1].node}"
        while name in self._names:
            name += "_"
        self._names.add(name)
        return name


def _without_unused_axes(region: Region) -> Region:
    used = {name for stage in region.stages for name in stage.axes}
    return replace(region, inner=tuple(axis for axis in region.inner if axis.name in used))


def _buffer(value: Value) -> str:
    return value.buffer if isinstance(value, Stored) else value.name


def _comment(group: Group, captured: Captured) -> str:
    """Return the operators that a region carries out, in the graph's order."""
    nodes = {value.node for value in (*group.values, *group.draft.evaluated)}
    chain = [
        str(operator_name(node) or node.name).split(".")[0]
        for node in captured.graph.nodes
        if node.name in nodes and node.op == "call_function"
    ]
    shown = chain if len(chain) <= 12 else [*chain[:6], "...", *chain[-5:]]
    return " -> ".join(shown)


