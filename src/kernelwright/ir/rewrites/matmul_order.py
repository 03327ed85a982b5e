"""A chain of matrix products in the cheaper order."""

from typing import Any

from torch import fx

from kernelwright.ir.rewrites.cost import flops_ms
from kernelwright.ir.rewrites.editor import Editor
from kernelwright.ir.rewrites.pattern import PatternRewrite, Proposal
from kernelwright.ir.rewrites.reading import args_of, aten, is_call, shape, used_once


def _propose(node: fx.Node) -> Proposal | None:
    if not is_call(node, aten.mm.default, aten.bmm.default):
        return None
    for inner in args_of(node):
        if is_call(inner, node.target) and used_once(inner):
            found = _other_order(node, inner, inner_is_left=inner is args_of(node)[0])
            if found is not None:
                return found
    return None


def _other_order(node: fx.Node, inner: fx.Node, *, inner_is_left: bool) -> Proposal | None:
    one, two = args_of(inner)
    factors: tuple[Any, Any, Any] = (
        (one, two, args_of(node)[1]) if inner_is_left else (args_of(node)[0], one, two)
    )
    a, b, c = factors
    rows, middle, deep, columns = shape(a)[-2], shape(b)[-2], shape(b)[-1], shape(c)[-1]
    left_first = rows * middle * deep + rows * deep * columns
    right_first = middle * deep * columns + rows * middle * columns
    now, then = (left_first, right_first) if inner_is_left else (right_first, left_first)
    if then > 0.8 * now:
        return None
    target: Any = node.target

    def build(edit: Editor) -> fx.Node:
        if inner_is_left:
            return edit.call(target, a, edit.call(target, b, c))
        return edit.call(target, edit.call(target, a, b), c)

    batch = shape(node)[0] if len(shape(node)) == 3 else 1
    why = f"{node.name} after {inner.name}: the other order needs {then / now:.0%} of the multiplications"
    return Proposal(why, build, flops_ms(2 * batch * (now - then)))


REWRITE = PatternRewrite("matmul_order", _propose)
