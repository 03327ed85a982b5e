"""The same call on the same operands is made once."""

from torch import fx

from kernelwright.ir.rewrites.cost import node_ms
from kernelwright.ir.rewrites.pattern import PatternRewrite, Proposal
from kernelwright.ir.rewrites.reading import args_of, aten

RANDOM = (aten.native_dropout.default, aten.bernoulli.p, aten.rand.default, aten.randn.default)


def _propose(node: fx.Node) -> Proposal | None:
    if node.target in RANDOM:
        return None
    if node.all_input_nodes:
        candidates = list(node.all_input_nodes[0].users)
    else:
        candidates = [n for n in node.graph.nodes if n.target is node.target and not n.all_input_nodes]
    twins = [n for n in candidates if n is not node and _equal(n, node) and n < node]
    if not twins:
        return None
    first = min(twins)
    return Proposal(f"{node.name} computes again what {first.name} holds", lambda edit: first, node_ms(node))


def _equal(one: fx.Node, other: fx.Node) -> bool:
    if one.op != "call_function" or one.target is not other.target or not one.users:
        return False
    # repr tells 1 from 1.0 and True, which == does not.
    return repr((args_of(one), one.kwargs)) == repr((args_of(other), other.kwargs))


REWRITE = PatternRewrite("common_subexpressions", _propose)
