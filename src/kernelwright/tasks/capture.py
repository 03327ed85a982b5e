"""Capture a reference to one functional graph of core ATen operators with known shapes."""

import logging
import operator
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import torch
from torch import fx, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.export.graph_signature import InputKind, OutputKind

from kernelwright.core.dynamic import DynamicAxis
from kernelwright.core.errors import CaptureError, TaskError
from kernelwright.core.task import Task, Workload
from kernelwright.tasks.namespace import construct_model, draw_inputs, load_namespace
from kernelwright.tasks.operator_tables import small_tables
from kernelwright.tasks.randomness import kept_random_state
from kernelwright.tasks.recurrent import RECURRENT, shapes_only

logging.getLogger("torch._subclasses.fake_tensor").setLevel(logging.CRITICAL)
"""torch prints a traceback there before it raises; what is raised says the same in one line."""

KEPT_WHOLE = (torch.ops.aten.scaled_dot_product_attention.default, *RECURRENT)
"""Composite operators that stay one node: a library kernel carries them out best, and the recurrent
ones would unroll to tens of thousands of nodes."""

QUANTILES = (torch.ops.aten.quantile.default, torch.ops.aten.nanquantile.default)
"""With probabilities in a tensor ``q``, whose values torch 2.13 reads when it takes them apart: where it
knows none, the process ends with SIGSEGV."""


@dataclass(frozen=True)
class Placeholder:
    """One tensor that the graph reads."""

    node: str
    kind: Literal["parameter", "buffer", "constant", "input"]
    source: str | int
    """State-dict name of a parameter, buffer or constant; position among forward's arguments."""
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype


@dataclass(frozen=True, eq=False)
class Captured:
    """A module's forward as a graph: tensors in, tensors out, buffer updates as extra outputs.

    Equal to itself alone: graphs have no other equality.
    """

    graph: fx.Graph
    """Core ATen; every tensor-valued node has ``meta['val']``, a fake tensor. Rewrites work on copies."""
    placeholders: tuple[Placeholder, ...]
    """In the graph's order. Placeholder nodes not listed here are non-tensor arguments (specialised)."""
    outputs: tuple[str | None, ...]
    """Node name per user output; None for an output that is a constant or None."""
    returns_tuple: bool
    """False when forward returns a bare tensor."""
    mutations: dict[str, str]
    """Buffer's state-dict name -> node whose value it holds after the call."""
    constants: dict[str, torch.Tensor]
    """Tensors that forward creates from literals, by constant name."""
    held: frozenset[str] = frozenset()
    """Names of constants that are attributes of the module: plain tensors, neither parameters nor buffers."""
    axes: tuple[DynamicAxis, ...] = ()
    """Extents that vary; empty: the graph is for its own sizes alone."""
    family: tuple[tuple[tuple[int, ...], "Captured"], ...] = ()
    """The same forward at other extents of the axes."""

    def placeholder(self, node: str) -> Placeholder | None:
        """Return the placeholder record of a node, None for a computed node."""
        return next((p for p in self.placeholders if p.node == node), None)


Capture: TypeAlias = Callable[[Task, Workload], Captured]
"""Captures one workload of a task: ``capture_task``, or what does the same in the sandbox."""


def capture_module(model: nn.Module, inputs: Sequence[Any]) -> Captured:
    """Export ``model(*inputs)``; raises CaptureError when torch.export cannot."""
    inputs = _told_apart(inputs)
    try:
        with torch.no_grad(), warnings.catch_warnings(), shapes_only():
            warnings.simplefilter("ignore")  # torch's own deprecations while it copies graphs
            exported = torch.export.export(model, inputs, strict=False)
            _require_known_probabilities(exported)
            table = torch.export.default_decompositions()
            for op in KEPT_WHOLE:
                table.pop(op, None)  # type: ignore[no-untyped-call]
            with small_tables():
                exported = exported.run_decompositions(table)
    except Exception as error:  # torch.export raises many classes, all meaning "not capturable"
        first_line = str(error).strip().splitlines()[0] if str(error).strip() else repr(error)
        raise CaptureError(f"torch.export: {first_line}") from error
    return _describe(exported, inputs, model)


def _require_known_probabilities(exported: torch.export.ExportedProgram) -> None:
    """Raise CaptureError for quantiles whose probabilities have no values; see ``QUANTILES``."""
    known = {
        spec.arg.name for spec in exported.graph_signature.input_specs
        if spec.kind is InputKind.CONSTANT_TENSOR
        and not isinstance(exported.constants.get(str(spec.target)), FakeTensor)
    }  # fmt: skip
    for node in exported.graph.nodes:
        q = node.args[1] if node.target in QUANTILES else None
        if isinstance(q, fx.Node) and q.name not in known:
            raise CaptureError(f"{node.target.__name__.split('.')[0]} with a tensor `q` that is no constant")


def _told_apart(inputs: Sequence[Any]) -> tuple[Any, ...]:
    """Clone tensors given twice: the graph must not take two arguments for one."""
    seen: set[int] = set()
    apart: list[Any] = []
    for value in inputs:
        is_repeated = isinstance(value, torch.Tensor) and id(value) in seen
        apart.append(value.clone() if is_repeated else value)
        seen.add(id(value))
    return tuple(apart)


def capture_task(task: Task, workload: Workload) -> Captured:
    """Capture one workload of a task; no memory is spent on weights and inputs where that can be.

    Fake tensors carry shapes only. Where the values matter (a constructor or input generator that
    looks at them, constants that the graph must hold) the real thing is built instead. The process's random
    state stays as it is.
    """
    with kept_random_state():
        return _captured(task, workload)


def _captured(task: Task, workload: Workload) -> Captured:
    namespace = load_namespace(task, workload)
    try:
        with FakeTensorMode(allow_non_fake_inputs=True):
            model = construct_model(task, namespace, seed=0)
            inputs = draw_inputs(task, namespace, seed=0)
        captured = capture_module(model, inputs)
    except (TaskError, CaptureError):
        captured = None
    if captured is not None and not captured.constants:
        return captured
    model = construct_model(task, namespace, seed=0)
    return capture_module(model, draw_inputs(task, namespace, seed=0))


def _read_by_name(exported: torch.export.ExportedProgram, model: nn.Module) -> dict[str, torch.Tensor]:
    """Return the constants of a graph. What is a weight, found through a list, is read as one from here on.

    torch.export takes it for a constant: a kernel would go on with the values of now.

    Raises:
        CaptureError: one is a part of a weight, whose values change with it.
    """
    own = [*model.named_parameters(), *model.named_buffers()]
    weights = {name: tensor for name, tensor in own if name in exported.state_dict and _has_memory(tensor)}
    nodes = {node.name: node for node in exported.graph.nodes}
    specs = exported.graph_signature.input_specs
    places = {str(spec.target): nodes[spec.arg.name] for spec in specs if hasattr(spec.arg, "name")}
    constants = {}
    for name, value in exported.constants.items():
        if not isinstance(value, torch.Tensor):
            continue
        same = None if _holds(model, name) or not _has_memory(value) else _weight_at(value, weights)
        if same is None:
            constants[name] = value
        else:
            places[name].replace_all_uses_with(places[same])
            exported.graph.erase_node(places[name])
    return constants


def _weight_at(value: torch.Tensor, weights: Mapping[str, torch.Tensor]) -> str | None:
    """Return the name of the weight that a tensor is; raises CaptureError where it is a part of one."""
    for name, weight in weights.items():
        if weight.untyped_storage().data_ptr() == value.untyped_storage().data_ptr():
            if value is weight or (isinstance(weight, nn.Parameter) and _is_whole(value, weight)):
                return name
            raise CaptureError(f"forward reads a view of {name} that an attribute holds; read {name} itself")
    return None


def _is_whole(value: torch.Tensor, weight: nn.Parameter) -> bool:
    """True for what torch.export makes of a parameter that a list holds."""
    one, other = ((t.data_ptr(), t.shape, t.stride(), t.dtype) for t in (value, weight))
    return one == other


def _has_memory(tensor: torch.Tensor) -> bool:
    return not isinstance(tensor, FakeTensor) and tensor.device.type != "meta" and tensor.numel() > 0


def _describe(exported: torch.export.ExportedProgram, inputs: Sequence[Any], model: nn.Module) -> Captured:
    signature = exported.graph_signature
    kinds = {
        InputKind.PARAMETER: "parameter",
        InputKind.BUFFER: "buffer",
        InputKind.CONSTANT_TENSOR: "constant",
        InputKind.USER_INPUT: "input",
    }
    constants = _read_by_name(exported, model)
    nodes = {node.name: node for node in exported.graph.nodes}
    placeholders: list[Placeholder] = []
    position = 0
    for spec in signature.input_specs:
        kind = kinds.get(spec.kind)
        if kind is None:
            raise CaptureError(f"graph input of kind {spec.kind} is not supported")
        if kind == "constant" and spec.target not in constants:
            continue  # a weight under another name
        value = nodes[spec.arg.name].meta.get("val") if hasattr(spec.arg, "name") else None
        if isinstance(value, torch.Tensor):
            source = position if kind == "input" else str(spec.target)
            placeholders.append(
                Placeholder(
                    node=spec.arg.name,
                    kind=kind,  # type: ignore[arg-type]  # values of `kinds` are the literals
                    source=source,
                    shape=tuple(int(n) for n in value.shape),
                    stride=tuple(int(n) for n in value.stride()),
                    dtype=value.dtype,
                )
            )
        position += kind == "input"
    outputs: list[str | None] = []
    mutations: dict[str, str] = {}
    for out in signature.output_specs:
        name = getattr(out.arg, "name", None)
        if out.kind is OutputKind.BUFFER_MUTATION:
            mutations[str(out.target)] = str(name)
        elif out.kind is OutputKind.USER_OUTPUT:
            outputs.append(name)
        else:
            raise CaptureError(f"graph output of kind {out.kind} is not supported")
    return Captured(
        graph=exported.graph,
        placeholders=tuple(placeholders),
        outputs=tuple(outputs),
        returns_tuple=not exported.call_spec.out_spec.is_leaf(),
        mutations=mutations,
        constants=constants,
        held=frozenset(name for name in constants if _holds(model, name)),
    )


def _holds(model: nn.Module, name: str) -> bool:
    try:
        return isinstance(operator.attrgetter(name)(model), torch.Tensor)
    except AttributeError:
        return False
