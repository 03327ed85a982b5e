"""Regions that multiply windows by filters, one image at a time: depthwise and other direct convolutions.

An operand that slides, the image, is read at positions: a row of the result and a tap of the filter meet at
``move * row + step * tap``. Brought into the order of positions, padding and all, it needs no more guards.
"""

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from kernelwright.ir.dag import Action, Dag
from kernelwright.ir.extents import dims_in
from kernelwright.ir.normalise import affines, coefficient, map_affines
from kernelwright.ir.program import Affine, Axis, Expr, LoopStage, Op, Region, StoreTo

IMAGE = "image_positions"
"""Buffer that the image's region stores to; nothing of that name exists."""
ROW_AT, COLUMN_AT = "row_at", "column_at"
"""Axes of positions."""


@dataclass(frozen=True)
class Slide:
    """How the image moves along one kept axis."""

    axis: Axis | None
    """Of the result; None: there is no such axis."""
    taps: Axis | None
    """The filter's; None: it has one."""
    move: int = 1
    """Positions from one result to the next."""
    step: int = 0
    """Positions from one tap to the next; negative where the filter is turned."""

    @property
    def size(self) -> int:
        """Results along the axis."""
        return 1 if self.axis is None else self.axis.size

    @property
    def n_taps(self) -> int:
        """Taps of the filter along it."""
        return 1 if self.taps is None else self.taps.size

    @property
    def before(self) -> int:
        """Positions that lie before the first result's first tap."""
        return max(0, -self.step * (self.n_taps - 1))

    @property
    def is_shared(self) -> bool:
        """Tell whether two results look at one position; rows and columns of a matrix share none."""
        return abs(self.step) < self.size and self.move < self.n_taps

    def positions(self, results: int) -> int:
        """Return the positions that so many neighbouring results look at."""
        return self.move * (results - 1) + abs(self.step) * (self.n_taps - 1) + 1


@dataclass(frozen=True, eq=False)
class WindowForm:
    """A normalised region as sums over windows; the filter does not depend on where the window is."""

    dag: Dag
    outer: tuple[Axis, ...]
    """Images: kept axes that the image has apart from rows and columns, such as batch and channel."""
    filters: tuple[Axis, ...]
    """Kept axes that the filter alone has: results that look at the same windows."""
    rows: Slide
    columns: Slide
    """Vectors run along it."""
    inner: tuple[Axis, ...]
    """What else is added: channels of a group, further axes of the window."""
    image: Region
    """The image's element at a position, stored to ``IMAGE``; over ``outer``, positions and ``inner``."""
    weight: int
    """Node of the filter's element."""
    total: int
    """Node of the sum."""
    epilogue: tuple[Action, ...]
    """What is stored of it."""

    @property
    def images(self) -> int:
        """How many images there are."""
        return math.prod(axis.size for axis in self.outer)

    @property
    def n_filters(self) -> int:
        """Results at each place of an image."""
        return math.prod(axis.size for axis in self.filters)

    @property
    def planes(self) -> int:
        """Planes of an image that are added up."""
        return math.prod(axis.size for axis in self.inner)

    @property
    def products(self) -> int:
        """Multiplications of the whole region."""
        taps = self.planes * self.rows.n_taps * self.columns.n_taps
        return self.images * self.n_filters * self.rows.size * self.columns.size * taps


def find_window(region: Region) -> WindowForm | None:
    """Return the windows and filters of a normalised region; None where it does something else."""
    if not region.kept:
        return None
    total, *others = region.stages
    if total.kind != "reduce" or total.combine != "sum" or total.dtype != "float32" or total.per:
        return None
    if any(stage.kind != "map" or stage.axes for stage in others):
        return None
    if set(total.axes) != {axis.name for axis in region.inner}:
        return None
    operands = _operands(total, region.kept[-1].name)
    if operands is None or dims_in(region):  # tiles have literal sizes
        return None
    return _form(region, *operands)


def _operands(total: LoopStage, lane: str) -> tuple[Expr, Expr] | None:
    """Return what slides along the lanes, and what it is multiplied by."""
    expr = total.expr
    if not isinstance(expr, Op) or expr.name != "mul" or expr.dtype != "float32":
        return None
    left, right = expr.args
    if any(getattr(one, "dtype", None) != "float32" for one in (left, right)):
        return None
    slides = [one for one in (left, right) if lane in _axes(one)]
    if len(slides) != 1:
        return None
    return (left, right) if slides[0] is left else (right, left)


def _form(region: Region, image: Expr, weight: Expr) -> WindowForm | None:
    of_image, of_weight = _axes(image), _axes(weight)
    if not {axis.name for axis in region.kept} <= of_image | of_weight:
        return None
    columns = _slide(region, image, region.kept[-1])
    alone = [a for a in reversed(region.kept[:-1]) if a.name in of_image - of_weight]
    slides = (_slide(region, image, axis) for axis in alone)
    rows = next((s for s in slides if s.taps not in (None, columns.taps)), Slide(None, None))
    if rows.taps is columns.taps is None:
        return None
    dag = Dag(region)
    first, *rest = dag.groups
    node = dag.nodes[first.actions[0].node]
    lane = region.kept[-1].name
    filters = [n for n in node.args if lane not in dag.axes[n]]
    if node.kind != "op" or node.name != "mul" or len(filters) != 1:
        return None
    taken = (rows.axis, columns.axis, rows.taps, columns.taps)
    outer = tuple(a for a in region.kept if a not in taken and a.name in of_image)
    inner = tuple(a for a in region.inner if a not in taken)
    return WindowForm(
        dag=dag,
        outer=outer,
        filters=tuple(a for a in region.kept if a.name not in of_image),
        rows=rows,
        columns=columns,
        inner=inner,
        image=_at_positions(image, rows, columns, outer, inner),
        weight=filters[0],
        total=next(n for n, one in enumerate(dag.nodes) if one.kind == "reduced"),
        epilogue=tuple(action for group in rest for action in group.actions),
    )


def _indices(expr: Expr) -> Iterable[Affine]:
    return affines(Region("", (), (), (LoopStage("", "map", (), expr, "float32"),)))


def _axes(expr: Expr) -> set[str]:
    return {name for index in _indices(expr) for name, _ in index.terms}


def _slide(region: Region, image: Expr, axis: Axis) -> Slide:
    """Return how the image moves along a kept axis, and the filter's axis that moves it as well.

    Without padding several axes may do: channels are rows far away. Taps are the nearest ones.
    """
    pairs = ((taps, _together(image, axis.name, taps.name)) for taps in region.inner)
    slides = [Slide(axis, taps, *steps) for taps, steps in pairs if steps is not None]
    shared = [slide for slide in slides if slide.is_shared]
    return min(shared, key=lambda slide: abs(slide.step), default=Slide(axis, None))


def _together(image: Expr, axis: str, taps: str) -> tuple[int, int] | None:
    """Return (move, step) where every index that has one of the axes has both, in one proportion."""
    found: set[tuple[int, int]] = set()
    for index in _indices(image):
        pair = coefficient(index, axis), coefficient(index, taps)
        if pair != (0, 0):
            shared = math.gcd(*pair) * (1 if pair[0] > 0 else -1)
            found.add((pair[0] // shared, pair[1] // shared))
    move, step = next(iter(found), (0, 0))
    return (move, step) if len(found) == 1 and move and step else None


def _at_positions(
    image: Expr, rows: Slide, columns: Slide, outer: tuple[Axis, ...], inner: tuple[Axis, ...]
) -> Region:
    stage = LoopStage(
        "image", "map", tuple(a.name for a in inner), image, "float32", stores=(StoreTo(IMAGE, Affine()),)
    )
    region = Region(IMAGE, outer, inner, (stage,))
    kept = list(outer)
    for slide, name in ((rows, ROW_AT), (columns, COLUMN_AT)):
        region = map_affines(region, partial(_along, slide=slide, name=name))
        kept.append(Axis(name, slide.positions(slide.size)))
    return dataclasses.replace(region, kept=tuple(kept))


def _along(index: Affine, slide: Slide, name: str) -> Affine:
    """Write an index by positions instead of results and taps."""
    unit = 0 if slide.axis is None else coefficient(index, slide.axis.name) // slide.move
    if slide.axis is None or not unit:
        return index
    gone = {slide.axis.name} | ({slide.taps.name} if slide.taps is not None else set())
    terms = [(axis, c) for axis, c in index.terms if axis not in gone]
    return Affine(tuple(sorted([*terms, (name, unit)])), index.offset - unit * slide.before)
