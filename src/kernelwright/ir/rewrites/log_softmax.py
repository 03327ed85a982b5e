"""The logarithm of a softmax and the exponential of a log-softmax, in one step."""

from typing import Any

from torch import fx

from kernelwright.ir.rewrites.cost import node_ms
from kernelwright.ir.rewrites.pattern import PatternRewrite, Proposal
from kernelwright.ir.rewrites.reading import args_of, aten, target_of, used_once

PAIRS = {
    (aten.log.default, aten._softmax.default): aten._log_softmax.default,
    (aten.exp.default, aten._log_softmax.default): aten._softmax.default,
}


def _propose(node: fx.Node) -> Proposal | None:
    inner: Any = args_of(node)[0] if args_of(node) else None
    if not isinstance(inner, fx.Node):
        return None
    merged = PAIRS.get((target_of(node), target_of(inner)))
    if merged is None or not used_once(inner):
        return None
    why = f"{node.name} of {inner.name} is {merged} of its argument"
    return Proposal(why, lambda edit: edit.call(merged, *args_of(inner)), node_ms(node))


REWRITE = PatternRewrite("log_softmax", _propose)
