"""Reductions over windows in two steps: along the other axes of the window first, then along the lanes.

The first step leaves one row of partial results, at every position that a window along the lanes looks at.
The row stays in cache: it belongs to one point of the outer axes, and the second step follows at once.
"""

import dataclasses
import math
from typing import NamedTuple

from kernelwright.ir.normalise import affines, axis_sizes, coefficient, map_affines
from kernelwright.ir.program import Affine, Axis, Load, LoopStage, Region, StoreTo

ROW = "window_rows"
"""Buffer of the row between the steps."""
LONGEST_ROW = 8192
"""Values of a row that stays in a core's own cache."""


class Separated(NamedTuple):
    """The two steps as regions of their own, over the same outer axes."""

    first: Region
    second: Region
    position: Axis
    """Axis of the row, the lanes of the first step."""


def find_separable(region: Region, lane_axis: str | None) -> Separated | None:
    """Return a normalised region's two steps; None where it is no window along a kept lane axis.

    Sums are grouped otherwise by it. Maxima and minima keep their values, NaN included.
    """
    stage, rest = region.stages[0], region.stages[1:]
    sizes = axis_sizes(region)
    if lane_axis not in {axis.name for axis in region.kept} or any(other.axes for other in rest):
        return None
    if stage.kind != "reduce" or stage.combine not in ("max", "min", "sum") or stage.dtype != "float32":
        return None
    if len(stage.axes) < 2:
        return None
    for axis in reversed(stage.axes):
        steps = _steps(stage, lane_axis or "", axis)
        if steps is not None and math.prod(sizes[a] for a in stage.axes if a != axis) > 1:
            return _separated(region, lane_axis or "", axis, steps)
    return None


def _steps(stage: LoopStage, lane: str, axis: str) -> tuple[int, int] | None:
    """Return by how much a position moves per lane and per point of a window's axis, where it is the same
    in every index."""
    found: set[tuple[int, int]] = set()
    for index in affines(Region("", (), (), (dataclasses.replace(stage, stores=()),))):
        pair = coefficient(index, lane), coefficient(index, axis)
        if pair != (0, 0):
            shared = math.gcd(*pair)
            found.add((pair[0] // shared, pair[1] // shared))
    steps = next(iter(found), (0, 0))
    return steps if len(found) == 1 and min(steps) > 0 else None


def _separated(region: Region, lane: str, axis: str, steps: tuple[int, int]) -> Separated | None:
    sizes, stage = axis_sizes(region), region.stages[0]
    move, step = steps
    length = move * (sizes[lane] - 1) + step * (sizes[axis] - 1) + 1
    if length > LONGEST_ROW or length > sizes[lane] * sizes[axis]:
        return None  # positions that no window looks at are read in the first step
    position = Axis(f"{lane}_at", length)
    outer = tuple(kept for kept in region.kept if kept.name != lane)
    others = tuple(inner for inner in region.inner if inner.name in stage.axes and inner.name != axis)

    def along(index: Affine) -> Affine:
        ahead = coefficient(index, lane)
        terms = [(name, c) for name, c in index.terms if name not in (lane, axis)]
        terms += [(position.name, ahead // move)] if ahead else []
        return Affine(tuple(sorted(terms)), index.offset)

    rows = dataclasses.replace(stage, axes=tuple(one.name for one in others), stores=())
    first = map_affines(Region(f"{region.name}_rows", (*outer, position), others, (rows,)), along)
    stored = dataclasses.replace(first.stages[0], stores=(StoreTo(ROW, Affine(((position.name, 1),))),))
    first = dataclasses.replace(first, stages=(stored,))
    at = Affine(tuple(sorted(((lane, move), (axis, step)))))
    columns = dataclasses.replace(stage, axes=(axis,), expr=Load(ROW, at, "float32"))
    inner = tuple(one for one in region.inner if one.name == axis)
    second = dataclasses.replace(region, inner=inner, stages=(columns, *region.stages[1:]))
    return Separated(first, second, position)
