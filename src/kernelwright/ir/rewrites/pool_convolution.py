"""An average pool after a convolution becomes part of the convolution's window, where that is cheaper."""

import math
from typing import Any

from torch import fx

from kernelwright.ir import helpers
from kernelwright.ir.rewrites.cost import flops_ms, node_flops, node_ms
from kernelwright.ir.rewrites.editor import Editor
from kernelwright.ir.rewrites.merge_pools import Pool, read_pool
from kernelwright.ir.rewrites.pattern import PatternRewrite, Proposal
from kernelwright.ir.rewrites.reading import args_of, aten, is_call, shape, target_of, used_once


def _propose(node: fx.Node) -> Proposal | None:
    pool = read_pool(node)
    if pool is None or pool.is_max:
        return None
    conv = pool.source
    if not is_call(conv, aten.convolution.default) or not used_once(conv):
        return None
    if args_of(conv)[8] != 1 or any(d != 1 for d in args_of(conv)[5]):
        return None
    transposed = bool(args_of(conv)[6])
    if not transposed and _is_pointwise(conv):
        return _pool_first(node, conv)
    window = _transposed_window(conv, pool) if transposed else _window(conv, pool)
    if window is None:
        return None
    channels = shape(args_of(conv)[0])[1]
    flops = 2 * math.prod(shape(node)) * channels * math.prod(window)
    saved = node_ms(conv) + node_ms(node) - flops_ms(flops)
    if flops > 0.8 * node_flops(conv) or saved <= 0:
        return None
    build = _build_plain if transposed else _build_larger
    why = (
        f"the pool after {conv.name} fits into its window: {flops / 1e9:.2g} GFLOP instead of "
        f"{node_flops(conv) / 1e9:.2g}, and the unpooled output is never written"
    )
    return Proposal(why, lambda edit: build(edit, conv, pool, node), saved)


def _is_pointwise(conv: fx.Node) -> bool:
    _, weight, _, stride, padding, *_ = args_of(conv)
    return all(n == 1 for n in shape(weight)[2:]) and all(s == 1 for s in stride) and not any(padding)


def _pool_first(node: fx.Node, conv: fx.Node) -> Proposal:
    """A window of one element commutes with the mean over positions."""

    def build(edit: Editor) -> fx.Node:
        x, *rest = args_of(conv)
        pooled = edit.call(target_of(node), x, *args_of(node)[1:])
        return edit.call(aten.convolution.default, pooled, *rest)

    share = math.prod(shape(node)[2:]) / math.prod(shape(conv)[2:])
    why = f"{conv.name} has a window of one element: pooling first leaves {share:.0%} of its positions"
    return Proposal(why, build, (1 - share) * node_ms(conv))


def _window(conv: fx.Node, pool: Pool) -> list[int]:
    """Sizes of the window that covers a pool of windows."""
    sizes = shape(args_of(conv)[1])[2:]
    strides: Any = args_of(conv)[3]
    return [n + (k - 1) * s for n, k, s in zip(sizes, pool.kernel, strides, strict=True)]


def _build_larger(edit: Editor, conv: fx.Node, pool: Pool, node: fx.Node) -> fx.Node:
    x, weight, bias, stride, padding, dilation, transposed, extra, n_groups = args_of(conv)
    larger = edit.call(helpers.pooled_window, weight, pool.kernel, tuple(stride))
    steps = [s * p for s, p in zip(stride, pool.stride, strict=True)]
    out = edit.call(
        aten.convolution.default, x, larger, bias, steps, padding, dilation, transposed, extra, n_groups
    )
    assert shape(out) == shape(node), "windows of a pool of windows count alike"
    return out


def _distances(conv: fx.Node) -> list[tuple[int, int]]:
    """Least and greatest pooled position minus input position per dimension, as in helpers."""
    sizes = shape(args_of(conv)[1])[2:]
    strides: Any = args_of(conv)[3]
    paddings: Any = args_of(conv)[4]
    return [(-((s - 1 + p) // s), (n - 1 - p) // s) for n, s, p in zip(sizes, strides, paddings, strict=True)]


def _transposed_window(conv: fx.Node, pool: Pool) -> list[int] | None:
    """Taps per dimension when the pool undoes the stride; None when it does not."""
    strides: Any = args_of(conv)[3]
    if tuple(strides) != pool.kernel or pool.stride != pool.kernel:
        return None
    taps = [last - first + 1 for first, last in _distances(conv)]
    return taps if all(t > 0 for t in taps) else None


def _build_plain(edit: Editor, conv: fx.Node, pool: Pool, node: fx.Node) -> fx.Node:
    """Pooled position q reads inputs q - last ... q - first: pad or crop the input to those."""
    x, weight, bias, stride, padding, *_ = args_of(conv)
    taps = edit.call(helpers.unstrided_window, weight, tuple(stride), tuple(padding))
    source: Any = x
    sizes, pads = shape(source), []
    for dim, (first, last) in enumerate(_distances(conv), start=2):
        before = last
        after = shape(node)[dim] - 1 - first - (sizes[dim] - 1)
        pads.append((before, after))
    if all(b == a >= 0 for b, a in pads):
        padding = [b for b, _ in pads]
    else:
        flat = [side for pair in reversed(pads) for side in pair]
        source = edit.call(aten.constant_pad_nd.default, source, flat, 0.0)
        padding = [0] * len(pads)
    ones, zeros = [1] * len(pads), [0] * len(pads)
    return edit.call(aten.convolution.default, source, taps, bias, ones, padding, ones, False, zeros, 1)


REWRITE = PatternRewrite("pool_convolution", _propose)
