"""A matrix product with a diagonal matrix scales rows or columns."""

from typing import Any

from torch import fx

from kernelwright.ir.rewrites.cost import node_ms
from kernelwright.ir.rewrites.editor import Editor
from kernelwright.ir.rewrites.matrices import diagonal_row
from kernelwright.ir.rewrites.pattern import PatternRewrite, Proposal
from kernelwright.ir.rewrites.reading import args_of, aten, is_call, shape


def _propose(node: fx.Node) -> Proposal | None:
    if not is_call(node, aten.mm.default, aten.bmm.default):
        return None
    left: Any
    right: Any
    left, right = args_of(node)
    row = diagonal_row(left)
    other, side = right, "rows"
    if row is None:
        row = diagonal_row(right)
        other, side = left, "columns"
    if row is None:
        return None

    def build(edit: Editor) -> fx.Node:
        scale = row
        if isinstance(row, fx.Node) and side == "rows":
            last = len(shape(row)) - 1
            scale = edit.call(aten.permute.default, row, [*range(last - 1), last, last - 1])
        return edit.call(aten.mul.Tensor, other, scale)

    why = f"one operand of {node.name} {list(shape(node))} is diagonal: scaling {side} replaces the product"
    return Proposal(why, build, 0.95 * node_ms(node))


REWRITE = PatternRewrite("diagonal_matmul", _propose)
