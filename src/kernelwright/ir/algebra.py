"""How much of a graph's arithmetic algebra makes needless, whatever kernels compute the rest."""

from torch import fx

from kernelwright.core.errors import LoweringError
from kernelwright.ir.rewrites import REWRITES
from kernelwright.ir.rewrites.cost import node_flops
from kernelwright.tasks.capture import Captured

MOST_REWRITES = 8
"""So many are carried out one after the other; ours."""
WORTH = 1.1
"""Promised gain from which a rewrite is carried out; ours."""


def algebra_gain(captured: Captured) -> float:
    """Return the operations of products, convolutions and attention, over those that rewrites leave.

    A rewrite is carried out where one promises to gain, the most promising first. One that asks another
    library for the same arithmetic is none of algebra.
    """
    before, left = _flops(captured), captured
    names = set(REWRITES)
    for _ in range(MOST_REWRITES if before else 0):
        longer = _with_next_rewrite(left, names)
        if longer is None:
            break
        left = longer
    return before / max(_flops(left), 1) if before else 1.0


def _with_next_rewrite(captured: Captured, names: set[str]) -> Captured | None:
    """Return the graph after one more rewrite; names of those that are none of algebra are dropped."""
    found = [(site.gain, n, site.region) for n in sorted(names) for site in REWRITES[n].sites(captured)]
    for gain, name, region in sorted(found, key=lambda one: (-one[0], *one[1:])):
        if gain < WORTH or name not in names:
            continue
        try:
            rewritten = REWRITES[name].apply(captured, region)
        except LoweringError:
            continue
        if _libraries(rewritten) <= _libraries(captured):
            return rewritten
        names.discard(name)
    return None


def _flops(captured: Captured) -> int:
    return sum(node_flops(node) for node in captured.graph.nodes)


def _libraries(captured: Captured) -> set[str]:
    """Return where the operators of a graph are from: torch's own, others that were registered, functions."""
    return {_library(node) for node in captured.graph.nodes if node.op == "call_function"}


def _library(node: fx.Node) -> str:
    name = str(getattr(node.target, "namespace", getattr(node.target, "__name__", node.target)))
    return "aten" if name == "getitem" else name
