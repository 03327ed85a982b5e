"""Sums over windows as C++: part of an image in the order of positions, then tiles of sums in registers.

The part is padded, so tiles need no guards. A row of it is loaded once for all rows of a tile that need it.
Vectors are GCC's vector extensions, which clang has too. Sizes are literals: a tail has its own function.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from kernelwright.ir.arguments import Argument, signature
from kernelwright.ir.dag import Action, Dag
from kernelwright.ir.normalise import axis_sizes, coefficient
from kernelwright.ir.program import Axis, Region
from kernelwright.ir.text import Names, bare, wrapped
from kernelwright.ir.window_products import COLUMN_AT, ROW_AT, Slide, WindowForm
from kernelwright.ir.writer import Writer
from kernelwright.targets.cpp.choices import Choices
from kernelwright.targets.cpp.pieces import digits, extents
from kernelwright.targets.cpp.text import CppRenderer
from kernelwright.targets.cpp.values import ValueWriter
from kernelwright.targets.cpp.windows import WindowTiling

_OWN = (
    "l", "k", "i", "j", "r", "t", "v", "c", "x", "d", "at", "row", "column", "filter", "window", "taps",
    "sums", "total", "memory", "count", "to", "row_begin", "row_end", "filter_begin", "filter_end", "ROWS",
    "COLUMNS", "VECTORS",
)  # fmt: skip
"""Names that the printed functions use for themselves."""
MOST_ROW_TAPS = 11
"""Rows of a filter up to which a tile's loops are unrolled over them."""


class WindowPrinter:
    """Writes the functions of one region."""

    def __init__(
        self, region: Region, choices: Choices, tiling: WindowTiling, declare: Callable[[Argument], str]
    ):
        self.region, self.choices, self.tiling = region, choices, tiling
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

    def text(self) -> str:
        """Return the text of the region's functions."""
        f, t = self.form, self.tiling
        if self.region.comment:
            self.out.line(f"// {self.region.comment}")
        sums = f"{f.images * f.n_filters} times {f.rows.size} x {f.columns.size} sums"
        window = f"{f.planes} x {f.rows.n_taps} x {f.columns.n_taps}"
        self.out.line(f"// {sums} over windows of {window}, {t.rows} x {t.columns} of them in registers.")
        self.out.line(f"typedef float {self.name}_vector __attribute__((vector_size({4 * t.lanes})));")
        loose = f"vector_size({4 * t.lanes}), aligned(4), may_alias"
        self.out.line(f"typedef float {self.name}_loose __attribute__(({loose}));")
        self.out.line("")
        self._tile()
        self._positions()
        self._taps()
        self._results()
        self._block()
        self._entry()
        return self.out.text()

    # -- the tile ----------------------------------------------------------------------------------

    def _tile(self) -> None:
        f, t = self.form, self.tiling
        self.out.line("// A tile of sums: ROWS rows of vectors, of which each tap adds a product to each.")
        self.out.line("template <int ROWS, int VECTORS>")
        parameters = ["const float* window", "const float* taps", "float* sums"]
        with self.out.block(wrapped(f"static inline void {self.name}_tile(", parameters, ")")):
            self.out.line(f"{self.name}_vector c[ROWS][VECTORS];")
            self._each_sum(f"c[i][v] = {self.name}_vector{{}};")
            with ExitStack() as loops:
                if f.planes > 1:
                    move = f"window += {t.plane_floats}L"
                    head = f"for (int k = 0; k < {f.planes}; ++k, {move})"
                    loops.enter_context(self.out.block(head))
                advance = f"++t, taps += {f.rows.n_taps}"
                loops.enter_context(self.out.block(f"for (int t = 0; t < {f.columns.n_taps}; {advance})"))
                self.out.line(f"const float* const at = window + {_place('t', f.columns, t.pitch)};")
                if 1 < f.rows.n_taps <= MOST_ROW_TAPS:
                    self._rows_of_window()
                else:
                    self._rows_of_filter()
            self._each_sum(f"*({self.name}_vector*)(sums + i * {t.columns} + v * {t.lanes}) = c[i][v];")
        self.out.line("")

    def _rows_of_window(self) -> None:
        """Each row of the window is loaded once, for all sums that it has a part in."""
        slide, t = self.form.rows, self.tiling
        span = f"(ROWS - 1) * {slide.move} + {slide.positions(1)}"
        self.out.line(f"#pragma GCC unroll {slide.positions(t.rows)}")
        with self.out.block(f"for (int j = 0; j < {span}; ++j)"):
            self._load("at + j")
            self.out.line(f"#pragma GCC unroll {slide.n_taps}")
            with self.out.block(f"for (int r = 0; r < {slide.n_taps}; ++r)"):
                self.out.line(f"const int d = j - ({_affine('r', slide)});")
                i = "d" if slide.move == 1 else f"d / {slide.move}"
                whole = "" if slide.move == 1 else f" && d % {slide.move} == 0"
                with self.out.block(f"if (d >= 0{whole} && {i} < ROWS)"):
                    self._add(i)

    def _rows_of_filter(self) -> None:
        """As many rows of the filter as there are, each with its own loads."""
        slide = self.form.rows
        with self.out.block(f"for (int r = 0; r < {slide.n_taps}; ++r)"):
            self.out.line(f"#pragma GCC unroll {self.tiling.rows}")
            with self.out.block("for (int i = 0; i < ROWS; ++i)"):
                self._load(f"at + (i * {slide.move} + {_affine('r', slide)})")
                self._add("i")

    def _load(self, address: str) -> None:
        """Declare the vectors at a row of positions, given as ``at + ROW``."""
        t = self.tiling
        self.out.line(f"{self.name}_vector x[VECTORS];")
        self.out.line(f"#pragma GCC unroll {t.vectors}")
        place = f"{address} * {t.row_floats} + v * {t.lanes}"
        self.out.line(f"for (int v = 0; v < VECTORS; ++v) x[v] = *(const {self.name}_loose*)({place});")

    def _add(self, row: str) -> None:
        self.out.line(f"#pragma GCC unroll {self.tiling.vectors}")
        self.out.line(f"for (int v = 0; v < VECTORS; ++v) c[{row}][v] += taps[r] * x[v];")

    def _each_sum(self, statement: str) -> None:
        self.out.line(f"#pragma GCC unroll {self.tiling.rows}")
        self.out.line("for (int i = 0; i < ROWS; ++i)")
        self.out.line(f"#pragma GCC unroll {self.tiling.vectors}")
        self.out.line(f"  for (int v = 0; v < VECTORS; ++v) {statement}")

    # -- the order of positions --------------------------------------------------------------------

    def _positions(self) -> None:
        """Write the function that brings rows of an image into the order in which tiles read."""
        f, t = self.form, self.tiling
        own = ["int row", "int count", "float* window"]
        head = f"static inline void {self.name}_positions("
        self.out.line(
            "// Rows of the image from one that a result looks at first, with zeros where nothing is."
        )
        with (
            self.out.block(wrapped(head, [*self.parameters, *self.of_image, *own], ")")),
            ExitStack() as loops,
        ):
            for axis in f.inner:
                loops.enter_context(self.out.block(_loop(self.axes[axis.name], axis.size)))
            loops.enter_context(self.out.block("for (int j = 0; j < count; ++j)"))
            self.out.line(f"const int {self.axes[ROW_AT]} = row * {f.rows.move} + j;")
            plane = self._flat(f.inner)
            place = f"({plane}) * {t.plane_floats}L + j * {t.row_floats}" if plane else f"j * {t.row_floats}"
            self.out.line(f"float* const to = window + {place};")
            self._row()
        self.out.line("")

    def _row(self) -> None:
        """Write one row of positions, phase after phase; the middle needs no guards along the row."""
        f, t = self.form, self.tiling
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
        move = f.columns.move
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
        move, first = self.form.columns.move, phase * self.tiling.pitch
        self.out.line("#pragma omp simd")
        with self.out.block(f"for (int l = {part[0]}; l < {part[1]}; ++l)"), renderer.scope(), names.scope():
            at = "l" if move == 1 else f"l * {move} + {phase}"
            self.out.line(f"const int {self.axes[COLUMN_AT]} = {at};")
            actions = renderer.dag.groups[0].actions
            values = ValueWriter(self.choices, renderer.dag, renderer, names, self.out)
            values.bind_all(actions)
            target = f"to[{first} + l]" if first else "to[l]"
            self.out.line(f"{target} = {bare(renderer.text(actions[0].node))};")

    # -- the filter --------------------------------------------------------------------------------

    def _taps(self) -> None:
        """Write the function that brings a filter into the order in which tiles read: its columns first."""
        f = self.form
        taps = [slide.taps for slide in (f.columns, f.rows) if slide.taps is not None]
        order = (*f.inner, *taps)
        head = f"static inline void {self.name}_taps("
        parameters = [*self.parameters, *self.of_image, *self.of_filter, "float* taps"]
        with self.out.block(wrapped(head, parameters, ")")), ExitStack() as loops:
            for axis in order:
                loops.enter_context(self.out.block(_loop(self.axes[axis.name], axis.size)))
            value = bare(self._renderer(f.dag).text(f.weight))
            self.out.line(f"taps[{self._flat(order)}] = {value};")
        self.out.line("")

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

    # -- what becomes of the sums ------------------------------------------------------------------

    def _results(self) -> None:
        """Write the function that computes a tile and stores it, with the epilogue."""
        f, t = self.form, self.tiling
        self.out.line("template <int ROWS, int COLUMNS>")
        own = ["int row", "int column", "const float* at", "const float* taps"]
        parameters = [*self.parameters, *self.of_image, *self.of_filter, *own]
        with self.out.block(wrapped(f"static inline void {self.name}_results(", parameters, ")")):
            self.out.line(f"alignas(64) float sums[ROWS * {t.columns}];")
            vectors = f"(COLUMNS + {t.lanes - 1}) / {t.lanes}"
            self.out.line(f"{self.name}_tile<ROWS, {vectors}>(at, taps, sums);")
            with self.out.block("for (int i = 0; i < ROWS; ++i)"):
                if f.rows.axis is not None:
                    self.out.line(f"const int {self.axes[f.rows.axis.name]} = row + i;")
                self._epilogue()
        self.out.line("")

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
            self.out.line(f"const float total = sums[i * {self.tiling.columns} + l];")
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

    # -- blocks and threads ------------------------------------------------------------------------

    def _parts(self) -> dict[str, int]:
        """Return name -> floats of a thread's own memory, each a whole number of cache lines."""
        f, t = self.form, self.tiling
        parts = {
            "window": f.planes * t.plane_floats,
            "taps": f.planes * f.columns.n_taps * f.rows.n_taps,
        }
        return {name: math.ceil(size / 16) * 16 for name, size in parts.items()}

    def _block(self) -> None:
        """Write the function for a block of rows and filters of one image."""
        f, t = self.form, self.tiling
        own = ["int row_begin", "int filter_begin", "float* memory"]
        head = f"static void {self.name}_block("
        with self.out.block(wrapped(head, [*self.parameters, *self.of_image, *own], ")")):
            self.out.line(f"const int row_end = least(row_begin + {t.block_rows}, {f.rows.size});")
            used = 0
            for name, size in self._parts().items():
                self.out.line(f"float* const {name} = memory{f' + {used}' if used else ''};")
                used += size
            span = f"(row_end - row_begin - 1) * {f.rows.move} + {f.rows.positions(1)}"
            given = self._given(f.outer)
            self.out.line(wrapped(f"{self.name}_positions(", [f"{given}row_begin", span, "window"], ");"))
            with self._each_filter():
                self.out.line(f"{self.name}_taps({self._given((*f.outer, *f.filters))}taps);")
                self._tiles()
        self.out.line("")

    @contextmanager
    def _each_filter(self) -> Iterator[None]:
        f, t = self.form, self.tiling
        if not f.filters:
            yield
            return
        end = f"least(filter_begin + {t.block_filters}, {f.n_filters})"
        self.out.line(f"const int filter_end = {end};")
        with self.out.block("for (int filter = filter_begin; filter < filter_end; ++filter)"):
            for axis, part in digits(f.filters, "filter"):
                self.out.line(f"const int {self.axes[axis.name]} = {part};")
            yield

    def _tiles(self) -> None:
        f, t = self.form, self.tiling
        with (
            self.out.block(f"for (int row = row_begin; row < row_end; row += {t.rows})"),
            self.out.block(f"for (int column = 0; column < {f.columns.size}; column += {t.columns})"),
        ):
            down = f"(row - row_begin) * {f.rows.move * t.row_floats}"
            self.out.line(f"const float* const at = window + {down} + column;")
            given = self._given((*f.outer, *f.filters))
            sides = (extents("row", f.rows.size, t.rows), extents("column", f.columns.size, t.columns))
            cases = list(itertools.product(*sides))
            for case in cases:
                (rows, _), (columns, _) = case
                condition = " && ".join(text for _, text in case if text)
                test = "" if case == cases[-1] else f"if ({condition}) "
                call = f"{self.name}_results<{rows}, {columns}>({given}row, column, at, taps);"
                self.out.line(f"{'' if case == cases[0] else 'else '}{test}{call}")

    def _given(self, axes: Sequence[Axis]) -> str:
        """Return the arguments that every function is handed on, with a comma at the end."""
        return "".join(
            f"{x}, " for x in [*(a.name for a in self.arguments), *(self.axes[a.name] for a in axes)]
        )

    def _entry(self) -> None:
        f, t = self.form, self.tiling
        loops = [_loop(self.axes[a.name], a.size) for a in f.outer]
        loops.append(_loop("row", f.rows.size, t.block_rows))
        loops.append(_loop("filter", f.n_filters, t.block_filters))
        with self.out.block(wrapped(f'extern "C" void {self.name}(', self.parameters, ")")):
            pragma = ""
            if t.is_shared and self.choices.threads != 1:
                threads = f" num_threads({self.choices.threads})" if self.choices.threads else ""
                kind = f"dynamic, {self.choices.grain}" if self.choices.grain else "static"
                self.out.line(f"#pragma omp parallel{threads}")
                pragma = f"#pragma omp for collapse({len(loops)}) schedule({kind})"
            with self.out.block(""):
                self.out.line(f"float* const memory = scratch_floats({sum(self._parts().values())});")
                if pragma:
                    self.out.line(pragma)
                for depth, loop in enumerate(loops):
                    self.out.line("  " * depth + loop)
                call = f"{self.name}_block({self._given(f.outer)}row, filter, memory);"
                self.out.line("  " * len(loops) + call)


def _loop(variable: str, size: int, step: int = 1) -> str:
    advance = f"++{variable}" if step == 1 else f"{variable} += {step}"
    return f"for (int {variable} = 0; {variable} < {size}; {advance})"


def _affine(tap: str, slide: Slide) -> str:
    """Return the position of a tap, seen from the first position of a result."""
    term = tap if slide.step == 1 else f"{tap} * {slide.step}"
    if slide.taps is None:
        return "0"
    return f"{slide.before} + {term}" if slide.before else term


def _place(tap: str, slide: Slide, pitch: int) -> str:
    """Return where a tap's first position lies in a row, phase after phase."""
    position = _affine(tap, slide)
    if slide.move == 1 or slide.taps is None:
        return position
    return f"({position}) % {slide.move} * {pitch} + ({position}) / {slide.move}"


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
