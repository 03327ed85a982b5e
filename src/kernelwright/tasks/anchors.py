"""Operations that products cannot do without, also after algebra.

A matrix product, convolution or attention ("anchor") is counted where its own values are needed: on some
path they meet a nonlinear operator or an output. Where they only meet a sum or another product, the
two can be exchanged or multiplied out beforehand, and nothing is counted for the first one.
"""

import math
from dataclasses import dataclass

import torch
from torch import fx

from kernelwright.tasks.aten import MATMULS, VIEWS, Constants, numel, op_name, source_of
from kernelwright.tasks.windows import convolution_axes

ANCHORS = frozenset((*MATMULS, "convolution", "scaled_dot_product_attention"))

_LINEAR = VIEWS | frozenset(
    (
        "add",
        "sub",
        "rsub",
        "mul",
        "neg",
        "clone",
        "_to_copy",
        "cat",
        "slice",
        "select",
        "split",
        "split_with_sizes",
        "unbind",
        "getitem",
        "flip",
        "roll",
        "constant_pad_nd",
        "cumsum",
        "where",
        "index",
        "gather",
        "index_select",
        "repeat",
        "native_layer_norm",
        "native_group_norm",
        "native_batch_norm",
        "_native_batch_norm_legit",
        "_native_batch_norm_legit_functional",
        "_native_batch_norm_legit_no_training",
    )
)
"""Operators that a product may be moved across; norms count because sums over them still collapse."""
_SUMS = frozenset(
    (
        "sum",
        "mean",
        "var",
        "var_mean",
        "linalg_vector_norm",
        "avg_pool1d",
        "avg_pool2d",
        "avg_pool3d",
        "_adaptive_avg_pool2d",
        "_adaptive_avg_pool3d",
    )
)
_TRANSPOSING = VIEWS | {"clone", "_to_copy"}


@dataclass(frozen=True)
class AnchorWork:
    """What one anchor must do at least."""

    node: fx.Node
    flops: float
    share: float
    """Share of the operation's textbook cost that no rewriting avoids; 0.0 when it can vanish."""


def count_anchors(
    graph: fx.Graph, needs: dict[fx.Node, float], free: set[fx.Node], constants: Constants
) -> tuple[AnchorWork, ...]:
    """Count every anchor of the graph once; equal nodes count as one.

    Args:
        graph: The captured graph.
        needs: Needed share per node, from ``needed_shares``.
        free: Nodes that no input reaches, hence computed once per model rather than per call.
        constants: Evaluator of constant masks.
    """
    counted: list[AnchorWork] = []
    canonical: dict[object, fx.Node] = {}
    same: dict[fx.Node, fx.Node] = {}
    for node in graph.nodes:
        if node.op != "call_function":
            continue
        key = (node.target, str(fx.map_arg((node.args, node.kwargs), lambda n: same.get(n, n))))
        first = canonical.setdefault(key, node)
        same[node] = first
        if op_name(node) not in ANCHORS or first is not node or node in free:
            continue
        is_kept = (
            needs[node] > 0.0 and _values_are_needed(node) and not _has_constant_operand(node, constants)
        )
        share = needs[node] * _structure(node, constants) * _shortcut(node) if is_kept else 0.0
        counted.append(AnchorWork(node=node, flops=share * textbook_flops(node), share=share))
    return tuple(counted)


def operands(node: fx.Node) -> tuple[fx.Node, ...]:
    """Return the tensors that an anchor multiplies, without bias, addend or mask."""
    name = op_name(node)
    positions = MATMULS.get(name, (0, 1, 2) if name == "scaled_dot_product_attention" else (0, 1))
    return tuple(node.args[i] for i in positions)  # type: ignore[misc]  # tensors by the schema


def textbook_flops(node: fx.Node) -> float:
    """Return two operations per product that meets no padding, less what fast convolution saves."""
    if op_name(node) == "convolution":
        return _convolution_flops(node)
    if op_name(node) == "scaled_dot_product_attention":
        return _attention_flops(node)
    left, _ = operands(node)
    return 2.0 * numel(node) * int(left.meta["val"].shape[-1])


def _inner_size(node: fx.Node) -> int:
    """Number of products that make up one element of the result."""
    if op_name(node) == "convolution":
        weight = node.args[1].meta["val"]  # type: ignore[union-attr]
        channels = weight.shape[0] // int(node.args[8]) if node.args[6] else weight.shape[1]  # type: ignore[arg-type]
        return int(channels) * int(math.prod(weight.shape[2:]))
    return int(operands(node)[0].meta["val"].shape[-1])


def _convolution_flops(node: fx.Node) -> float:
    weight = node.args[1].meta["val"]  # type: ignore[union-attr]
    batch = int(node.meta["val"].shape[0])
    channel_pairs = int(weight.shape[0]) * int(weight.shape[1])
    axes = convolution_axes(node)
    taps = math.prod(axis.taps()[0] for axis in axes)
    return 2.0 * batch * channel_pairs * taps / math.prod(axis.fast_algorithm_gain() for axis in axes)


def _attention_flops(node: fx.Node) -> float:
    query, key, value = (operand.meta["val"].shape for operand in operands(node))
    is_causal = bool(node.args[5]) if len(node.args) > 5 else bool(node.kwargs.get("is_causal", False))
    pairs = int(math.prod(query[:-1])) * int(key[-2])
    return 2.0 * pairs * (int(query[-1]) + int(value[-1])) * (0.5 if is_causal else 1.0)


def _values_are_needed(anchor: fx.Node) -> bool:
    seen: set[fx.Node] = set()
    waiting = [anchor]
    while waiting:
        node = waiting.pop()
        for user in node.users:
            if user.op == "output":
                return True
            if user in seen or _collapses(user, node):
                continue
            if not _is_linear(user, node):
                return True
            seen.add(user)
            waiting.append(user)
    return False


def _collapses(user: fx.Node, node: fx.Node) -> bool:
    name = op_name(user)
    if name in ANCHORS:
        return node in operands(user)
    return name in _SUMS and _first_numel(user) < numel(node)


def _first_numel(node: fx.Node) -> int:
    value = node.meta.get("val")
    first = value[0] if isinstance(value, tuple | list) else value
    return int(first.numel()) if isinstance(first, torch.Tensor) else 0


def _is_linear(user: fx.Node, node: fx.Node) -> bool:
    name = op_name(user)
    if name == "div":
        return user.args[1] is not node
    if name == "pow":
        return bool(user.args[1] == 2)
    return name in _LINEAR or name in _SUMS or name in ANCHORS


def _shortcut(anchor: fx.Node) -> float:
    """Share that is left when the anchors linearly before this one have fewer products per element."""
    inner = _inner_size(anchor)
    seen: set[fx.Node] = set()
    waiting = list(operands(anchor))
    while waiting:
        node = waiting.pop()
        if node in seen or node.op != "call_function":
            continue
        seen.add(node)
        if op_name(node) in ANCHORS:
            inner = min(inner, _inner_size(node))
        if op_name(node) in ANCHORS or op_name(node) in _LINEAR or op_name(node) in _SUMS | {"div", "pow"}:
            waiting.extend(node.all_input_nodes)
    return inner / max(_inner_size(anchor), 1)


def _has_constant_operand(anchor: fx.Node, constants: Constants) -> bool:
    return any(constants.value(operand) is not None for operand in operands(anchor))


def _structure(anchor: fx.Node, constants: Constants) -> float:
    """Share left by triangular, diagonal and symmetric structure that the graph itself shows.

    What a mask drops of the result is not in it: ``needs`` says that.
    """
    if op_name(anchor) not in MATMULS:
        return 1.0
    left, right = operands(anchor)
    share = _density(left, constants) * _density(right, constants)
    share = min(
        share, _kept_by_mask(anchor, constants) ** 2
    )  # the operands may be structured like the result
    is_symmetric = source_of(left, _TRANSPOSING) is source_of(right, _TRANSPOSING)
    return share * 0.5 if is_symmetric else share


def _density(operand: fx.Node, constants: Constants) -> float:
    node = source_of(operand, _TRANSPOSING)
    if op_name(node) == "diag_embed":
        return 1.0 / max(int(node.meta["val"].shape[-1]), 1)
    if op_name(node) != "where":
        return 1.0
    share = constants.true_share(node.args[0])  # type: ignore[arg-type]
    if share is None:
        return 1.0 if constants.value(node.args[0]) is None else 0.0  # type: ignore[arg-type]
    return (
        share
        if _is_zero(node.args[2], constants)
        else 1.0 - share
        if _is_zero(node.args[1], constants)
        else 1.0
    )


def _is_zero(argument: object, constants: Constants) -> bool:
    value = constants.value(argument) if isinstance(argument, fx.Node) else argument
    return value is not None and not bool(torch.as_tensor(value).any())


def _kept_by_mask(anchor: fx.Node, constants: Constants) -> float:
    node = anchor
    while len(node.users) == 1:
        user = next(iter(node.users))
        if op_name(user) == "where" and user.args[0] is not node:
            share = constants.true_share(user.args[0])  # type: ignore[arg-type]
            return 1.0 if share is None else share if user.args[1] is node else 1.0 - share
        if op_name(user) not in VIEWS | {"mul", "div"}:
            return 1.0
        node = user
    return 1.0
