"""What printers of sums over windows share: an image in the order of positions, and the end of a row of sums.

Positions are padded, so sums need no guards.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Protocol

from kernelwright.ir.arguments import Argument
from kernelwright.ir.dag import Dag
from kernelwright.ir.normalise import axis_sizes, coefficient
from kernelwright.ir.program import Axis, Region
from kernelwright.ir.text import Names, bare
from kernelwright.ir.window_products import COLUMN_AT, ROW_AT, WindowForm
from kernelwright.targets.cpp.choices import Choices
from kernelwright.targets.cpp.form_printer import FormPrinter
from kernelwright.targets.cpp.text import CppRenderer

_OWN = (
    "l", "k", "i", "j", "r", "t", "v", "c", "x", "d", "at", "row", "column", "filter", "window", "taps",
    "sums", "total", "memory", "count", "to", "row_begin", "row_end", "filter_begin", "filter_end", "ROWS",
    "COLUMNS", "VECTORS", "FILTERS", "tiles", "products", "filters", "group", "plane", "g", "h", "p", "y",
    "first", "end",
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


class ImagePrinter(FormPrinter):
    """Writes parts of the functions of one region."""

    def __init__(
        self, region: Region, choices: Choices, tiling: ImageTiling, declare: Callable[[Argument], str]
    ) -> None:
        form = tiling.form
        super().__init__(region, choices, form.dag, declare, own=_OWN, outer=form.outer)
        self._layout, self.form = tiling, form
        positions = [Axis(name, 0) for name in (ROW_AT, COLUMN_AT)]
        axes = (*form.dag.region.kept, *form.dag.region.inner, *positions)
        self.axes = {a.name: self.names.new(a.name) for a in axes}

    def _rows(self, count: str, row: str, place: str, head: Sequence[str] = ()) -> None:
        """Write rows of positions, those of the image itself in a loop of their own, without a guard of rows.

        Without guards a compiler loads every other number with vectors, and computes what is the same for all
        rows before them.

        Args:
            count: how many rows.
            row: the first of them.
            place: where row ``j`` begins in memory.
            head: what comes first for a row that may lie outside.
        """
        dag = Dag(self.form.image)
        renderer, plain, names = self._renderer(dag), self._renderer(dag), self.names.copy()
        bounds = (
            n for n in sorted(dag.needed([dag.groups[0].actions[0].node])) if dag.nodes[n].kind == "bound"
        )
        guards = [n for n in bounds if COLUMN_AT not in dag.axes[n] and not renderer.always_holds(n)]
        low, high = _unguarded(dag, ROW_AT, renderer.ranges[ROW_AT][1] + 1)
        plain.ranges[ROW_AT] = (low, max(high - 1, low))
        is_split = bool(guards) and low < high and all(map(plain.always_holds, guards))
        place_of = [f"const int {self.axes[ROW_AT]} = {row} + j;", f"float* const to = window + {place};"]
        with self.out.block(f"for (int j = 0; j < {count}; ++j)"), names.scope(), renderer.scope():
            if is_split:
                self.out.line(f"if ({row} + j >= {low} && {row} + j < {high}) continue;")
            for line in (*place_of, *head):
                self.out.line(line)
            for number in guards:
                name = names.new("inside")
                self.out.line(f"const bool {name} = {bare(renderer.text(number))};")
                renderer.bind(number, name)
            self._phases(renderer, names)
        if is_split:
            self.out.line(f"const int first = {row} < {low} ? {low} - ({row}) : 0;")
            self.out.line(f"const int end = least({count}, {high} - ({row}));")
            with self.out.block("for (int j = first; j < end; ++j)"):
                for line in place_of:
                    self.out.line(line)
                self._phases(plain, names)

    def _phases(self, renderer: CppRenderer, names: Names) -> None:
        """Write one row of positions, phase after phase; the middle needs no guards along the row."""
        size = axis_sizes(self.form.image)[COLUMN_AT]
        low, high = _unguarded(renderer.dag, COLUMN_AT, size)
        t = self._layout
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
            self._values(renderer, names).bind_all(actions)
            target = f"to[{first} + l]" if first else "to[l]"
            self.out.line(f"{target} = {bare(renderer.text(actions[0].node))};")

    def _flat(self, axes: Sequence[Axis]) -> str:
        """Return the position along some axes taken as one."""
        terms, step = [], 1
        for axis in reversed(axes):
            terms.append(self.axes[axis.name] + (f" * {step}" if step > 1 else ""))
            step *= axis.size
        return " + ".join(reversed(terms))

    def _epilogue(self) -> None:
        """Write what becomes of a row of sums."""
        f = self.form
        assert f.columns.axis is not None
        column = self.axes[f.columns.axis.name]
        renderer, names = self._renderer(), self.names.copy()
        blocks = self._streamed(names)
        self.out.line("#pragma omp simd")
        with self.out.block("for (int l = 0; l < COLUMNS; ++l)"), names.scope(), renderer.scope():
            self.out.line(f"const int {column} = column + l;")
            self.out.line(f"const float total = sums[i * {self._layout.columns} + l];")
            renderer.bind(f.total, "total")
            self._values(renderer, names).bind_all(f.epilogue)
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


def _unguarded(dag: Dag, axis: str, size: int) -> tuple[int, int]:
    """Return the positions on an axis, from and to, at which no guard of its own is needed."""
    low, high = 0, size
    for number, node in enumerate(dag.nodes):
        if node.kind != "bound" or axis not in dag.axes[number]:
            continue
        step = coefficient(node.index, axis)
        if dag.axes[number] != {axis} or step < 1:
            return 0, 0
        low = max(low, math.ceil(-node.index.offset / step))
        high = min(high, (node.size - 1 - node.index.offset) // step + 1)
    return (low, high) if low < high else (0, 0)
