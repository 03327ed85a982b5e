"""Matrix products written as reductions: found again in a region."""

from dataclasses import dataclass

from kernelwright.ir.dag import Dag
from kernelwright.ir.program import Region


@dataclass(frozen=True)
class Dot:
    """A sum over products of two operands: which kept axes are rows, columns, or batches of the product."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    batch: tuple[str, ...]
    inner: tuple[str, ...]
    left: int
    """Node of the operand that varies along the rows: a load, or an expression of loads."""
    right: int


def find_dot(region: Region) -> Dot | None:
    """Return the matrix product that a region starts with, and that nothing else waits for but maps."""
    dag = Dag(region)
    groups = dag.groups
    if len([g for g in groups if g.axes]) != 1 or not groups[0].axes or len(groups[0].actions) != 1:
        return None
    action = groups[0].actions[0]
    node = dag.nodes[action.node]
    is_sum = action.kind == "reduce" and action.stage.combine == "sum" and action.stage.dtype == "float32"
    if not is_sum or node.kind != "op" or node.name != "mul":
        return None
    inner = set(groups[0].axes)
    if any(not inner <= dag.axes[n] or dag.nodes[n].dtype != "float32" for n in node.args):
        return None
    first, second = node.args
    kept = [axis.name for axis in region.kept]
    pairs = ((first, second), (second, first))
    own = [tuple(a for a in kept if a in dag.axes[n] - dag.axes[m]) for n, m in pairs]
    batch = tuple(a for a in kept if a in dag.axes[first] & dag.axes[second])
    if not own[0] or not own[1] or len(own[0]) + len(own[1]) + len(batch) != len(kept):
        return None
    if min(kept.index(a) for a in own[0]) > min(kept.index(a) for a in own[1]):
        own, first, second = own[::-1], second, first
    return Dot(own[0], own[1], batch, groups[0].axes, first, second)
