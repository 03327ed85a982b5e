"""The expert Selector: the fastest member, and the one most worth comparing it with."""

from kernelwright.agents.roles import Node, Pick, Situation
from kernelwright.core.evaluation import Speedup


class ExpertSelector:
    """Fills the Selector's seat from the table of timings and the plans.

    Source: GPU Kernel Scientist (arXiv 2506.20807): the base is usually the best over all workloads, the
    reference an informative contrast. What makes a contrast informative is ours: it beats the base on some
    workload beyond what timing can tell, or else its plan has least in common with the base's.
    """

    def select(self, situation: Situation) -> Pick | None:
        """Return the pick (see roles.Selector); only ``member`` nodes are bases."""
        verified = [node for node in situation.window if _fitness(node) > 0]
        bases = [node for node in verified if node.relation == "member"]
        if not bases:
            return None
        base = max(bases, key=_fitness)
        others = [node for node in verified if node is not base]
        best = f"{_fitness(base):.2f}x over eager is the best of {len(bases)} that may be a base"
        if not others:
            return Pick(base.candidate.id, base.candidate.id, f"{best}; there is nothing to compare it with")
        reference, why = _contrast(base, others)
        return Pick(base.candidate.id, reference.candidate.id, f"{best}; {why}")


def _fitness(node: Node) -> float:
    return node.evaluation.geomean_speedup() or 0.0


def _contrast(base: Node, others: list[Node]) -> tuple[Node, str]:
    ahead = [(lead, workload, node) for node in others for workload, lead in _leads(node, base).items()]
    if ahead:
        lead, workload, node = max(ahead, key=lambda entry: entry[0])
        return node, f"the reference is {lead:.2f}x faster than it on {workload}"
    node = max(others, key=lambda other: (_difference(base, other), _fitness(other)))
    return node, f"{_difference(base, node):.0%} of their moves are in one of the two plans only"


def _leads(node: Node, base: Node) -> dict[str, float]:
    """Return by how much a node beats the base, for each workload on which their intervals are apart."""
    own, other = _speedups(node), _speedups(base)
    shared = own.keys() & other.keys()
    return {w: own[w].ratio / other[w].ratio for w in sorted(shared) if own[w].low > other[w].high}


def _speedups(node: Node) -> dict[str, Speedup]:
    """Return each workload's comparison with eager, which drifts less between evaluations than latency."""
    compared = ((result.workload, result.speedup("eager")) for result in node.evaluation.results)
    return {workload: speedup for workload, speedup in compared if speedup is not None}


def _difference(a: Node, b: Node) -> float:
    """Return the share of both plans' moves that only one of them has: 0 for equal plans, 1 for disjoint."""
    first = {move.key for move in a.candidate.plan.moves}
    second = {move.key for move in b.candidate.plan.moves}
    union = first | second
    return len(first ^ second) / len(union) if union else 0.0
