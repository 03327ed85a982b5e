"""Decide what is written to memory, fuse, and assemble the program."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from torch import fx

from kernelwright.ir.edits import FusionOptions
from kernelwright.ir.lower.affine import contiguous_strides
from kernelwright.ir.lower.assemble import assemble
from kernelwright.ir.lower.calls import RESHAPING, copying_node, relay
from kernelwright.ir.lower.fuse import Fuser, Fusion, MemoryPlan, is_root
from kernelwright.ir.lower.maker import Maker
from kernelwright.ir.lower.storing import too_deep, worth_storing
from kernelwright.ir.lower.translate import DTYPES, VIEWS, TranslatedNode, Translation, operator_name
from kernelwright.ir.lower.values import (
    Attention,
    Inline,
    Recurrence,
    Stored,
    Value,
    is_dense,
    placement,
    sources,
)
from kernelwright.ir.program import Program
from kernelwright.tasks.capture import Captured


@dataclass(frozen=True)
class Lowered:
    """A program and the decisions behind it."""

    program: Program
    graph: Translation
    fusion: Fusion
    chosen: tuple[Value, ...]
    """Values in memory only because several readers would compute them again."""


class RegionBuilder:
    """One attempt to lower a translated graph."""

    def __init__(
        self, captured: Captured, graph: Translation, options: FusionOptions, memory: MemoryPlan
    ) -> None:
        self._captured = captured
        self._graph = graph
        self._options = options
        self._nodes = {node.name: node for node in captured.graph.nodes}
        self._roots: dict[Value, None] = {}
        self._heuristic: dict[Value, None] = {}
        """The roots that are in memory only because computing them again would cost more."""
        self._views: dict[str, TranslatedNode] = {}
        self._copies: dict[tuple[Value, str], Inline | TranslatedNode] = {}
        """By the value, and by the node where that has a copy of its own."""
        self._memory = memory
        self._results: dict[str, Value] = {}
        """Output or mutated node -> the value in memory that holds it."""

    def run(self, extra: Collection[str]) -> Lowered:
        """Return the program and how it came about; ``extra`` names more values to keep in memory."""
        self._choose_roots(extra)
        self._settle_layouts()
        self._heuristic |= dict.fromkeys(too_deep(self._graph, self._roots))
        self._roots |= self._heuristic
        fusion = self._fuse()
        for _ in range(3):
            wanted = worth_storing(self._graph, fusion, self._options.inline)
            more = [v for v in wanted if v not in self._roots]
            if not more:
                break
            self._heuristic |= dict.fromkeys(more)
            self._roots |= self._heuristic
            fusion = self._fuse()
        program = assemble(self._captured, fusion, self._results, self._in_memory)
        chosen = [v for v in self._roots if v in self._heuristic]
        return Lowered(program, self._graph, fusion, tuple(chosen))

    def _choose_roots(self, extra: Collection[str]) -> None:
        for item in self._graph.made:
            if isinstance(item, TranslatedNode):
                for node in item.node.all_input_nodes:
                    self._in_memory(node)
            elif item.name in extra or item.node in self._options.materialise:
                self._force(item)
        wanted = [n for n in (*self._captured.outputs, *self._captured.mutations.values()) if n is not None]
        for name in wanted:
            result = self._result(self._nodes[name])
            if result in self._results.values() and name not in self._results and self._is_copy(name):
                result = self._copy(result, self._nodes[name], name)
            self._results[name] = result

    def _is_copy(self, name: str) -> bool:
        """Return whether an output is in memory of its own, though another node has the same values."""
        node = self._nodes[name]
        while operator_name(node) != "clone.default":
            base = node.args[0] if node.args else None
            if not isinstance(base, fx.Node):
                return False
            is_same = self._graph.values.get(base.name) is self._graph.values.get(node.name)
            if not (is_same or operator_name(node) in RESHAPING):
                return False
            node = base
        return True

    def _settle_layouts(self) -> None:
        """Give the results of calls the strides that follow from how their arguments are stored."""
        for step in self._items():
            if isinstance(step, TranslatedNode):
                reads = step.node.all_input_nodes
                sources_ = [step.base if step.base is not None else self._in_memory(n) for n in reads]
                relay(step, {n.name: placement(v)[1] for n, v in zip(reads, sources_, strict=True)})

    def _force(self, value: Value) -> None:
        last = (
            isinstance(self._graph.values.get(value.node), Value) and self._graph.value(value.node) is value
        )
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
        result = Stored(node.name, value.shape, value.dtype, node.name, node.name, stride=stride)
        self._views[node.name] = TranslatedNode(node, [result], True, base)
        return result

    def _result(self, node: fx.Node) -> Value:
        """Return the value that holds an output: fresh memory, dense."""
        value = self._graph.value(node.name)
        if isinstance(value, Stored):
            return value if self._owns(value) else self._copy(value, node)
        if is_root(value) or value in self._roots:
            return value
        base = node.args[0] if operator_name(node) in RESHAPING else None
        if isinstance(base, fx.Node) and self._graph.value(base.name) is not value:
            looked_at = self._graph.value(base.name)
            others = (self._graph.value(n) for n in self._captured.outputs if n not in (None, node.name))
            if self._is_copy(node.name) and any(looked_at is other for other in others):
                self._roots[value] = None
                return value
            if looked_at in self._roots or (isinstance(looked_at, Stored) and self._owns(looked_at)):
                return self._view(node, self._in_memory(base))
            if isinstance(
                self._below_reshapes(base), Attention | Recurrence
            ):  # nothing else can be in its region
                return self._view(node, self._in_memory(base))
        self._roots[value] = None
        return value

    def _below_reshapes(self, node: fx.Node) -> Value:
        """Return the value that a chain of reshapes starts from."""
        base = node.args[0] if operator_name(node) in RESHAPING else None
        return self._below_reshapes(base) if isinstance(base, fx.Node) else self._graph.value(node.name)

    def _owns(self, value: Stored) -> bool:
        """Return whether a tensor in memory is dense and not an input's memory."""
        step = self._graph.producers.get(value)
        if step is None or not step.is_view:
            return step is not None
        base = step.node.args[0]
        assert isinstance(base, fx.Node)
        looked_at = self._graph.value(base.name)
        reshaped = operator_name(step.node) in RESHAPING
        return reshaped and (not isinstance(looked_at, Stored) or self._owns(looked_at))

    def _copy(self, value: Value, node: fx.Node, name: str = "") -> Value:
        """Return a copy of a value: the one of this name, the unnamed one is shared."""
        if (value, name) not in self._copies:
            self._copies[value, name] = made = self._new_copy(value, node)
            if isinstance(made, Inline):
                self._roots[made] = None
        copy = self._copies[value, name]
        result = copy.results[0] if isinstance(copy, TranslatedNode) else copy
        assert result is not None
        return result

    def _new_copy(self, value: Value, node: fx.Node) -> Inline | TranslatedNode:
        name = f"{node.name}_copy"
        if self._options.enabled and value.dtype in DTYPES:
            copy = Maker(name, value.shape, value.dtype).pointwise(lambda e, x: x, value)  # type: ignore[arg-type]
            copy.stride = value.stride if is_dense(value.shape, placement(value)[1]) else None
            return copy
        result = Stored(name, value.shape, value.dtype, name, name, stride=contiguous_strides(value.shape))
        step = TranslatedNode(copying_node(node, name), [result])
        self._graph.producers[result] = step
        return step

    def _fuse(self) -> Fusion:
        live = self._live()
        items = [i for i in self._items() if i in live]
        roots = [i for i in items if not isinstance(i, TranslatedNode)]
        stored = [v for v in self._graph.values.values() if isinstance(v, Stored)]
        stored += [r for s in self._views.values() for r in s.results if r is not None]
        stored += [
            r
            for s in self._copies.values()
            if isinstance(s, TranslatedNode)
            for r in s.results
            if r is not None
        ]
        reads = {i: self._reads(i) for i in items if isinstance(i, TranslatedNode)}
        return Fuser(roots, stored, self._memory, self._options.apart).run(items, reads)

    def _reads(self, step: TranslatedNode) -> list[Value]:
        if step.base is not None:
            return [step.base]
        return [self._in_memory(n) for n in step.node.all_input_nodes]

    def _items(self) -> Iterator[Value | TranslatedNode]:
        """Yield roots, calls and views in an order in which they can be computed."""
        pending = dict(self._views)
        for made in [*self._graph.made, *self._copies.values()]:
            if isinstance(made, TranslatedNode):
                for node in made.node.all_input_nodes:
                    yield from self._pop_views(node, pending)
                yield made
            elif is_root(made) or made in self._roots:
                yield made
        for name in list(pending):
            yield from self._pop_views(self._nodes[name], pending)

    def _pop_views(self, node: fx.Node, pending: dict[str, TranslatedNode]) -> Iterator[TranslatedNode]:
        if node.name in pending:
            step = pending.pop(node.name)
            base = step.node.args[0]
            assert isinstance(base, fx.Node)
            yield from self._pop_views(base, pending)
            yield step

    def _live(self) -> set[Value | TranslatedNode]:
        """Return everything that an output depends on, and calls for their effect."""
        producers = dict(self._graph.producers)
        for step in self._views.values():
            producers |= {r: step for r in step.results if r is not None}
        live: set[Value | TranslatedNode] = set()
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
