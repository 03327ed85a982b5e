"""How often a region's points run, what they cost, and along which axis vectors pay; for every language."""

import math
from collections.abc import Callable, Mapping

from kernelwright.ir.by_loops import by_loops
from kernelwright.ir.dag import Dag
from kernelwright.ir.normalise import axis_sizes, coefficient
from kernelwright.ir.program import Affine, LoopStage, Region

LANES_PER_VECTOR = 16
"""Float32 values of the widest vector."""


def points(region: Region, stage: LoopStage) -> int:
    """Return how often a stage's expression is evaluated."""
    sizes = axis_sizes(region)
    return math.prod(a.size for a in region.kept) * math.prod(sizes[a] for a in stage.axes)


@by_loops
def estimate_ns(region: Region) -> float:
    """Return a rough single-thread time: 0.15 ns a point and access, 0.03 ns per instruction."""
    dag = Dag(region)
    total = 0.0
    for group in dag.groups:
        needed = dag.needed([a.node for a in group.actions])
        loads = sum(1 for n in needed if dag.nodes[n].kind == "load") + len(group.stores)
        work = sum(dag.own_cost(n) for n in needed)
        count = points(region, group.actions[0].stage)
        total += count * (0.15 * max(loads, 1) + 0.03 * work)
    return total


def best_lane_axis(region: Region, quality: Callable[[Region, str], float] | None = None) -> str | None:
    """Return the axis along which most accesses are contiguous; inner axes win ties.

    ``quality`` takes the place of ``lane_quality`` where a language has other ways to load.
    """
    quality = quality or lane_quality
    scan_axes = {s.scan_axis for s in region.stages if s.scan_axis is not None}
    names = [a.name for a in region.kept] + [a.name for a in region.inner]
    if scan_axes:
        names = [a.name for a in region.kept] + [a for a in scan_axes if len(scan_axes) == 1]
    if not names:
        return None
    sizes = axis_sizes(region)
    inner = {a.name for a in region.inner}
    return max(names, key=lambda n: (quality(region, n), n in inner, sizes[n]))


@by_loops
def lane_quality(region: Region, axis: str) -> float:
    """Return how well lanes along an axis use memory and vectors: 1 is best, below 0 mostly strided.

    Weighted by how often each stage runs. Strided accesses cost one load an element, so they count
    against an axis; an axis shorter than a vector uses only a part of it.
    """
    return quality_with(region, axis, {})


def quality_with(region: Region, axis: str, known: Mapping[Affine, float]) -> float:
    """As ``lane_quality``, with the quality of some indices known."""
    size = axis_sizes(region)[axis]
    dag = Dag(region)
    score = weight = 0.0
    for group in dag.groups:
        count = points(region, group.actions[0].stage)
        needed = dag.needed([a.node for a in group.actions])
        indices = [dag.nodes[n].index for n in needed if dag.nodes[n].kind == "load"]
        indices += [a.store.index for a in group.stores if a.store is not None]
        score += count * sum(known.get(index, _stride_quality(index, axis)) for index in indices)
        weight += count * len(indices)
    is_inner = any(a.name == axis for a in region.inner)
    whole = 4 * LANES_PER_VECTOR if is_inner else LANES_PER_VECTOR  # lanes end in a horizontal sum
    usable = min(size, whole) / whole
    mean = score / weight if weight else 0.0
    return usable * mean if mean > 0 else mean


def _stride_quality(index: Affine, axis: str) -> float:
    stride = abs(coefficient(index, axis))
    if stride == 1:
        return 1.0
    if stride == 0:
        return 0.5
    return 0.4 if stride <= 4 else -0.5


@by_loops
def has_bounds(region: Region) -> bool:
    """True when some load of a kept axis is guarded (padding)."""
    dag = Dag(region)
    _ = dag.groups
    kept = {a.name for a in region.kept}
    return any(n.kind == "bound" and kept & {a for a, _ in n.index.terms} for n in dag.nodes)
