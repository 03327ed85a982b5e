"""A rough cost model: enough to order the places where a rewrite applies."""

import math
import operator
from typing import Any

import torch
from torch import fx

from kernelwright.ir.rewrites.reading import VIEW_OPS, args_of, aten, is_call, is_tensor, numel, shape

GFLOPS = 150.0
"""Library matrix products and convolutions of a two-core machine; only ratios matter."""
GBPS = 15.0


def flops_ms(flops: float) -> float:
    """Milliseconds for floating-point operations in a library kernel."""
    return flops / GFLOPS / 1e6


def bytes_ms(count: float) -> float:
    """Milliseconds to move bytes."""
    return count / GBPS / 1e6


def node_ms(node: fx.Node) -> float:
    """Guess how long a node takes: arithmetic of anchors, traffic of everything else."""
    if node.op != "call_function" or is_call(node, operator.getitem, *VIEW_OPS):
        return 0.0
    return max(flops_ms(node_flops(node)), bytes_ms(_traffic(node)))


def graph_ms(graph: fx.Graph) -> float:
    """Guess how long a graph takes when every node runs by itself."""
    return sum(node_ms(node) for node in graph.nodes)


def node_flops(node: fx.Node) -> int:
    """Operations of a matrix product, convolution or attention; 0 for everything else."""
    if is_call(node, aten.mm.default, aten.bmm.default):
        return 2 * numel(node) * shape(args_of(node)[0])[-1]
    if is_call(node, aten.addmm.default, aten.baddbmm.default):
        return 2 * numel(node) * shape(args_of(node)[1])[-1]
    if is_call(node, aten.convolution.default):
        return _convolution_flops(node)
    if is_call(node, aten.scaled_dot_product_attention.default):
        query: Any = args_of(node)[0]
        key: Any = args_of(node)[1]
        return 4 * numel(query) * shape(key)[-2]
    return 0


def _convolution_flops(node: fx.Node) -> int:
    x: Any = args_of(node)[0]
    weight: Any = args_of(node)[1]
    taps = math.prod(shape(weight)[1:])  # channels seen by one output (one input if transposed), window
    return 2 * numel(x if args_of(node)[6] else node) * taps


def _traffic(node: fx.Node) -> int:
    tensors = [n for n in node.all_input_nodes if is_tensor(n)]
    value = node.meta.get("val")
    own = value if isinstance(value, (tuple, list)) else [value]
    written = [v for v in own if isinstance(v, torch.Tensor)]
    read = sum(numel(n) * int(n.meta["val"].element_size()) for n in tensors)
    return read + sum(v.numel() * v.element_size() for v in written)
