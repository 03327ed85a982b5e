"""A captured graph as data: what a confined process says of a stranger's task, and how it is read.

``graph_document`` makes the document where the task's code runs. ``read_graph`` believes nothing of it: only
operators of torch without effects count as calls, every shape and type is worked out again on tensors without
memory, and what would have to be computed for real is bounded. Nothing is unpickled.
"""

import base64
import math
import operator
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

import torch
from pydantic import Field, ValidationError, model_validator
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode

from kernelwright.core.errors import CaptureError
from kernelwright.core.frozen import Frozen
from kernelwright.tasks.aten import op_name
from kernelwright.tasks.capture import KEPT_WHOLE, Captured, Placeholder
from kernelwright.tasks.recurrent import shapes_only

MOST_NODES = 20_000
MOST_ITEMS = 4096
"""Elements of one list among a node's arguments."""
MOST_DEPTH = 4
MOST_PARTS = 1 << 16
"""Longest axis of a tensor that an operator may take apart into a list."""
TENSOR_BYTES = 1 << 46
CONSTANT_BYTES = 1 << 21
"""Of all tensors together whose values are sent."""
COMPUTED_ELEMENTS = 1 << 28
"""Elements read and written by all constant expressions of a graph together: they are computed in earnest."""
LITERAL = 16
"""An attribute of the module with more elements keeps its values to itself: kernels read it from there."""

DTYPES = {str(x).removeprefix("torch."): x for x in vars(torch).values() if isinstance(x, torch.dtype)}
_LAYOUTS = {"strided": torch.strided}
_FORMATS = {
    str(value).removeprefix("torch."): value
    for value in (
        torch.contiguous_format, torch.preserve_format, torch.channels_last, torch.channels_last_3d,
    )
}  # fmt: skip
_DEVICES = ("cpu", "meta")
_WORDS = frozenset(
    (
        "", "none", "tanh", "floor", "trunc", "sum", "prod", "mean", "amax", "amin", "left", "right",
        "constant", "reflect", "replicate", "circular", "linear", "lower", "midpoint", "higher", "nearest",
    )
)  # fmt: skip
"""Texts that operators take; none names a file."""
_CREATING = frozenset(
    (
        "arange", "empty", "empty_strided", "eye", "full", "linspace", "logspace", "ones", "rand", "randint",
        "randn", "randperm", "scalar_tensor", "tril_indices", "triu_indices", "zeros",
    )
)  # fmt: skip
"""Operators without an operand."""
_COMPUTED = _CREATING | frozenset(
    (
        "_assert_tensor_metadata", "_log_softmax", "_softmax", "_to_copy", "_unsafe_view", "abs", "acos",
        "acosh", "add", "alias", "all", "amax", "amin", "any", "argmax", "argmin", "argsort", "asin",
        "asinh", "atan", "atan2", "atanh", "bernoulli", "bitwise_and", "bitwise_left_shift", "bitwise_not",
        "bitwise_or", "bitwise_right_shift", "bitwise_xor", "cat", "ceil", "clamp", "clone",
        "constant_pad_nd", "convert_element_type", "copy", "cos", "cosh", "cumprod", "cumsum", "detach",
        "diag_embed", "diagonal", "div", "elu", "empty_like", "eq", "erf", "erfc", "exp", "exp2", "expand",
        "expm1", "flip", "floor", "floor_divide", "fmod", "full_like", "gather", "ge", "gelu", "getitem",
        "gt", "hardtanh", "hypot", "index", "index_select", "isinf", "isnan", "le", "leaky_relu",
        "lift_fresh_copy", "log", "log10", "log1p", "log2", "logical_and", "logical_not", "logical_or",
        "logical_xor", "lt", "masked_fill", "max", "maximum", "mean", "min", "minimum", "mul", "ne", "neg",
        "new_empty", "new_full", "new_ones", "new_zeros", "ones_like", "permute", "pow", "prod",
        "rand_like", "randn_like", "reciprocal", "relu", "remainder", "repeat", "reshape", "round", "rsqrt",
        "rsub", "select", "select_scatter", "sigmoid", "sign", "silu", "sin", "sinh", "slice",
        "slice_scatter", "softplus", "sort", "split", "split_with_sizes", "sqrt", "squeeze", "std", "sub",
        "sum", "t", "tan", "tanh", "transpose", "tril", "triu", "trunc", "unbind", "unsqueeze", "var",
        "var_mean", "view", "where", "zeros_like",
    )
)  # fmt: skip
"""Operators that constant expressions may consist of: they take as long as their operands are large."""
_TARGET = re.compile(r"(aten|prims)\.(\w{1,80})\.(\w{1,80})", re.ASCII)
_GETITEM = "getitem"

Name = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,199}$")]
StateName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,399}$")]
Extent = Annotated[int, Field(ge=0, lt=1 << 40)]
Position = Annotated[int, Field(ge=0, lt=1 << 16)]
DtypeName = Annotated[str, Field(max_length=40)]


def _name_of(value: object) -> str:
    return str(value).removeprefix("torch.")


class TensorForm(Frozen):
    """Shape, strides and type of a tensor; nothing of its values."""

    shape: tuple[Extent, ...] = Field(max_length=25)
    stride: tuple[Extent, ...] = Field(max_length=25)
    dtype: DtypeName

    @model_validator(mode="after")
    def _is_one(self) -> "TensorForm":
        if self.dtype not in DTYPES or len(self.shape) != len(self.stride):
            raise ValueError("no form of a tensor")
        last = sum((n - 1) * step for n, step in zip(self.shape, self.stride, strict=True) if n > 1)
        if max(math.prod(self.shape), last) * DTYPES[self.dtype].itemsize > TENSOR_BYTES:
            raise ValueError("a tensor that no machine holds")
        return self

    @classmethod
    def of(cls, value: torch.Tensor) -> "TensorForm":
        """Return the form of a tensor; raises CaptureError for a kind that graphs have no place for."""
        if value.layout is not torch.strided or value.is_quantized:
            raise CaptureError(f"the graph has a tensor of layout {value.layout}")
        shape, stride = (tuple(map(int, one)) for one in (value.shape, value.stride()))
        return cls(shape=shape, stride=stride, dtype=_name_of(value.dtype))

    def empty(self) -> torch.Tensor:
        """Return a tensor of this form; to be called under a mode that takes no memory."""
        return torch.empty_strided(self.shape, self.stride, dtype=DTYPES[self.dtype])


class GraphNode(Frozen):
    """One node; arguments are plain values, or objects with one key that say what else they are."""

    name: Name
    op: Literal["placeholder", "call_function", "output"]
    target: str = Field(default="", max_length=200)
    args: Any = ()
    kwargs: dict[Name, Any] = Field(default_factory=dict, max_length=64)
    value: TensorForm | tuple[TensorForm | None, ...] | bool | int | float | str | None = None
    """What it gives; of a placeholder that is no tensor, the value that the graph holds for."""


class GraphInput(Frozen):
    """One tensor that the graph reads."""

    node: Name
    kind: Literal["parameter", "buffer", "constant", "input"]
    source: Position | StateName
    form: TensorForm


class GraphConstant(Frozen):
    """A tensor with its values: base64 of its elements, row after row; None: they are not sent."""

    form: TensorForm
    data: str | None = Field(default=None, max_length=2 * CONSTANT_BYTES)


class GraphDocument(Frozen):
    """A ``Captured``; see its fields."""

    nodes: tuple[GraphNode, ...] = Field(max_length=MOST_NODES)
    inputs: tuple[GraphInput, ...] = Field(max_length=MOST_NODES)
    outputs: tuple[Name | None, ...] = Field(max_length=MOST_ITEMS)
    returns_tuple: bool
    mutations: dict[StateName, Name] = Field(max_length=MOST_ITEMS)
    constants: dict[StateName, GraphConstant] = Field(max_length=MOST_ITEMS)
    held: tuple[StateName, ...] = Field(max_length=MOST_ITEMS)


# -- where the task's code runs --------------------------------------------------------------------------


def graph_document(captured: Captured) -> GraphDocument:
    """Return the document of a graph; raises CaptureError where it holds what no document says."""
    if len(captured.graph.nodes) > MOST_NODES:
        raise CaptureError(f"the graph has {len(captured.graph.nodes)} nodes; at most {MOST_NODES} are read")
    try:
        return GraphDocument(
            nodes=tuple(map(_node_of, captured.graph.nodes)),
            inputs=tuple(
                GraphInput(
                    node=p.node,
                    kind=p.kind,
                    source=p.source,
                    form=TensorForm(shape=p.shape, stride=p.stride, dtype=_name_of(p.dtype)),
                )
                for p in captured.placeholders
            ),
            outputs=captured.outputs,
            returns_tuple=captured.returns_tuple,
            mutations=captured.mutations,
            constants={
                name: _constant_of(value, is_held=name in captured.held)
                for name, value in captured.constants.items()
            },
            held=tuple(sorted(captured.held)),
        )
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"][:3]))
        raise CaptureError(f"the graph of a stranger's task may not have this as {where}") from error


def _node_of(node: fx.Node) -> GraphNode:
    if node.op not in ("placeholder", "call_function", "output"):
        raise CaptureError(f"the graph has a node of kind {node.op}")
    return GraphNode(
        name=node.name,
        op=node.op,
        target=_target_name(node) if node.op == "call_function" else "",
        args=_plain(node.args),
        kwargs={key: _plain(value) for key, value in node.kwargs.items()},
        value=_value_of(node) if node.op != "output" else None,
    )


def _target_name(node: fx.Node) -> str:
    if node.target is operator.getitem:
        return _GETITEM
    if not isinstance(node.target, torch._ops.OpOverload):
        raise CaptureError(f"the graph calls {op_name(node)}, which is no operator of torch")
    return str(node.target)


def _value_of(node: fx.Node) -> Any:
    value = node.meta.get("val")
    if isinstance(value, torch.Tensor):
        return TensorForm.of(value)
    if isinstance(value, list | tuple):
        return tuple(None if one is None else TensorForm.of(one) for one in value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise CaptureError(f"node {node.name} gives a {type(value).__name__}, known only when it runs")


def _plain(value: Any) -> Any:
    """Return an argument as JSON has it."""
    if isinstance(value, fx.Node):
        return {"node": value.name}
    if isinstance(value, tuple):
        return {"tuple": [_plain(one) for one in value]}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if value is None or type(value) in (bool, int, float, str):
        return value
    for key, known in (("dtype", DTYPES), ("layout", _LAYOUTS), ("format", _FORMATS)):
        if known.get(_name_of(value)) is value:
            return {key: _name_of(value)}
    if isinstance(value, torch.device):
        return {"device": value.type}
    raise CaptureError(f"the graph has an argument of type {type(value).__name__}")


def _constant_of(value: torch.Tensor, *, is_held: bool) -> GraphConstant:
    plain = value.detach().cpu().contiguous()
    form = TensorForm.of(plain)
    if is_held and plain.numel() > LITERAL:
        return GraphConstant(form=form)
    if plain.nbytes > CONSTANT_BYTES:
        raise CaptureError(f"a constant of {plain.nbytes} bytes; at most {CONSTANT_BYTES} are sent")
    data = plain.reshape(-1).view(torch.uint8).numpy().tobytes()
    return GraphConstant(form=form, data=base64.b64encode(data).decode())


# -- where nothing of it is believed ---------------------------------------------------------------------


def read_graph(said: Any) -> Captured:
    """Return the graph that a confined process describes.

    Raises:
        CaptureError: it is no graph, or one that is not read of strangers.
    """
    try:
        document = GraphDocument.model_validate(said)
        reader = _GraphReader(document)
        with FakeTensorMode(), torch.no_grad(), shapes_only():
            reader.build()
        return reader.captured()
    except CaptureError:
        raise
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"][:4]))
        raise CaptureError(f"the sandbox returned no graph: {where} is not what it must be") from error
    except Exception as error:  # torch raises many classes on arguments that an operator does not take
        words = " ".join(str(error).split())[:200]
        raise CaptureError(f"the sandbox returned no graph: {type(error).__name__}: {words}") from error


class _GraphReader:
    """Builds the graph node by node; every value is worked out here from those before it."""

    def __init__(self, document: GraphDocument) -> None:
        self._document = document
        self._graph = fx.Graph()
        self._nodes: dict[str, fx.Node] = {}
        self._records = {record.node: record for record in document.inputs}

    def build(self) -> None:
        """Make the nodes; to be called under a mode in which tensors take no memory."""
        for said in self._document.nodes:
            if said.name in self._nodes:
                raise CaptureError(f"the sandbox returned two nodes of the name {said.name}")
            self._nodes[said.name] = self._made(said)
        if [node.op for node in self._graph.nodes].index("output") != len(self._nodes) - 1:
            raise CaptureError("the sandbox returned a graph that goes on after its end")
        self._graph.lint()

    def captured(self) -> Captured:
        """Return what the document says beside the nodes, with these."""
        document = self._document
        self._check_computed()
        for name in (*document.outputs, *document.mutations.values()):
            if name is not None:
                self._require_tensor(name)
        placeholders = tuple(
            Placeholder(
                record.node, record.kind, record.source, record.form.shape, record.form.stride,
                DTYPES[record.form.dtype],
            )
            for record in document.inputs
        )  # fmt: skip
        for record in document.inputs:
            if (record.kind == "input") is not isinstance(record.source, int):
                raise CaptureError(f"the sandbox returned an input {record.node} from nowhere")
            if self._require_tensor(record.node).op != "placeholder":
                raise CaptureError(f"the sandbox returned a computed input {record.node}")
        return Captured(
            graph=self._graph,
            placeholders=placeholders,
            outputs=document.outputs,
            returns_tuple=document.returns_tuple,
            mutations=dict(document.mutations),
            constants=dict(self._constants()),
            held=frozenset(document.held),
        )

    def _require_tensor(self, name: str) -> fx.Node:
        node = self._nodes.get(name)
        if node is None or not isinstance(node.meta.get("val"), torch.Tensor):
            raise CaptureError(f"the sandbox returned no tensor {name}")
        return node

    def _made(self, said: GraphNode) -> fx.Node:
        target: Any = said.name if said.op == "placeholder" else said.op
        if said.op == "call_function":
            target = _operator(said.target)
        args = tuple(self._read(said.args, 0)) if said.op != "placeholder" else ()
        kwargs = {key: self._read(value, 0) for key, value in said.kwargs.items()}
        node = self._graph.create_node(said.op, target, args, kwargs, name=said.name)
        node.name = said.name  # fx renames what looks like a builtin, e.g. `input`
        if said.op == "placeholder":
            node.meta["val"] = self._given(said)
        elif said.op == "call_function":
            self._check_cost(node)
            node.meta["val"] = self._worked_out(node, said)
        return node

    def _given(self, said: GraphNode) -> Any:
        record = self._records.get(said.name)
        if record is None:
            if isinstance(said.value, TensorForm | tuple):
                raise CaptureError(f"the sandbox returned an input {said.name} from nowhere")
            return said.value
        if record.form != said.value:
            raise CaptureError(f"the sandbox returned two forms of input {said.name}")
        return record.form.empty()

    def _read(self, value: Any, depth: int) -> Any:
        """Return an argument of a node."""
        if depth > MOST_DEPTH:
            raise CaptureError("the sandbox returned arguments that are nested too deeply")
        if isinstance(value, list):
            if len(value) > MOST_ITEMS:
                raise CaptureError(f"a list of {len(value)} arguments; at most {MOST_ITEMS} are read")
            return [self._read(one, depth + 1) for one in value]
        if isinstance(value, str) and value not in _WORDS:
            raise CaptureError("an operator takes a text, which is not read of strangers")
        if type(value) is int and abs(value) >= 1 << 63:
            raise CaptureError("the sandbox returned a number that no operator takes")
        if not isinstance(value, dict):
            return value
        ((kind, what),) = value.items()
        if kind == "tuple":
            return tuple(self._read(list(what), depth + 1))
        if kind == "device" and what in _DEVICES:
            return torch.device(what)
        known: Mapping[str, Mapping[str, Any]]
        known = {"node": self._nodes, "dtype": DTYPES, "layout": _LAYOUTS, "format": _FORMATS}
        return known[kind][what]

    def _worked_out(self, node: fx.Node, said: GraphNode) -> Any:
        """Return what a call gives, which must be what was said; strides are those of the capture."""
        args, kwargs = fx.map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
        found = node.target(*args, **kwargs)  # type: ignore[operator]  # an operator, by ``_operator``
        several = isinstance(found, list | tuple)
        forms = said.value if several else (said.value,)
        values = tuple(found) if several else (found,)
        if not isinstance(forms, tuple) or len(forms) != len(values):
            raise CaptureError(f"the sandbox returned another number of results of {said.name}")
        given = [self._agreed(said.name, value, form) for value, form in zip(values, forms, strict=True)]
        if not several:
            return given[0]
        return given if isinstance(found, list) else tuple(given)

    def _agreed(self, name: str, value: Any, form: Any) -> Any:
        if form is None and value is None:
            return None
        if not isinstance(form, TensorForm):
            if type(value) in (bool, int, float) and value == form:
                return value
            raise CaptureError(f"the sandbox returned another result of {name} than torch gives")
        is_alike = isinstance(value, torch.Tensor) and (tuple(value.shape), value.dtype) == (
            form.shape, DTYPES[form.dtype],
        )  # fmt: skip
        if not is_alike:
            raise CaptureError(f"the sandbox returned another result of {name} than torch gives")
        return value if tuple(value.stride()) == form.stride else form.empty()

    def _check_cost(self, node: fx.Node) -> None:
        """Raise CaptureError where a call would take the machine; its own value is not yet known."""
        operands = [n.meta["val"] for n in node.all_input_nodes if isinstance(n.meta["val"], torch.Tensor)]
        name = op_name(node)
        if _gives_list(node) and any(n > MOST_PARTS for value in operands for n in value.shape):
            raise CaptureError(f"{name} takes a tensor apart into more than {MOST_PARTS} parts")
        if not node.all_input_nodes and name not in _CREATING:
            raise CaptureError(f"{name} of nothing is not read of strangers")

    def _constants(self) -> Iterator[tuple[str, torch.Tensor]]:
        left = CONSTANT_BYTES
        for name, said in self._document.constants.items():
            if said.data is None:
                continue
            data = base64.b64decode(said.data, validate=True)
            dtype, left = DTYPES[said.form.dtype], left - len(data)
            if len(data) != math.prod(said.form.shape) * dtype.itemsize or left < 0:
                raise CaptureError(f"the sandbox returned another number of bytes of constant {name}")
            flat = torch.frombuffer(bytearray(data), dtype=dtype) if data else torch.empty(0, dtype=dtype)
            yield name, flat.reshape(said.form.shape)

    def _check_computed(self) -> None:
        """Raise CaptureError where constant expressions of the graph would take the machine."""
        inputs = self._document.inputs
        literals = {r.node for r in inputs if r.kind == "constant" and math.prod(r.form.shape) == 1}
        closed: set[fx.Node] = set()
        total = 0
        for node in self._graph.nodes:
            is_literal = node.op == "placeholder" and node.name in literals
            is_made = node.op == "call_function" and closed.issuperset(node.all_input_nodes)
            if not (is_literal or is_made):
                continue
            closed.add(node)
            if is_literal:
                continue
            if op_name(node) not in _COMPUTED:
                raise CaptureError(f"it computes a constant with {op_name(node)}: not done for strangers")
            total += sum(_elements(n) for n in (node, *node.all_input_nodes))
            if total > COMPUTED_ELEMENTS:
                raise CaptureError(f"its constants read and write more than {COMPUTED_ELEMENTS} elements")


def _elements(node: fx.Node) -> int:
    value = node.meta["val"]
    several = value if isinstance(value, list | tuple) else (value,)
    return sum(one.numel() for one in several if isinstance(one, torch.Tensor))


def _operator(said: str) -> Any:
    """Return the operator of this name; raises CaptureError for one that strangers' graphs may not call."""
    if said == _GETITEM:
        return operator.getitem
    words = _TARGET.fullmatch(said)
    packet = getattr(getattr(torch.ops, words[1]), words[2], None) if words else None
    found = getattr(packet, words[3], None) if words else None
    if not isinstance(found, torch._ops.OpOverload) or found._schema.is_mutable:
        raise CaptureError("the graph calls something that is no operator without effects")
    schema = found._schema
    name = f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name
    is_composite = torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeImplicitAutograd")
    if is_composite and found not in KEPT_WHOLE:
        raise CaptureError(f"the graph calls {said}, which torch takes apart first")
    return found


def _gives_list(node: fx.Node) -> bool:
    if not isinstance(node.target, torch._ops.OpOverload):
        return False
    return any(isinstance(one.type, torch.ListType) for one in node.target._schema.returns)
