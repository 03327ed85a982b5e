"""Attention that a model spells out becomes one call of the library's fused kernel.

softmax(q k^T * s + mask) v never writes the matrix of scores there. Rows that a mask hides all keys from stay
NaN, as the spelled-out softmax has them.
"""

import math
from typing import Any, NamedTuple

import torch
from torch import fx

from kernelwright.ir.rewrites.affine import read_step
from kernelwright.ir.rewrites.bounds import bounds
from kernelwright.ir.rewrites.cost import node_ms
from kernelwright.ir.rewrites.editor import Editor
from kernelwright.ir.rewrites.pattern import PatternRewrite, Proposal
from kernelwright.ir.rewrites.reading import (
    args_of,
    aten,
    constant_value,
    is_call,
    is_float,
    is_tensor,
    scalar_value,
    shape,
    used_once,
)

SAME_VALUES = (aten.view.default, aten.expand.default, aten.clone.default, aten.alias.default)


class Scores(NamedTuple):
    """What goes into the softmax."""

    product: fx.Node
    scale: float
    hidden: fx.Node | None
    """Where this is true the score is minus infinity."""
    added: fx.Node | None
    """A mask that is added after scaling."""


def _propose(node: fx.Node) -> Proposal | None:
    if not is_call(node, aten.bmm.default):
        return None
    weights = _back(args_of(node)[0])
    if not is_call(weights, aten._softmax.default):
        return None
    size = shape(weights)
    if args_of(weights)[1] % len(size) != len(size) - 1 or len(size) not in (3, 4):
        return None
    scores = _scores(args_of(weights)[0])
    if scores is None or shape(scores.product)[-2:] != size[-2:] or shape(args_of(node)[0])[-2:] != size[-2:]:
        return None
    saved = 2.5 * node_ms(weights)
    why = f"{scores.product.name}, {weights.name} and {node.name} are attention over {size[-1]} keys"
    return Proposal(why, lambda edit: _build(edit, node, scores, size), saved)


def _back(node: Any) -> Any:
    """Follow reshapes with one reader each."""
    while is_call(node, *SAME_VALUES) and used_once(node):
        node = args_of(node)[0]
    return node if isinstance(node, fx.Node) and used_once(node) else None


def _scores(node: Any) -> Scores | None:
    scale, hidden, added = 1.0, None, None
    while True:
        node = _back(node)
        if is_call(node, aten.bmm.default):
            return Scores(node, scale, hidden, added)
        if is_call(node, aten.where.self):
            if hidden is not None or added is not None or scale != 1.0:
                return None
            if not _is_minus_infinity(args_of(node)[1]):
                return None
            hidden, node = args_of(node)[0], args_of(node)[2]
            continue
        step = read_step(node)
        if step is None:
            return None
        value = scalar_value(step.other)
        if value is not None and step.op in (aten.mul.Tensor, aten.div.Tensor) and value > 0:
            scale *= value if step.op is aten.mul.Tensor else 1.0 / value
        elif is_float(step.other) and step.op is aten.add.Tensor and added is hidden is None and scale == 1.0:
            added = step.other
        else:
            return None
        node = step.source


def _is_minus_infinity(node: Any) -> bool:
    value = constant_value(node) if is_tensor(node) else None
    return value is not None and value.numel() == 1 and float(value) == -math.inf


def _build(edit: Editor, node: fx.Node, scores: Scores, size: tuple[int, ...]) -> fx.Node:
    query, keys = args_of(scores.product)
    values: Any = args_of(node)[1]
    keys = edit.call(aten.permute.default, keys, [0, 2, 1])
    batch, heads = size[:-2] if len(size) == 4 else (1, size[0])
    four = [_heads(edit, t, batch, heads) for t in (query, keys, values)]
    mask, causal = _mask(edit, scores)
    result = edit.call(
        aten.scaled_dot_product_attention.default, *four, mask, 0.0, causal, scale=scores.scale
    )
    unseen = _rows_without_keys(edit, scores)
    if unseen is not None:
        nan = edit.call(aten.full_like.default, result, math.nan, pin_memory=False)
        result = edit.call(aten.where.self, unseen, nan, result)
    return edit.view(result, shape(node))


def _rows_without_keys(edit: Editor, scores: Scores) -> fx.Node | None:
    """Return where a row sees no key, None where that cannot be.

    The softmax that is spelled out divides zero by zero there, and the library's kernel gives zero.
    """
    if scores.hidden is not None:
        known = constant_value(scores.hidden)
        if known is not None and not known.bool().all(-1).any():
            return None
        return edit.call(aten.all.dim, scores.hidden, -1, True)
    if scores.added is None or bounds(scores.added).low > -math.inf:
        return None
    known = constant_value(scores.added)
    if known is not None and not (known == -math.inf).all(-1).any():
        return None
    best = edit.call(aten.amax.default, scores.added, [-1], True)
    return edit.call(aten.eq.Scalar, best, -math.inf)


def _heads(edit: Editor, tensor: Any, batch: int, heads: int) -> fx.Node:
    _, rows, features = shape(tensor)
    return edit.view(tensor, [batch, heads, rows, features])


def _mask(edit: Editor, scores: Scores) -> tuple[fx.Node | None, bool]:
    if scores.added is not None:
        return scores.added, False
    if scores.hidden is None:
        return None, False
    known = constant_value(scores.hidden)
    if known is not None and _is_causal(known.bool()):
        return None, True
    return edit.call(aten.logical_not.default, scores.hidden), False


def _is_causal(hidden: torch.Tensor) -> bool:
    if hidden.dim() < 2 or hidden.shape[-1] != hidden.shape[-2] or hidden.numel() != hidden.shape[-1] ** 2:
        return False
    matrix = hidden.reshape(hidden.shape[-2:])
    return torch.equal(matrix, torch.ones_like(matrix).triu(1))


REWRITE = PatternRewrite("fused_attention", _propose)
