"""Regions that multiply matrices: which axes are rows, columns, products to add, and batches."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kernelwright.ir.dag import Action, Dag
from kernelwright.ir.extents import dims_in
from kernelwright.ir.normalise import coefficient
from kernelwright.ir.program import Affine, Axis, Region

SHORTEST_RUN = 8
"""Results side by side in memory from which on vectors should run along them."""


@dataclass(frozen=True, eq=False)
class ProductForm:
    """A normalised region as products: for each outer point, rows times columns, summed along inner axes.

    A convolution is one of weights and windows of its input. Every operand may be an expression.
    """

    dag: Dag
    outer: tuple[Axis, ...]
    """Batches, groups: axes that both operands have."""
    rows: tuple[Axis, ...]
    """Axes of the left operand alone."""
    columns: tuple[Axis, ...]
    """Axes of the right operand alone; vectors run along the last of them."""
    inner: tuple[Axis, ...]
    left: int
    """Node of the left operand's element."""
    right: int
    total: int
    """Node of the sum."""
    epilogue: tuple[Action, ...]
    """What is stored of it."""

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """Return batches, rows, columns and products to add."""
        of = [math.prod(a.size for a in axes) for axes in (self.outer, self.rows, self.columns, self.inner)]
        return of[0], of[1], of[2], of[3]

    def step(self, operand: int, axes: Sequence[Axis]) -> int | None:
        """Return how far apart neighbours along these axes, taken as one, lie in memory.

        None where the operand is no plain element of a tensor or they lie at changing distances.
        """
        node = self.dag.nodes[operand]
        return None if node.kind != "load" or node.args else flat_step(node.index, axes)


def flat_step(index: Affine, axes: Sequence[Axis]) -> int | None:
    """Return the growth of an index per step of some axes taken as one; None where there is none."""
    if not axes:
        return 0
    step = weight = coefficient(index, axes[-1].name)
    for axis, inner in zip(reversed(axes[:-1]), reversed(axes[1:]), strict=True):
        weight *= inner.size
        if coefficient(index, axis.name) != weight:
            return None
    return step


def find_product(region: Region) -> ProductForm | None:
    """Return what a normalised region multiplies; None where it does something else."""
    total, *others = region.stages
    if total.kind != "reduce" or total.combine != "sum" or total.dtype != "float32":
        return None
    if any(stage.kind != "map" or stage.axes for stage in others):
        return None
    if set(total.axes) != {axis.name for axis in region.inner}:
        return None
    if dims_in(region):
        return None  # tiles have literal sizes
    dag = Dag(region)
    first, *rest = dag.groups
    node = dag.nodes[first.actions[0].node]
    if node.kind != "op" or node.name != "mul" or any(dag.nodes[a].dtype != "float32" for a in node.args):
        return None
    left, right = node.args
    inner = tuple(axis for name in total.axes for axis in region.inner if axis.name == name)
    of_left, of_right = (_alone(region, dag, one, other) for one, other in ((left, right), (right, left)))
    if not of_left or not of_right or any(not _has(dag, (left, right), axis) for axis in region.kept):
        return None
    if _lanes_along(region, of_left, of_right):
        left, right, of_left, of_right = right, left, of_right, of_left
    return ProductForm(
        dag=dag,
        outer=tuple(a for a in region.kept if a not in (*of_left, *of_right)),
        rows=of_left,
        columns=of_right,
        inner=inner,
        left=left,
        right=right,
        total=next(n for n, one in enumerate(dag.nodes) if one.kind == "reduced"),
        epilogue=tuple(action for group in rest for action in group.actions),
    )


def _alone(region: Region, dag: Dag, one: int, other: int) -> tuple[Axis, ...]:
    """Return the kept axes that one operand depends on and the other does not."""
    return tuple(a for a in region.kept if a.name in dag.axes[one] - dag.axes[other])


def _has(dag: Dag, operands: Sequence[int], axis: Axis) -> bool:
    return any(axis.name in dag.axes[operand] for operand in operands)


def _lanes_along(region: Region, one: Sequence[Axis], other: Sequence[Axis]) -> bool:
    """Tell whether vectors should run along the first operand's axes."""
    last = region.kept[-1]
    if last.size >= SHORTEST_RUN and (last in one or last in other):
        return last in one
    return math.prod(a.size for a in one) > math.prod(a.size for a in other)
