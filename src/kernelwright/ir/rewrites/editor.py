"""A copy of a captured graph that can be edited node by node without losing its bookkeeping."""

import dataclasses
import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode

from kernelwright.core.errors import LoweringError
from kernelwright.ir.rewrites.reading import CONSTANT, VIEW_OPS, args_of, aten, is_call
from kernelwright.tasks.capture import Captured


class Editor:
    """Edits a copy; `finish` gives it back as a Captured whose outputs match the original's layout."""

    def __init__(self, captured: Captured) -> None:
        """Copy the graph; nodes keep their names and share their fake tensors with the original."""
        self._captured = captured
        self.graph = fx.Graph()
        copies: dict[fx.Node, fx.Node] = {}
        results = self.graph.graph_copy(captured.graph, copies)
        for old, new in copies.items():
            new.meta = dict(old.meta)
            new.name = old.name  # copying renames what looks like a builtin, e.g. `input`
        self.graph.output(results)
        self._by_name = {old.name: new for old, new in copies.items()}
        self._mark_literals(captured)
        wanted = [*captured.outputs, *captured.mutations.values()]
        self._targets = {name: self._by_name[name] for name in wanted if name is not None}
        self._results = next(iter(reversed(captured.graph.nodes))).args
        self._mode = _fake_mode(captured.graph)

    def _mark_literals(self, captured: Captured) -> None:
        """Let rewrites read the values of one-element constants, such as ``torch.tensor(0.0)``."""
        for record in captured.placeholders:
            value = captured.constants.get(str(record.source)) if record.kind == "constant" else None
            if value is not None and value.numel() == 1:
                self._by_name[record.node].meta[CONSTANT] = value

    def at(self, node: fx.Node) -> Any:
        """Context manager: new nodes go directly before ``node``."""
        return self.graph.inserting_before(node)

    def call(self, target: Any, *args: Any, **kwargs: Any) -> fx.Node:
        """Insert a call and work out its fake value; ``target`` is an operator or a helper function."""
        node = self.graph.call_function(target, args, kwargs)
        plain_args, plain_kwargs = fx.map_arg((args, kwargs), lambda n: n.meta["val"])
        with self._mode, torch.no_grad():
            node.meta["val"] = target(*plain_args, **plain_kwargs)
        return node

    def item(self, node: fx.Node, index: int) -> fx.Node:
        """Insert the selection of one of several results."""
        return self.call(operator.getitem, node, index)

    def view(self, node: fx.Node, size: Sequence[int]) -> fx.Node:
        """Insert a view; a copy comes first where the strides do not allow one."""
        value = node.meta["val"]
        if tuple(value.shape) == tuple(size):
            return node
        if not _can_view(value, size):
            node = self.call(aten.clone.default, node, memory_format=torch.contiguous_format)
        return self.call(aten.view.default, node, list(size))

    def replace(self, old: fx.Node, new: fx.Node) -> None:
        """Let every reader of ``old``, including the graph's outputs, read ``new``."""
        old.replace_all_uses_with(new)
        if _layout(old.meta["val"]) != _layout(new.meta["val"]):
            self._refresh()
        for name, node in self._targets.items():
            if node is old:
                self._targets[name] = new

    def clean(self) -> None:
        """Remove what nobody reads; placeholders stay."""
        self.graph.eliminate_dead_code()

    def finish(self) -> Captured:
        """Return the edited graph; raises LoweringError when an output would change its layout."""
        self._refresh()
        for name in self._targets:
            self._restore_layout(name)
        output = next(iter(reversed(self.graph.nodes)))
        output.args = fx.map_arg(self._results, lambda n: self._targets[n.name])
        self.clean()
        self.graph.lint()
        return dataclasses.replace(
            self._captured,
            graph=self.graph,
            outputs=tuple(None if n is None else self._targets[n].name for n in self._captured.outputs),
            mutations={key: self._targets[n].name for key, n in self._captured.mutations.items()},
        )

    def _refresh(self) -> None:
        """Work out values again where a rewrite has changed the strides of an operand."""
        originals = set(self._by_name.values())
        changed: set[fx.Node] = {n for n in self.graph.nodes if n not in originals}
        for node in list(self.graph.nodes):
            if (
                node.op != "call_function"
                or node not in originals
                or changed.isdisjoint(node.all_input_nodes)
            ):
                continue
            source = args_of(node)[0]
            if is_call(node, aten.view.default) and not _can_view(source.meta["val"], args_of(node)[1]):
                with self.at(node):
                    dense = self.call(aten.clone.default, source, memory_format=torch.contiguous_format)
                node.replace_input_with(source, dense)
            old = node.meta["val"]
            args, kwargs = fx.map_arg((args_of(node), node.kwargs), lambda n: n.meta["val"])
            with self._mode, torch.no_grad():
                node.meta["val"] = node.target(*args, **kwargs)
            if _layout(old) != _layout(node.meta["val"]):
                changed.add(node)

    def _restore_layout(self, name: str) -> None:
        """Give a changed output the shape, strides and independent memory that the original has."""
        new = self._targets[name]
        wanted = next(n for n in self._captured.graph.nodes if n.name == name).meta["val"]
        got = new.meta["val"]
        if new is self._by_name[name] and _same_strides(got, wanted):
            return
        if got.shape != wanted.shape or got.dtype != wanted.dtype:
            raise LoweringError(f"rewriting changed the type of output {name!r}")
        shared = list(self._targets.values()).count(new) > 1 or _is_input_memory(new)
        if _same_strides(got, wanted) and not shared:
            return
        with self.at(next(iter(reversed(self.graph.nodes)))):
            copy = self.call(aten.clone.default, new, memory_format=_memory_format(wanted))
        if not _same_strides(copy.meta["val"], wanted):
            raise LoweringError(f"rewriting changed the strides of output {name!r}")
        self._targets[name] = copy


def _fake_mode(graph: fx.Graph) -> FakeTensorMode:
    """Return the mode that the graph's fake tensors belong to."""
    for node in graph.nodes:
        mode = getattr(node.meta.get("val"), "fake_mode", None)
        if isinstance(mode, FakeTensorMode):
            return mode
    return FakeTensorMode()


def _can_view(tensor: torch.Tensor, size: Sequence[int]) -> bool:
    """Whether strides allow the view; fake tensors copy silently instead of refusing."""
    try:
        torch.empty_strided(tensor.shape, tensor.stride(), device="meta").view(list(size))
    except RuntimeError:
        return False
    return True


def _layout(value: Any) -> Any:
    """Strides of a tensor or of several."""
    several = value if isinstance(value, (tuple, list)) else [value]
    return [v.stride() for v in several if isinstance(v, torch.Tensor)]


def _is_input_memory(node: fx.Node) -> bool:
    """Whether a node is an input or parameter, or a view of one."""
    while is_call(node, *VIEW_OPS):
        node = args_of(node)[0]
    return node.op == "placeholder"


def _same_strides(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether elements lie alike in memory; strides of dimensions of size 1 say nothing."""
    pairs = zip(one.shape, one.stride(), other.stride(), strict=True)
    return all(a == b for size, a, b in pairs if size > 1)


def _memory_format(tensor: torch.Tensor) -> torch.memory_format:
    for layout in (torch.channels_last, torch.channels_last_3d):
        dims = 4 if layout is torch.channels_last else 5
        fits = tensor.dim() == dims and tensor.is_contiguous(memory_format=layout)
        if fits and not tensor.is_contiguous():
            return layout
    return torch.contiguous_format
