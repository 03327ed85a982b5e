"""An average pool over the out-features of a linear layer pools the weight instead."""

from typing import Any

from torch import fx

from kernelwright.ir.rewrites.cost import node_ms
from kernelwright.ir.rewrites.editor import Editor
from kernelwright.ir.rewrites.merge_pools import read_pool
from kernelwright.ir.rewrites.pattern import PatternRewrite, Proposal
from kernelwright.ir.rewrites.reading import args_of, aten, is_call, shape, skip_views, used_once


def _propose(node: fx.Node) -> Proposal | None:
    pool = read_pool(node)
    if pool is None or pool.is_max or pool.stride != pool.kernel:
        return None
    width = pool.kernel[-1]
    product = skip_views(pool.source)
    if any(k != 1 for k in pool.kernel[:-1]) or width == 1 or not _is_chain(pool.source, product):
        return None
    if not is_call(product, aten.mm.default, aten.addmm.default) or product.kwargs:
        return None
    if shape(product)[1] != shape(pool.source)[-1]:
        return None
    groups = shape(product)[1] // width

    def pooled(edit: Editor, operand: Any, dim: int) -> fx.Node:
        if shape(operand)[dim] != groups * width:
            operand = edit.call(aten.slice.Tensor, operand, dim, 0, groups * width)
        size = [*shape(operand)[:dim], groups, width]
        return edit.call(aten.mean.dim, edit.view(operand, size), [dim + 1])

    def build(edit: Editor) -> fx.Node:
        *bias, left, right = args_of(product)
        columns = pooled(edit, right, 1)
        biases = [pooled(edit, b, 0) if len(shape(b)) == 1 else b for b in bias]
        return edit.view(edit.call(product.target, *biases, left, columns), shape(node))

    if len(args_of(product)) == 3 and shape(args_of(product)[0]) != (shape(product)[1],):
        return None
    why = f"averaging {width} out-features of {product.name} needs a weight with {groups} columns only"
    return Proposal(why, build, (1 - 1 / width) * node_ms(product))


def _is_chain(last: fx.Node, first: fx.Node) -> bool:
    """Whether each node from ``first`` to ``last`` has one reader."""
    while last is not first:
        if not used_once(last):
            return False
        last = args_of(last)[0]
    return used_once(first)


REWRITE = PatternRewrite("pool_linear", _propose)
