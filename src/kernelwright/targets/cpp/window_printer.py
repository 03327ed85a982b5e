"""Sums over windows as C++: part of an image in the order of positions, then tiles of sums in registers.

A row of the part is loaded once for all rows of a tile that need it.
"""

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from kernelwright.ir.arguments import Argument
from kernelwright.ir.program import Region
from kernelwright.ir.text import bare, wrapped
from kernelwright.ir.window_products import Slide
from kernelwright.targets.cpp.choices import Choices
from kernelwright.targets.cpp.form_printer import in_lines, loop_over
from kernelwright.targets.cpp.image_printer import ImagePrinter
from kernelwright.targets.cpp.pieces import digits, extents
from kernelwright.targets.cpp.windows import WindowTiling

MOST_ROW_TAPS = 11
"""Rows of a filter up to which a tile's loops are unrolled over them."""


class WindowPrinter(ImagePrinter):
    """Writes the functions of one region."""

    def __init__(
        self, region: Region, choices: Choices, tiling: WindowTiling, declare: Callable[[Argument], str]
    ) -> None:
        super().__init__(region, choices, tiling, declare)
        self.tiling = tiling

    def text(self) -> str:
        """Return the text of the region's functions."""
        f, t = self.form, self.tiling
        sums = f"{f.images * f.n_filters} times {f.rows.size} x {f.columns.size} sums"
        window = f"{f.planes} x {f.rows.n_taps} x {f.columns.n_taps}"
        self._opening(
            f"{sums} over windows of {window}, {t.rows} x {t.columns} of them in registers.", t.lanes
        )
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
        rows, vectors = ("ROWS", t.rows), ("VECTORS", t.vectors)
        with self._tile_function("tile", ["const float* window", "const float* taps", "float* sums"]):
            self.out.line(f"{self.name}_vector c[ROWS][VECTORS];")
            self._each_sum(f"c[i][v] = {self.name}_vector{{}};", rows, vectors)
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
            store = f"*({self.name}_vector*)(sums + i * {t.columns} + v * {t.lanes}) = c[i][v];"
            self._each_sum(store, rows, vectors)

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

    # -- the order of positions --------------------------------------------------------------------

    def _positions(self) -> None:
        """Write the function that brings rows of an image into the order in which tiles read."""
        f, t = self.form, self.tiling
        self.out.line(
            "// Rows of the image from one that a result looks at first, with zeros where nothing is."
        )
        with (
            self._function("positions", ["int row", "int count", "float* window"]),
            ExitStack() as loops,
        ):
            for axis in f.inner:
                loops.enter_context(self.out.block(loop_over(self.axes[axis.name], axis.size)))
            plane = self._flat(f.inner)
            place = f"({plane}) * {t.plane_floats}L + j * {t.row_floats}" if plane else f"j * {t.row_floats}"
            self._rows("count", f"row * {f.rows.move}", place)

    # -- the filter --------------------------------------------------------------------------------

    def _taps(self) -> None:
        """Write the function that brings a filter into the order in which tiles read: its columns first."""
        f = self.form
        taps = [slide.taps for slide in (f.columns, f.rows) if slide.taps is not None]
        order = (*f.inner, *taps)
        axes = (*f.outer, *f.filters)
        with self._function("taps", ["float* taps"], axes=axes), ExitStack() as loops:
            for axis in order:
                loops.enter_context(self.out.block(loop_over(self.axes[axis.name], axis.size)))
            value = bare(self._renderer().text(f.weight))
            self.out.line(f"taps[{self._flat(order)}] = {value};")

    # -- what becomes of the sums ------------------------------------------------------------------

    def _results(self) -> None:
        """Write the function that computes a tile and stores it, with the epilogue."""
        f, t = self.form, self.tiling
        self.out.line("template <int ROWS, int COLUMNS>")
        own = ["int row", "int column", "const float* at", "const float* taps"]
        with self._function("results", own, axes=(*f.outer, *f.filters)):
            self.out.line(f"alignas(64) float sums[ROWS * {t.columns}];")
            vectors = f"(COLUMNS + {t.lanes - 1}) / {t.lanes}"
            self.out.line(f"{self.name}_tile<ROWS, {vectors}>(at, taps, sums);")
            with self.out.block("for (int i = 0; i < ROWS; ++i)"):
                if f.rows.axis is not None:
                    self.out.line(f"const int {self.axes[f.rows.axis.name]} = row + i;")
                self._epilogue()

    # -- blocks and threads ------------------------------------------------------------------------

    def _parts(self) -> dict[str, int]:
        """Return name -> floats of a thread's own memory, each a whole number of cache lines."""
        f, t = self.form, self.tiling
        parts = {
            "window": f.planes * t.plane_floats,
            "taps": f.planes * f.columns.n_taps * f.rows.n_taps,
        }
        return in_lines(parts)

    def _block(self) -> None:
        """Write the function for a block of rows and filters of one image."""
        f, t = self.form, self.tiling
        own = ["int row_begin", "int filter_begin", "float* memory"]
        with self._function("block", own, inline=False):
            self.out.line(f"const int row_end = least(row_begin + {t.block_rows}, {f.rows.size});")
            self._memory_parts(self._parts())
            span = f"(row_end - row_begin - 1) * {f.rows.move} + {f.rows.positions(1)}"
            given = self._given()
            self.out.line(wrapped(f"{self.name}_positions(", [f"{given}row_begin", span, "window"], ");"))
            with self._each_filter():
                self.out.line(f"{self.name}_taps({self._given((*f.outer, *f.filters))}taps);")
                self._tiles()

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

    def _entry(self) -> None:
        f, t = self.form, self.tiling
        loops = [(self.axes[a.name], a.size, 1) for a in f.outer]
        loops += [("row", f.rows.size, t.block_rows), ("filter", f.n_filters, t.block_filters)]
        with self._entry_function(), self._team(t.is_shared) as is_parallel:
            self.out.line(f"float* const memory = scratch_floats({sum(self._parts().values())});")
            indent = self._loops(loops, is_parallel=is_parallel)
            self.out.line(f"{indent}{self.name}_block({self._given()}row, filter, memory);")


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
