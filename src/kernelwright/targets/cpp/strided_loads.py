"""Strided loads that are contiguous along another axis: blocks are transposed in registers, into scratch.

Of a strided load each lane takes one element of a cache line, and compilers write no vectors for it. So
vectors are read along the contiguous axis instead.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from kernelwright.ir.by_loops import by_loops
from kernelwright.ir.dag import Dag, DagNode
from kernelwright.ir.extents import dims_in
from kernelwright.ir.lanes import LANES_PER_VECTOR, has_bounds, quality_with
from kernelwright.ir.lanes import best_lane_axis as best_axis_by
from kernelwright.ir.normalise import axis_sizes, coefficient
from kernelwright.ir.program import Affine, Region

MOST_TRANSPOSED = 1024
"""Values a lane, of all loads together: more would not fit into scratch."""
SHORT_ROW = 2 * LANES_PER_VECTOR
"""Points of a row below which lanes along it are mostly empty; ours."""
TRANSPOSED_QUALITY = 0.8
"""Of a transposed load, as ``lane_quality`` has it: 1 is contiguous, 0.4 every fourth element; ours."""
TOGETHER = 16
"""Points of a kept axis that a block takes together: a cache line."""
LEAST_STEP, LEAST_ROW, LEAST_LANES = 5, 8, 16
"""Elements between lanes, points of the other axis, and lanes, below which nothing is transposed; ours."""


@dataclass(frozen=True)
class TransposedLoad:
    """A load, and how it lies in memory."""

    node: int
    """In the region's Dag along its lanes."""
    index: Affine
    axis: str
    """Along which its elements are neighbours."""
    step: int
    """Elements from one lane to the next."""
    count: int
    """Points of the axis that are transposed together."""
    is_kept: bool
    """The axis is one of the results, not of what is gone over for each."""


@by_loops
def strided_loads(region: Region, lane: str) -> tuple[TransposedLoad, ...]:
    """Return the loads that can be transposed for lanes along a kept axis; along one other kept axis at most.

    Where stores are strided as well, only loads of rows that are too short for vectors of their own.
    """
    if dims_in(region) or lane not in {axis.name for axis in region.kept}:
        return ()
    dag = Dag(region, lane)
    stores = [action.store for group in dag.groups for action in group.stores]
    found = list(_found(region, lane, dag))
    kept = next((load.axis for load in found if load.is_kept), None)
    may_be_kept = not has_bounds(region)
    fits = [load for load in found if not load.is_kept or (may_be_kept and load.axis == kept)]
    if any(store is not None and coefficient(store.index, lane) >= LEAST_STEP for store in stores):
        fits = [load for load in fits if not load.is_kept and load.count < SHORT_ROW]
    room = [sum(load.count for load in fits[: n + 1]) <= MOST_TRANSPOSED for n in range(len(fits))]
    return tuple(itertools.compress(fits, room))


@by_loops
def lane_quality(region: Region, axis: str) -> float:
    """As that of ``ir/lanes.py``, where strided loads are transposed."""
    indices = [load.index for load in strided_loads(region, axis)]
    return quality_with(region, axis, dict.fromkeys(indices, TRANSPOSED_QUALITY))


def best_lane_axis(region: Region) -> str | None:
    """As that of ``ir/lanes.py``, where strided loads are transposed."""
    return best_axis_by(region, lane_quality)


def _found(region: Region, lane: str, dag: Dag) -> Iterator[TransposedLoad]:
    sizes, kept = axis_sizes(region), {axis.name for axis in region.kept}
    for number, node in enumerate(dag.nodes):
        axis = _neighbours(node)
        step = coefficient(node.index, lane)
        if axis is None or step < LEAST_STEP or sizes[axis] < LEAST_ROW:
            continue
        if any(name not in kept and name != axis for name, _ in node.index.terms):
            continue
        count = min(TOGETHER, sizes[axis]) if axis in kept else sizes[axis]
        yield TransposedLoad(number, node.index, axis, step, count, is_kept=axis in kept)


def _neighbours(node: DagNode) -> str | None:
    """Return the axis along which an unguarded load is contiguous, if it is one alone."""
    if node.kind != "load" or node.dtype != "float32" or node.args:
        return None
    along = [name for name, factor in node.index.terms if factor == 1]
    return along[0] if len(along) == 1 else None
