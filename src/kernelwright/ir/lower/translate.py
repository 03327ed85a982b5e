"""From a captured graph to values and calls."""

import inspect
import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, get_args

import torch
from torch import fx

from kernelwright.core.errors import LoweringError
from kernelwright.ir.lower import attention, creation, norms, pooling, reductions, views
from kernelwright.ir.lower.maker import Maker
from kernelwright.ir.lower.pointwise import ARITHMETIC, COMPARISONS, LOGIC, TESTS, UnsupportedError
from kernelwright.ir.lower.products import PRODUCTS
from kernelwright.ir.lower.recurrence import RECURRENCES
from kernelwright.ir.lower.registry import HANDLERS, Made
from kernelwright.ir.lower.values import Stored, Value, is_dense, placement
from kernelwright.ir.program import DType, Expr
from kernelwright.tasks.capture import Captured

VIEWS = frozenset(
    [
        "view.default", "permute.default", "t.default", "transpose.int", "expand.default",
        "unsqueeze.default", "squeeze.default", "squeeze.dim", "squeeze.dims", "slice.Tensor", "select.int",
        "unfold.default", "alias.default", "detach.default", "as_strided.default", "diagonal.default",
        "view.dtype",
    ]
)  # fmt: skip
"""Operators whose result aliases their first argument."""
RELAYOUTS = (torch.channels_last, torch.channels_last_3d)
"""Memory formats that a copy is made for on purpose: such a copy stays a call."""
DTYPES = frozenset(get_args(DType))
_HANDLER_MODULES = (attention, creation, norms, pooling, reductions, views)
"""Imported because they register the handlers."""


@dataclass(eq=False)
class TranslatedNode:
    """A graph node that torch carries out."""

    node: fx.Node
    results: list[Stored | None] = field(default_factory=list)
    is_view: bool = False
    base: Value | None = None
    """Of a view: what it looks at, in memory."""


@dataclass
class Translation:
    """The whole graph as values."""

    values: dict[str, Made]
    """Graph node -> its value, or the values of its tuple."""
    steps: dict[str, TranslatedNode]
    """Graph node -> call, for nodes that stay with torch."""
    made: list[Value | TranslatedNode]
    """Everything in an order in which it can be computed."""
    producers: dict[Value, TranslatedNode] = field(default_factory=dict)
    """Result of a call -> the call."""
    _recorded: list[tuple[TranslatedNode, fx.Node, bool, list[tuple[int, ...] | None]]] = field(
        default_factory=list
    )
    """Each call as it was captured: its node, whether it is a view, and the strides of its results."""

    def remember(self) -> None:
        """Remember the calls and their layouts as they were captured, for ``restore``."""
        for step in self.steps.values():
            strides = [None if r is None else r.stride for r in step.results]
            self._recorded.append((step, step.node, step.is_view, strides))

    def restore(self) -> None:
        """Undo what laying out the results of calls has changed, so that another attempt starts afresh."""
        for step, node, is_view, strides in self._recorded:
            step.node, step.is_view = node, is_view
            for result, stride in zip(step.results, strides, strict=True):
                if result is not None:
                    result.stride = stride

    def value(self, node: str) -> Value:
        """Return a tensor node's value."""
        found = self.values[node]
        assert isinstance(found, Value)
        return found


def operator_name(node: fx.Node) -> str | None:
    """Return ``name.overload`` of an aten operator, None of anything else."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or target.namespace not in ("aten", "prims"):
        return None
    return f"{target._opname}.{target._overloadname}"


def dtype_name(dtype: torch.dtype) -> str:
    """Return torch's own name of a dtype without the prefix."""
    return str(dtype).removeprefix("torch.")


def translate(
    captured: Captured, *, enabled: bool, as_calls: frozenset[str], own: frozenset[str] = frozenset()
) -> Translation:
    """Return the graph's values; nodes in ``as_calls``, or all when not ``enabled``, become calls.

    Products and convolutions become calls too, but for those in ``own``.
    """
    return _Translator(captured, enabled, as_calls, own).run()


class _Translator:
    def __init__(
        self, captured: Captured, enabled: bool, as_calls: frozenset[str], own: frozenset[str]
    ) -> None:
        self._captured = captured
        self._enabled = enabled
        self._as_calls = as_calls
        self._own = own
        self._records = {p.node: p for p in captured.placeholders}
        self._out = Translation({}, {}, [])

    def run(self) -> Translation:
        for node in self._captured.graph.nodes:
            if node.op == "placeholder":
                self._placeholder(node)
            elif node.op == "call_function":
                self._function(node)
            elif node.op != "output":
                raise LoweringError(f"graph node {node.name} of kind {node.op} cannot be lowered")
        self._out.remember()
        return self._out

    def _placeholder(self, node: fx.Node) -> None:
        record = self._records.get(node.name)
        if record is not None:
            dtype = dtype_name(record.dtype)
            self._out.values[node.name] = Stored(
                node.name, record.shape, dtype, node.name, node.name, stride=record.stride
            )

    def _function(self, node: fx.Node) -> None:
        if node.target is operator.getitem:
            self._getitem(node)
            return
        name = operator_name(node)
        if name is not None and name.startswith("_assert"):
            return
        made = None if not self._may_generate(node) else self._generate(node, name or "")
        if made is None:
            self._call(node)
        else:
            self._out.values[node.name] = made

    def _getitem(self, node: fx.Node) -> None:
        source, position = node.args
        assert isinstance(source, fx.Node) and isinstance(position, int)
        if source.name in self._out.steps:
            step = self._out.steps[source.name]
            self._out.values[node.name] = result = _stored(node, node.meta["val"])
            step.results[position] = result
            self._out.producers[result] = step
            return
        values = self._out.values[source.name]
        found = values[position] if isinstance(values, tuple) else values
        if found is None:
            raise LoweringError(f"{node.name}: result {position} of {source.name} is not generated")
        self._out.values[node.name] = found

    def _may_generate(self, node: fx.Node) -> bool:
        if (
            not self._enabled
            or node.name in self._as_calls
            or not isinstance(node.target, torch._ops.OpOverload)
            or node.kwargs.get("memory_format") in RELAYOUTS
        ):
            return False
        tensors = [_first_tensor(node)]
        for source in node.all_input_nodes:
            value = source.meta.get("val")
            tensors.append(value if isinstance(value, torch.Tensor) else None)
        return all(
            t is not None and dtype_name(t.dtype) in DTYPES and t.numel() > 0 and t.layout == torch.strided
            for t in tensors
        )

    def _generate(self, node: fx.Node, name: str) -> Made | None:
        value = _first_tensor(node)
        assert value is not None
        make = Maker(node.name, tuple(value.shape), dtype_name(value.dtype))  # type: ignore[arg-type]
        try:
            args = [self._argument(arg) for arg in node.args]
            kwargs = {key: self._argument(arg) for key, arg in node.kwargs.items()}
            made = self._dispatch(make, node, name, args, kwargs)
        except (UnsupportedError, TypeError, ValueError, IndexError, KeyError, AttributeError):
            return None  # a form of the operator that no handler expects
        if made is None or not _agrees(made, node):
            return None
        made = _laid_out(make, made, node)
        self._out.made.extend(make.made)
        return made

    def _dispatch(
        self, make: Maker, node: fx.Node, name: str, args: list[Any], kwargs: dict[str, Any]
    ) -> Made | None:
        for owned in (PRODUCTS, RECURRENCES):
            if name in owned and node.name in self._own:
                return owned[name](make, *args, **kwargs)
        if name in HANDLERS:
            if name == "cat.default" and self._only_moves_memory(node):
                return None
            return HANDLERS[name](make, *args, **kwargs)
        if name in ARITHMETIC:
            return _arithmetic(make, ARITHMETIC[name], args, kwargs)
        if name in COMPARISONS:
            return _comparison(make, COMPARISONS[name], node, args)
        if name in LOGIC:
            operation = LOGIC[name]
            return make.pointwise(lambda e, x, y: e(operation, x, y), *args)
        if name in TESTS:
            test = TESTS[name]
            inner: DType = "bool" if test == "not" else args[0].dtype
            return make.pointwise(lambda e, x: e(test, x, dtype="bool"), *args, compute_dtype=inner)
        return None

    def _only_moves_memory(self, node: fx.Node) -> bool:
        """Return whether calls write all pieces and read the result: torch's copy is as good as ours."""
        pieces = [self._out.values.get(n.name) for n in node.all_input_nodes]
        readers = [operator_name(user) for user in node.users]
        return all(isinstance(p, Stored) for p in pieces) and all(
            reader is None or (reader not in HANDLERS and reader not in ARITHMETIC) for reader in readers
        )

    def _argument(self, arg: Any) -> Any:
        if isinstance(arg, fx.Node):
            return self._out.value(arg.name)
        if isinstance(arg, list | tuple):
            return [self._argument(item) for item in arg]
        return arg

    def _call(self, node: fx.Node) -> None:
        value = node.meta.get("val")
        step = TranslatedNode(node, is_view=operator_name(node) in VIEWS)
        if isinstance(value, torch.Tensor):
            result = _stored(node, value)
            step.results = [result]
            self._out.values[node.name] = result
            self._out.producers[result] = step
        elif isinstance(value, list | tuple):
            step.results = [None] * len(value)
        else:
            raise LoweringError(f"{node.name}: a call without a tensor result")
        self._out.steps[node.name] = step
        self._out.made.append(step)


def _stored(node: fx.Node, value: torch.Tensor) -> Stored:
    return Stored(
        node.name,
        tuple(value.shape),
        dtype_name(value.dtype),
        node.name,
        node.name,
        stride=tuple(value.stride()),
    )


def _laid_out(make: Maker, made: Made, node: fx.Node) -> Made:
    """Note the layout that eager gives a node's values; a copy to another layout becomes a value itself."""
    recorded = node.meta["val"]
    is_copy = operator_name(node) == "clone.default"
    if is_copy and isinstance(made, Value) and made.node != node.name:
        if placement(made)[1] == tuple(recorded.stride()):
            return made
        made = make.pointwise(lambda emit, x: x, made)
    pairs = [(made, recorded)] if isinstance(made, Value) else zip(made, recorded, strict=False)
    for value, tensor in pairs:
        if value is not None and value.node == node.name and is_dense(value.shape, tensor.stride()):
            value.stride = tuple(tensor.stride())
    return made


def _first_tensor(node: fx.Node) -> torch.Tensor | None:
    value = node.meta.get("val")
    if isinstance(value, list | tuple):
        value = value[0] if value else None
    return value if isinstance(value, torch.Tensor) else None


def _agrees(made: Made, node: fx.Node) -> bool:
    """Return whether shapes and dtypes are what capture recorded, and every result in use was made."""
    recorded = node.meta["val"]
    if isinstance(made, Value):
        return _matches(made, recorded)
    used = {user.args[1] for user in node.users if user.target is operator.getitem}
    return all(made[k] is not None and _matches(made[k], recorded[k]) for k in used if isinstance(k, int))


def _matches(value: Value | None, recorded: Any) -> bool:
    return (
        value is not None
        and isinstance(recorded, torch.Tensor)
        and value.shape == tuple(recorded.shape)
        and value.dtype == dtype_name(recorded.dtype)
    )


def _arithmetic(make: Maker, build: Callable[..., Expr], args: list[Any], kwargs: dict[str, Any]) -> Value:
    if any(isinstance(a, list) for a in args):
        raise UnsupportedError("a list argument")
    names = list(kwargs)

    def compute(emit: Any, *exprs: Expr) -> Expr:
        return build(emit, *exprs[: len(args)], **dict(zip(names, exprs[len(args) :], strict=True)))

    return make.pointwise(compute, *args, *kwargs.values())


def _comparison(make: Maker, name: str, node: fx.Node, args: list[Any]) -> Value:
    sample: list[Any] = [a.meta["val"] if isinstance(a, fx.Node) else a for a in node.args]
    common: DType = dtype_name(torch.result_type(*sample))  # type: ignore[assignment]
    if common not in DTYPES:
        raise UnsupportedError(f"dtype {common}")
    return make.pointwise(lambda e, x, y: e(name, x, y, dtype="bool"), *args, compute_dtype=common)


def helper_source(node: fx.Node) -> str | None:
    """Return the source of a helper function that a rewrite put into the graph."""
    if isinstance(node.target, torch._ops.OpOverload) or not callable(node.target):
        return None
    return inspect.getsource(node.target)
