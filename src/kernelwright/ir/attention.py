"""Regions that are attention: which axes are rows, keys and columns, and what is computed at each."""

import math
from dataclasses import dataclass

from kernelwright.core.errors import LoweringError
from kernelwright.ir.dag import Action, Dag
from kernelwright.ir.extents import dims_in
from kernelwright.ir.normalise import coefficient
from kernelwright.ir.program import Axis, Region


@dataclass(frozen=True, eq=False)
class AttentionForm:
    """Weighted sums of values, the weights a softmax of scores, each score a sum of products.

    Numbers are nodes of the ``dag``.
    """

    dag: Dag
    outer: tuple[Axis, ...]
    """Batches and heads."""
    row: Axis
    key: Axis
    depth: Axis
    """What the products of a score are summed along."""
    feature: Axis
    """Columns of the values and of the result."""
    queries: int
    """Operands: plain elements of tensors."""
    keys: int
    values: int
    product: int
    """The sum of products, of which the score is made."""
    score: Action
    total: int
    """The sum of the weights."""
    mean: int
    """The weighted sum, before it is divided by the total."""
    epilogue: tuple[Action, ...]
    """What is stored of the two."""
    reach: int | None
    """Row ``i`` sees the keys up to ``i + reach`` only; None where any may be seen."""

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """Return batches, rows, keys, and products of a score."""
        return math.prod(a.size for a in self.outer), self.row.size, self.key.size, self.depth.size

    @property
    def work(self) -> int:
        """Return the products that both sums add."""
        batches, rows, keys, depth = self.sizes
        return batches * rows * keys * (depth + self.feature.size)

    def step(self, operand: int, axis: Axis) -> int:
        """Return how far apart an operand's elements lie along an axis."""
        return coefficient(self.dag.nodes[operand].index, axis.name)


def is_attention(region: Region) -> bool:
    """Tell whether a region is attention: it has reductions of several values, and no steps."""
    return region.sequence is None and any(stage.per for stage in region.stages)


def find_attention(region: Region) -> AttentionForm | None:
    """Return what a region of attention computes; None where it does something else.

    Raises:
        LoweringError: the region's sizes vary.
    """
    if not is_attention(region):
        return None
    if dims_in(region):
        raise LoweringError(f"{region.name}: kernels of attention have fixed sizes; the library's have not")
    product, _, total, mean, _ = region.stages
    dag = Dag(region)
    of_product, of_top, _, of_mean, of_result = (group.actions for group in dag.groups)
    sizes = {axis.name: axis for axis in (*region.kept, *region.inner)}
    (key_axis,), (feature,) = product.per, mean.per
    (depth,) = set(product.axes) - {key_axis}
    queries, keys = dag.nodes[of_product[0].node].args
    _, values = dag.nodes[of_mean[0].node].args
    shared = dag.axes[keys] | dag.axes[values]
    row = max((a for a in region.kept if a.name not in shared), key=lambda a: a.size)
    reduced = {node.name: number for number, node in enumerate(dag.nodes) if node.kind == "reduced"}
    return AttentionForm(
        dag=dag,
        outer=tuple(a for a in region.kept if a != row),
        row=row,
        key=sizes[key_axis],
        depth=sizes[depth],
        feature=sizes[feature],
        queries=queries,
        keys=keys,
        values=values,
        product=reduced[product.name],
        score=of_top[0],
        total=reduced[total.name],
        mean=reduced[mean.name],
        epilogue=of_result,
        reach=_reach(dag, of_top[0].node, row.name, row.size, key_axis),
    )


def _reach(dag: Dag, score: int, row: str, rows: int, key: str) -> int | None:
    """Return how far beyond its own position a row sees, where the score says so."""
    node = dag.nodes[score]
    if node.kind != "op" or node.name != "where":
        return None
    inside, unseen = dag.nodes[node.args[0]], dag.nodes[node.args[2]]
    if inside.kind != "bound" or unseen.kind != "const" or unseen.value != -math.inf:
        return None
    is_plain = dict(inside.index.terms) == {row: 1, key: -1} and inside.size >= rows + inside.index.offset
    return inside.index.offset if is_plain else None
