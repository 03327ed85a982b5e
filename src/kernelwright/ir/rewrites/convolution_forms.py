"""Other ways to carry out a convolution: as a matrix product, untransposed, in channels-last order.

Measured on two AVX-512 cores with torch 2.13. 1x1 windows as a product are 1.0 to 3.5 times faster up to ten
million multiplications, more for up to eight channels and for results of 25 MB and more, and 0.4 to 1.0 times
as fast for most others (`lab/benchmarks/pointwise_convolutions.py`). Transposed convolutions with stride 1
are 1.4 to 2 times faster as plain ones; channels-last 1.1 to 2 times for plain and 1.5 to 4 times for
transposed ones, 2 for plain 3d ones (converting the input included, not the output). Converted back, or
normalised in groups, the result costs what the convolution saves; grouped ones are slower.
"""

import math
import operator
from typing import Any

import torch
from torch import fx

from kernelwright.ir import helpers
from kernelwright.ir.rewrites.cost import bytes_ms, node_ms
from kernelwright.ir.rewrites.editor import Editor
from kernelwright.ir.rewrites.pattern import PatternRewrite, Proposal
from kernelwright.ir.rewrites.reading import VIEW_OPS, args_of, aten, is_call, numel, shape

FEW_CHANNELS, FEW_PRODUCTS, LARGE_BYTES = 8, 10**7, 24 << 20
"""Channels and multiplications up to which, and bytes of a result from which on, a product is ahead."""
COPYING = 2
"""A copy to another layout takes as long as moving its bytes this often."""
LAYOUTS = {4: torch.channels_last, 5: torch.channels_last_3d}


def _as_product(node: fx.Node) -> Proposal | None:
    if not is_call(node, aten.convolution.default) or not _is_plain(node):
        return None
    x, weight, bias, stride, padding, *_, n_groups = args_of(node)
    if n_groups != 1 or any(n != 1 for n in shape(weight)[2:]):
        return None
    if any(s != 1 for s in stride) or any(padding):
        return None
    if not x.meta["val"].is_contiguous():
        return None

    def build(edit: Editor) -> fx.Node:
        batch, channels, *positions = shape(x)
        n_out = shape(node)[1]
        flat = edit.view(x, [batch, channels, math.prod(positions)])
        matrix = edit.view(weight, [1, n_out, channels])
        matrix = edit.call(aten.expand.default, matrix, [batch, n_out, channels])
        result = edit.view(edit.call(aten.bmm.default, matrix, flat), shape(node))
        if bias is None:
            return result
        return edit.call(aten.add.Tensor, result, edit.view(bias, [n_out, *[1] * len(positions)]))

    why = f"{node.name} has a window of one element: a matrix product over channels"
    channels = shape(x)[1]
    is_small = channels <= FEW_CHANNELS or channels * numel(node) <= FEW_PRODUCTS
    is_ahead = is_small or 4 * numel(node) >= LARGE_BYTES
    return Proposal(why, build, (0.2 if is_ahead else -0.5) * node_ms(node))


def _untransposed(node: fx.Node) -> Proposal | None:
    if not is_call(node, aten.convolution.default) or _is_plain(node) or args_of(node)[8] != 1:
        return None
    x, weight, bias, stride, padding, dilation, *_ = args_of(node)
    size = shape(weight)[2:]
    rank = len(size)
    around = [d * (n - 1) - p for n, p, d in zip(size, padding, dilation, strict=True)]
    if any(s != 1 for s in stride) or any(p < 0 for p in around) or any(args_of(node)[7]):
        return None

    def build(edit: Editor) -> fx.Node:
        flipped = edit.call(helpers.flipped_window, weight)
        return edit.call(
            aten.convolution.default, x, flipped, bias, stride, around, dilation, False, [0] * rank, 1
        )

    why = f"{node.name} is transposed with stride 1: a plain convolution with the window flipped"
    return Proposal(why, build, 0.3 * node_ms(node))


def _channels_last(node: fx.Node) -> Proposal | None:
    if not is_call(node, aten.convolution.default):
        return None
    x: Any = args_of(node)[0]
    weight: Any = args_of(node)[1]
    layout = LAYOUTS.get(len(shape(node)))
    if layout is None or x.meta["val"].is_contiguous(memory_format=layout):
        return None
    if shape(node)[1] == 1 or shape(x)[1] == 1:
        return None

    def build(edit: Editor) -> fx.Node:
        last, kernel = (edit.call(aten.clone.default, t, memory_format=layout) for t in (x, weight))
        return edit.call(aten.convolution.default, last, kernel, *args_of(node)[2:])

    why = f"{node.name} runs on channels in the middle: oneDNN is faster with channels last"
    return Proposal(why, build, _saved_ms(node))


def _saved_ms(node: fx.Node) -> float:
    """What the faster convolution saves over the copies to its layout and back."""
    x: Any = args_of(node)[0]
    if args_of(node)[8] != 1:
        return 0.0
    share = (0.4 if len(shape(node)) == 5 else 0.25) if _is_plain(node) else 0.5
    copied = 0 if _follows_convolution(x) else numel(x)
    copied += numel(node) if _leaves_layout(node) else 0
    return share * node_ms(node) - COPYING * bytes_ms(8 * copied)


def _follows_convolution(node: Any) -> bool:
    """Whether a value comes from a convolution through operators that keep its layout."""
    while isinstance(node, fx.Node) and not is_call(node, aten.convolution.default):
        if is_call(node, *VIEW_OPS):
            return False
        computed = (a for a in node.args if isinstance(a, fx.Node) and a.op == "call_function")
        node = next(computed, None)
    return node is not None


def _leaves_layout(node: fx.Node) -> bool:
    """Whether all of a value, pointwise work done, reaches an output, another shape or a group norm."""
    pending, seen = [node], {node}
    while pending:
        for reader in pending.pop().users:
            if reader in seen or is_call(reader, aten.convolution.default):
                continue
            if reader.op == "output" or is_call(reader, *VIEW_OPS, aten.native_group_norm.default):
                return True
            seen.add(reader)
            if is_call(reader, operator.getitem) or 2 * _written(reader) > numel(node):
                pending.append(reader)
    return False


def _written(node: fx.Node) -> int:
    value = node.meta["val"]
    return numel(node) if isinstance(value, torch.Tensor) else int(value[0].numel())


def _is_plain(node: fx.Node) -> bool:
    return not args_of(node)[6]


PRODUCT = PatternRewrite("convolution_as_matmul", _as_product)
UNTRANSPOSED = PatternRewrite("untransposed_convolution", _untransposed)
CHANNELS_LAST = PatternRewrite("channels_last", _channels_last)
