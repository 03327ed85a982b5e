"""The mean of a convolution's output over positions, channels or the batch, without the convolution.

Tap k of a window multiplies the same weight at every position, so the sum over positions along one
dimension needs only, for each tap, the sum of the inputs that the tap meets. Padding adds zeros, so
these sums run over slices of the input, and the result is exact up to rounding.
"""

import math
from collections.abc import Callable
from typing import Any

from torch import fx

from kernelwright.ir import helpers
from kernelwright.ir.rewrites.editor import Editor
from kernelwright.ir.rewrites.reading import args_of, aten, shape

Slice = tuple[int, int, int]


def convolution_mean(
    node: fx.Node, dims: frozenset[int], source: Callable[[Editor], fx.Node]
) -> tuple[Callable[[Editor], fx.Node], int] | None:
    """Return how to build the mean over ``dims`` (kept as size 1) and the operations of the products left.

    ``source`` builds the input, reduced over the batch already when 0 is among the dims. Only for
    convolutions of one group.
    """
    spatial = sorted(d for d in dims if d >= 2)
    flops = _flops_left(node, dims)
    rank = len(shape(node))
    if spatial and rank - 2 - len(spatial) not in (0, 1, 2):
        return None

    def build(edit: Editor) -> fx.Node:
        x, weight, bias = source(edit), args_of(node)[1], args_of(node)[2]
        if 1 in dims:
            weight = edit.call(aten.mean.dim, weight, [1 if args_of(node)[6] else 0], True)
            bias = None if bias is None else edit.call(aten.mean.dim, bias, [0], True)
        if not spatial:
            return edit.call(aten.convolution.default, x, weight, bias, *args_of(node)[3:])
        result = _reduced(edit, node, x, weight, bias, spatial)
        size = [1 if d in dims else n for d, n in enumerate(shape(node))]
        return edit.view(result, size)

    return build, flops


def tap_slices(node: fx.Node, dim: int) -> tuple[Slice, ...]:
    """For each tap along one dimension of the output: the inputs it meets while it stays inside."""
    _, weight, _, strides, paddings, dilations, transposed, *_ = args_of(node)
    size_in, size_out = shape(args_of(node)[0])[dim], shape(node)[dim]
    stride, padding, dilation = (_at(v, dim - 2) for v in (strides, paddings, dilations))
    slices: list[Slice] = []
    for tap in range(shape(weight)[dim]):
        shift = tap * dilation - padding
        if transposed:  # input i meets output i * stride + shift
            first, last = max(0, -(shift // stride)), (size_out - 1 - shift) // stride
            slices.append(_slice(first, min(last, size_in - 1), 1, 0))
        else:  # output o meets input o * stride + shift
            first, last = max(0, -(shift // stride)), (size_in - 1 - shift) // stride
            slices.append(_slice(first, min(last, size_out - 1), stride, shift))
    return tuple(slices)


def _slice(first: int, last: int, step: int, shift: int) -> Slice:
    if last < first:
        return (0, 0, step)
    return (first * step + shift, last * step + shift + 1, step)


def _at(values: Any, index: int) -> int:
    return int(values[index] if len(values) > index else values[0])


def _reduced(
    edit: Editor, node: fx.Node, x: fx.Node, weight: fx.Node, bias: fx.Node | None, spatial: list[int]
) -> fx.Node:
    """Treat the taps of reduced dims as input channels of what is left: a convolution or a product."""
    for dim in reversed(spatial):
        x = edit.call(helpers.tap_sums, x, dim, tap_slices(node, dim))
    positions = math.prod(shape(node)[d] for d in spatial)
    weight = edit.call(aten.mul.Tensor, weight, 1.0 / positions)
    rest = [d for d in range(2, len(shape(node))) if d not in spatial]
    transposed = bool(args_of(node)[6])
    x = _merge_taps(edit, x, [0, 1, *spatial], rest, 1)
    order = [0, *spatial, 1] if transposed else [0, 1, *spatial]
    weight = _merge_taps(edit, weight, order, rest, 0 if transposed else 1)
    if not rest:
        columns = weight if transposed else edit.call(aten.permute.default, weight, [1, 0])
        if bias is None:
            return edit.call(aten.mm.default, x, columns)
        return edit.call(aten.addmm.default, bias, x, columns)
    kept = [
        [_at(v, d - 2) for d in rest]
        for v in (args_of(node)[3], args_of(node)[4], args_of(node)[5], args_of(node)[7])
    ]
    stride, padding, dilation, extra = kept
    return edit.call(
        aten.convolution.default, x, weight, bias, stride, padding, dilation, transposed, extra, 1
    )


def _merge_taps(edit: Editor, tensor: fx.Node, front: list[int], rest: list[int], first: int) -> fx.Node:
    """Permute to ``front + rest`` and merge the input channels with the taps that follow them."""
    n_merged = len(front) - 1
    order = front + rest
    if order != sorted(order):
        tensor = edit.call(aten.permute.default, tensor, order)
    sizes = list(shape(tensor))
    merged = math.prod(sizes[first : first + n_merged])
    return edit.view(tensor, [*sizes[:first], merged, *sizes[first + n_merged :]])


def _flops_left(node: fx.Node, dims: frozenset[int]) -> int:
    """Operations of the product or convolution that remains."""
    x: Any = args_of(node)[0]
    weight: Any = args_of(node)[1]
    window = shape(weight)
    transposed = bool(args_of(node)[6])
    grid = shape(x) if transposed else shape(node)
    positions = math.prod(n for d, n in enumerate(grid) if d >= 2 and d not in dims)
    batch = 1 if 0 in dims else shape(node)[0]
    channels_out = 1 if 1 in dims else shape(node)[1]
    return 2 * batch * channels_out * shape(x)[1] * positions * math.prod(window[2:])
