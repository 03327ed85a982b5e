"""Elementary functions (exp, tanh, a quotient, ...) that no implementation of a captured graph can leave out.

A lower bound that errs on the low side: counted are functions of values that come from the inputs through
views, sums, products and normalisations, where the result is used for more than an order or a threshold.
Functions of functions count nothing, since they may cancel; nor do those behind matrix products, whose
products cost more. What algebra can make one evaluation of counts once: several functions of the same input,
and functions whose results meet in a sum, a product or a quotient. Where a function is flat, as a sigmoid far
from zero, a kernel can do without it: ``core/roofline.py`` doubts no kernel for that.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import fx

from kernelwright.tasks.aten import VIEWS, numel, op_name, stored_elements
from kernelwright.tasks.capture import Captured

_KINDS = {
    **dict.fromkeys(
        ("exp", "exp2", "expm1", "sigmoid", "silu", "softplus", "log_sigmoid_forward", "mish", "sin", "cos"),
        "exp",
    ),
    **dict.fromkeys(("_softmax", "_log_softmax", "_safe_softmax", "logsumexp", "logcumsumexp"), "exp"),
    **dict.fromkeys(("log", "log2", "log10", "log1p"), "log"),
    "tanh": "tanh",
    "erf": "erf",
    **dict.fromkeys(("sqrt", "rsqrt"), "sqrt"),
    "reciprocal": "div",
}
_PASSING = VIEWS | frozenset(
    ("add", "sub", "rsub", "mul", "neg", "clone", "_to_copy", "slice", "select", "split", "split_with_sizes",
     "getitem", "unbind", "flip", "roll")
)  # fmt: skip
"""Pointwise operators and moves: as many values come out as different ones went in."""
_NORMALISING = frozenset(("native_layer_norm", "native_group_norm", "_native_batch_norm_legit_no_training"))
_BLIND = frozenset(
    ("amax", "amin", "max", "min", "argmax", "argmin", "aminmax", "topk", "sort", "argsort", "kthvalue",
     "median", "mode", "clamp", "clamp_min", "clamp_max", "relu", "hardtanh", "leaky_relu", "threshold",
     "elu", "maximum", "minimum", "where", "lt", "gt", "le", "ge", "eq", "ne", "sign", "floor", "ceil", "any",
     "round", "all", "nonzero", "hardswish", "hardsigmoid", "sym_size", "max_pool2d_with_indices",
     "max_pool3d_with_indices", "adaptive_max_pool2d")
)  # fmt: skip
"""Operators that commute with monotone functions, or need them for some values only."""


@dataclass(frozen=True)
class _Origin:
    """Where a value comes from."""

    root: fx.Node
    """The input."""
    values: int
    """How many different values there are at most."""


@dataclass(frozen=True)
class _Evaluated:
    """One node that evaluates a function."""

    kind: str
    root: fx.Node
    count: float
    reached: frozenset[fx.Node]
    """Pointwise nodes that its result flows through."""


def count_functions(captured: Captured, needs: dict[fx.Node, float]) -> dict[str, int]:
    """Return evaluations by the names of ``Peaks.functions``.

    ``needs``: the share of each node's elements that is needed.
    """
    origins = _origins(captured)
    found = [
        evaluated
        for node in captured.graph.nodes
        if (kind := function_of(node)) is not None
        and (evaluated := _evaluated(node, kind, origins, needs[node])) is not None
    ]
    counts: defaultdict[str, float] = defaultdict(float)
    for group in _groups(found):
        for kinds_alike in (("exp", "log", "tanh", "erf"), ("sqrt",), ("div",)):
            alike = [evaluated for evaluated in group if evaluated.kind in kinds_alike]
            if alike:
                most = max(alike, key=lambda evaluated: evaluated.count)
                counts[most.kind] += most.count
    return {kind: int(count) for kind, count in counts.items() if count >= 1}


def function_of(node: fx.Node) -> str | None:
    """Return the function of ``Peaks.functions`` that a node evaluates for each element, None for none."""
    if node.op != "call_function":
        return None
    name = op_name(node)
    if name == "gelu":
        return "tanh" if node.kwargs.get("approximate") == "tanh" else "erf"
    if name == "div":
        divisor = node.args[1]
        return "div" if isinstance(divisor, fx.Node) and numel(divisor) == numel(node) else None
    if name == "pow":
        exponent = node.args[1]
        if not isinstance(exponent, int | float) or float(exponent).is_integer():
            return None
        return "sqrt" if float(2 * exponent).is_integer() else "log"
    return _KINDS.get(name)


def _evaluated(
    node: fx.Node, kind: str, origins: Mapping[fx.Node, _Origin], need: float
) -> _Evaluated | None:
    argument = node.args[1] if op_name(node) == "div" else node.args[0]
    origin = origins.get(argument) if isinstance(argument, fx.Node) else None
    if origin is None or need == 0.0:
        return None
    reached, is_used = _flow(node)
    return _Evaluated(kind, origin.root, need * origin.values, reached) if is_used else None


def _origins(captured: Captured) -> dict[fx.Node, _Origin]:
    """Return the origin of every value that comes from an input; of several inputs the one with the most."""
    inputs = {record.node for record in captured.placeholders if record.kind == "input"}
    origins: dict[fx.Node, _Origin] = {}
    for node in captured.graph.nodes:
        value = node.meta.get("val")
        if node.name in inputs and isinstance(value, torch.Tensor) and value.is_floating_point():
            origins[node] = _Origin(node, stored_elements(value))
        elif node.op == "call_function" and _is_passing(node):
            known = [origins[source] for source in node.all_input_nodes if source in origins]
            if known:
                most = max(known, key=lambda origin: origin.values)
                origins[node] = replace(most, values=min(most.values, numel(node) or most.values))
    return origins


def _is_passing(node: fx.Node) -> bool:
    is_scaled = op_name(node) == "div" and function_of(node) is None
    return is_scaled or op_name(node) in _PASSING | _NORMALISING


def _flow(node: fx.Node) -> tuple[frozenset[fx.Node], bool]:
    """Return what a result flows through, and whether it is used for more than an order or a threshold.

    It is not where it meets another function, which may undo it.
    """
    reached: set[fx.Node] = set()
    waiting, is_used = [node], False
    while waiting:
        for user in waiting.pop().users:
            name = op_name(user)
            if user in reached or name in _BLIND:
                continue
            if name in _PASSING or name == "div":
                reached.add(user)
                waiting.append(user)
            elif function_of(user) is not None:
                return frozenset(reached), False
            else:
                is_used = True
    return frozenset(reached), is_used


def _groups(found: list[_Evaluated]) -> list[list[_Evaluated]]:
    """Put together what has the same root or meets on the way."""
    groups: list[tuple[set[fx.Node], list[_Evaluated]]] = []
    for evaluated in found:
        nodes, members = {evaluated.root, *evaluated.reached}, [evaluated]
        apart = []
        for others, their in groups:
            if nodes & others:
                nodes, members = nodes | others, their + members
            else:
                apart.append((others, their))
        groups = [*apart, (nodes, members)]
    return [members for _, members in groups]
