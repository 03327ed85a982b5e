"""The bias of a matrix product moves to the pointwise work that follows.

The BLAS path of ``addmm`` first fills the output with the bias and then reads it back; a region that
follows the product adds it for nothing.
"""

from typing import Any

from torch import fx

from kernelwright.ir.rewrites.cost import bytes_ms, node_ms
from kernelwright.ir.rewrites.editor import Editor
from kernelwright.ir.rewrites.pattern import PatternRewrite, Proposal
from kernelwright.ir.rewrites.reading import args_of, aten, is_call, numel, shape


def _propose(node: fx.Node) -> Proposal | None:
    if not is_call(node, aten.addmm.default) or node.kwargs:
        return None
    bias: Any = args_of(node)[0]
    follows = all(u.op == "call_function" for u in node.users)
    filling = bytes_ms(numel(node) * node.meta["val"].element_size())
    if shape(bias) != (shape(node)[1],) or not follows or filling < 0.02 * node_ms(node):
        return None

    def build(edit: Editor) -> fx.Node:
        product = edit.call(aten.mm.default, args_of(node)[1], args_of(node)[2])
        return edit.call(aten.add.Tensor, product, bias)

    why = f"{node.name} writes {list(shape(node))} once more to start from the bias; what follows can add it"
    return Proposal(why, build, filling)


REWRITE = PatternRewrite("split_bias", _propose)
