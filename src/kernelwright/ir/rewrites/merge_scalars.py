"""Scalings and shifts by numbers in a row are one scaling and one shift."""

from typing import Any

from torch import fx

from kernelwright.ir.rewrites.affine import read_scalar_affine
from kernelwright.ir.rewrites.cost import node_ms
from kernelwright.ir.rewrites.editor import Editor
from kernelwright.ir.rewrites.pattern import PatternRewrite, Proposal
from kernelwright.ir.rewrites.reading import aten, is_float, used_once

MOST_SCALED = 2.0**40
"""Larger factors may overflow or vanish merged where they do not one by one, or the reverse; ours."""
MOST_SHIFTED = 1024.0
"""Adding a larger number rounds, and may be meant to: x + 1.5 * 2^23 - 1.5 * 2^23 is round(x); ours."""


def _propose(node: fx.Node) -> Proposal | None:
    """Propose at the last step of a chain, for the whole chain."""
    if any(read_scalar_affine(u) is not None for u in node.users) and used_once(node):
        return None
    scale, shift, length = 1.0, 0.0, 0
    source: Any = node
    while (step := read_scalar_affine(source)) is not None and is_float(source):
        if length and not _one_reader(source):
            break
        source, a, b = step
        if not all(1 / MOST_SCALED <= abs(factor) <= MOST_SCALED for factor in (a, scale * a)):
            return None
        if abs(scale * b) > MOST_SHIFTED:
            return None
        shift += scale * b
        scale *= a
        length += 1
    needed = (scale != 1.0) + (shift != 0.0)
    if length <= needed:
        return None

    def build(edit: Editor) -> fx.Node:
        result = source if scale == 1.0 else edit.call(aten.mul.Tensor, source, scale)
        return result if shift == 0.0 else edit.call(aten.add.Tensor, result, shift)

    why = f"{length} steps up to {node.name} are x * {scale:g} + {shift:g}"
    return Proposal(why, build, (length - needed) * node_ms(node))


def _one_reader(node: fx.Node) -> bool:
    return len(node.users) == 1


REWRITE = PatternRewrite("merge_scalars", _propose)
