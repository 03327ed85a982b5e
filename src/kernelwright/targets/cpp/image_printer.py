"""What printers of sums over windows share: an image in the order of positions, and the end of a row of sums.

Positions are padded, so sums need no guards. Vectors are GCC's vector extensions, which clang has too. Sizes
are literals: a tail has its own function.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from kernelwright.ir.arguments import Argument, signature
from kernelwright.ir.dag import Action, Dag
from kernelwright.ir.normalise import axis_sizes, coefficient
from kernelwright.ir.program import Axis, Region
from kernelwright.ir.text import Names, bare
from kernelwright.ir.window_products import COLUMN_AT, ROW_AT, WindowForm
from kernelwright.ir.writer import Writer
from kernelwright.targets.cpp.choices import Choices
from kernelwright.targets.cpp.text import CppRenderer
from kernelwright.targets.cpp.values import ValueWriter

_OWN = (
    "l", "k", "i", "j", "r", "t", "v", "c", "x", "d", "at", "row", "column", "filter", "window", "taps",
    "sums", "total", "memory", "count", "to", "row_begin", "row_end", "filter_begin", "filter_end", "ROWS",
    "COLUMNS", "VECTORS", "FILTERS", "tiles", "products", "filters", "group", "plane", "g", "h", "p", "y",
)  # fmt: skip
"""Names that the printed functions use for themselves."""


class ImageTiling(Protocol):
    """What is asked of how sums over windows are cut up; sizes in floats."""

    @property
    def form(self) -> WindowForm:
        """What is added up."""

    @property
    def phases(self) -> int:
        """Parts of a row of positions, which hold each so many-th position."""

    @property
    def pitch(self) -> int:
        """Of a phase."""

    @property
    def columns(self) -> int:
        """From one row of sums to the next."""


class ImagePrinter:
    """Writes parts of the functions of one region."""

    def __init__(
        self, region: Region, choices: Choices, tiling: ImageTiling, declare: Callable[[Argument], str]
    ) -> None:
        self.region, self.choices, self._layout = region, choices, tiling
        self.form: WindowForm = tiling.form
        self.name = region.name
        names = Names([region.name, *_OWN])
        self.arguments = tuple(replace(a, name=names.new(a.name)) for a in signature(region))
        form = self.form.dag.region
        positions = [Axis(name, 0) for name in (ROW_AT, COLUMN_AT)]
        self.axes = {a.name: names.new(a.name) for a in (*form.kept, *form.inner, *positions)}
        self.taken = [*(a.name for a in self.arguments), region.name, *_OWN, *self.axes.values()]
        self.pointers = {a.buffer: a.name for a in self.arguments}
        self.parameters = [declare(a) for a in self.arguments]
        self.of_image = [f"int {self.axes[a.name]}" for a in self.form.outer]
        self.of_filter = [f"int {self.axes[a.name]}" for a in self.form.filters]
        self.out = Writer()

    def _row(self) -> None:
        """Write one row of positions, phase after phase; the middle needs no guards along the row."""
        f, t = self.form, self._layout
        dag = Dag(f.image)
        node = dag.groups[0].actions[0].node
        size = axis_sizes(f.image)[COLUMN_AT]
        low, high = _unguarded(dag, size)
        renderer, names = self._renderer(dag), Names(self.taken)
        for number in sorted(dag.needed([node])):
            of_row = dag.nodes[number].kind == "bound" and COLUMN_AT not in dag.axes[number]
            if of_row and not renderer.always_holds(number):
                name = names.new("inside")
                self.out.line(f"const bool {name} = {bare(renderer.text(number))};")
                renderer.bind(number, name)
        move = t.phases
        for phase in range(move):
            first = phase * t.pitch
            cuts = [math.ceil((cut - phase) / move) for cut in (phase, low, max(low, high), size)]
            for (a, b), (start, stop) in zip(
                itertools.pairwise(cuts), ((0, low), (low, high), (high, size)), strict=True
            ):
                if a < b:
                    renderer.ranges[COLUMN_AT] = (start, stop - 1)
                    self._part_of_row(renderer, names, (a, b), phase)
            if cuts[-1] < t.pitch:
                target = f"to[{first} + l]" if first else "to[l]"
                self.out.line(f"for (int l = {cuts[-1]}; l < {t.pitch}; ++l) {target} = 0.0f;")

    def _part_of_row(self, renderer: CppRenderer, names: Names, part: tuple[int, int], phase: int) -> None:
        move, first = self._layout.phases, phase * self._layout.pitch
        self.out.line("#pragma omp simd")
        with self.out.block(f"for (int l = {part[0]}; l < {part[1]}; ++l)"), renderer.scope(), names.scope():
            at = "l" if move == 1 else f"l * {move} + {phase}"
            self.out.line(f"const int {self.axes[COLUMN_AT]} = {at};")
            actions = renderer.dag.groups[0].actions
            values = ValueWriter(self.choices, renderer.dag, renderer, names, self.out)
            values.bind_all(actions)
            target = f"to[{first} + l]" if first else "to[l]"
            self.out.line(f"{target} = {bare(renderer.text(actions[0].node))};")

    def _flat(self, axes: Sequence[Axis]) -> str:
        """Return the position along some axes taken as one."""
        terms, step = [], 1
        for axis in reversed(axes):
            terms.append(self.axes[axis.name] + (f" * {step}" if step > 1 else ""))
            step *= axis.size
        return " + ".join(reversed(terms))

    def _renderer(self, dag: Dag) -> CppRenderer:
        ranges = {a.name: (0, a.size - 1) for a in (*dag.region.kept, *dag.region.inner)}
        renderer = CppRenderer(dag, self.pointers, self.axes, ranges)
        renderer.exp_degree = self.choices.exp_degree
        return renderer

    def _epilogue(self) -> None:
        """Write what becomes of a row of sums."""
        f = self.form
        assert f.columns.axis is not None
        column = self.axes[f.columns.axis.name]
        renderer, names = self._renderer(f.dag), Names(self.taken)
        blocks = self._streamed(names)
        self.out.line("#pragma omp simd")
        with self.out.block("for (int l = 0; l < COLUMNS; ++l)"), names.scope(), renderer.scope():
            self.out.line(f"const int {column} = column + l;")
            self.out.line(f"const float total = sums[i * {self._layout.columns} + l];")
            renderer.bind(f.total, "total")
            ValueWriter(self.choices, f.dag, renderer, names, self.out).bind_all(f.epilogue)
            for position, action in enumerate(f.epilogue):
                block = blocks.get(position)
                place = f"{block}[l]" if block else self._place_of(action, renderer)
                self.out.line(f"{place} = {bare(renderer.text(action.node))};")
        renderer.axes[f.columns.axis.name] = "column"
        for position, block in blocks.items():
            place = self._place_of(f.epilogue[position], renderer)
            self.out.line(f"stream_out(&{place}, {block}, COLUMNS);")

    def _streamed(self, names: Names) -> dict[int, str]:
        """Declare a block for every store that goes past the caches; return their names by position."""
        found: dict[int, str] = {}
        lane = self.form.columns.axis
        for position, action in enumerate(self.form.epilogue):
            assert action.store is not None and lane is not None
            is_even = coefficient(action.store.index, lane.name) == 1
            if self.choices.stream and action.stage.dtype == "float32" and is_even:
                found[position] = names.new(f"{self.pointers[action.store.buffer]}_block")
                self.out.line(f"alignas(64) float {found[position]}[COLUMNS];")
        return found

    def _place_of(self, action: Action, renderer: CppRenderer) -> str:
        assert action.store is not None
        return f"{self.pointers[action.store.buffer]}[{renderer.index(action.store.index)}]"

    def _given(self, axes: Sequence[Axis]) -> str:
        """Return the arguments that every function is handed on, with a comma at the end."""
        return "".join(
            f"{x}, " for x in [*(a.name for a in self.arguments), *(self.axes[a.name] for a in axes)]
        )


def loop_over(variable: str, size: int, step: int = 1) -> str:
    advance = f"++{variable}" if step == 1 else f"{variable} += {step}"
    return f"for (int {variable} = 0; {variable} < {size}; {advance})"


def _unguarded(dag: Dag, size: int) -> tuple[int, int]:
    """Return the columns, from and to, at which no guard of a row's own is needed."""
    low, high = 0, size
    for number, node in enumerate(dag.nodes):
        if node.kind != "bound" or COLUMN_AT not in dag.axes[number]:
            continue
        step = coefficient(node.index, COLUMN_AT)
        if dag.axes[number] != {COLUMN_AT} or step < 1:
            return 0, 0
        low = max(low, math.ceil(-node.index.offset / step))
        high = min(high, (node.size - 1 - node.index.offset) // step + 1)
    return (low, high) if low < high else (0, 0)
