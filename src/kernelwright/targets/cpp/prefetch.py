"""Reading ahead: while a row is worked on in the cache, the next one is asked for.

Hardware prefetchers follow a stream only within a page; a kernel that goes over each row several times
leaves the memory idle meanwhile. Addresses past the end are harmless: a prefetch never faults.
"""

import math

from kernelwright.ir.dag import Dag, DagNode, StageGroup
from kernelwright.ir.extents import planned
from kernelwright.ir.lanes import LANES_PER_VECTOR
from kernelwright.ir.normalise import axis_sizes, coefficient
from kernelwright.ir.program import Affine
from kernelwright.targets.cpp.choices import Choices

LARGEST_ROW = 160 << 10
"""Bytes of a row that stays in a private level 2 cache together with the next one."""
LEVEL_1_ROW = 16 << 10
"""Bytes of a row that may be fetched into level 1."""
SMALLEST_INPUT = 2 << 20
"""Bytes read in all below which everything is in level 2 anyway."""


def reads_ahead(choices: Choices, dag: Dag) -> dict[int, tuple[tuple[DagNode, Affine], ...]]:
    """Return, by position of a group, the loads to prefetch in it: (node, index at a later kept point).

    They are the first pass's contiguous loads, asked for in the last reduction over the same axes.
    """
    region = choices.region
    if choices.is_column or choices.parallel == "inner" or not region.kept or not choices.prefetch:
        return {}
    sizes, lane = axis_sizes(region), choices.lane_axis or ""
    passes = [i for i, g in enumerate(dag.groups) if lane in g.axes]
    reduces = [
        i for i in passes if dag.groups[i].reduces and dag.groups[i].axes == dag.groups[passes[0]].axes
    ]
    if not reduces or len(passes) < 2:
        return {}
    first = dag.groups[passes[0]]
    row_bytes = 4 * math.prod(sizes[a] for a in first.axes)
    total = planned(row_bytes * math.prod(a.size for a in region.kept))
    if not reduces or row_bytes > LARGEST_ROW or total < SMALLEST_INPUT:
        return {}
    found = _next_loads(dag, first, lane, region.kept[-1].name, choices.prefetch)
    return {reduces[-1]: found} if found else {}


def prefetch_call(address: str, values: int, row_values: int) -> str:
    """Return the statement that asks for as many values from an address on; a cache line holds 16."""
    level = 3 if 4 * row_values <= LEVEL_1_ROW else 2
    step = LANES_PER_VECTOR
    return f"for (int q = 0; q < {values}; q += {step}) __builtin_prefetch(&{address} + q, 0, {level});"


def _next_loads(
    dag: Dag, group: StageGroup, lane: str, axis: str, distance: int
) -> tuple[tuple[DagNode, Affine], ...]:
    nodes = [dag.nodes[n] for n in sorted(dag.needed([a.node for a in group.actions]))]
    plain = [n for n in nodes if n.kind == "load" and not n.args and n.dtype == "float32"]
    return tuple(
        (n, Affine(n.index.terms, n.index.offset + distance * coefficient(n.index, axis)))
        for n in plain
        if coefficient(n.index, lane) == 1 and coefficient(n.index, axis) != 0
    )
