"""Winograd's F(2 x 2, 3 x 3) as C++: filters and tiles are transformed, multiplied, and transformed back.

A block is some rows of tiles of one image, and of every plane. Its tiles lie one after the other, so that
vectors run along them in all steps.
"""

from collections.abc import Callable
from contextlib import ExitStack

from kernelwright.ir.arguments import Argument
from kernelwright.ir.program import Region
from kernelwright.ir.text import bare, wrapped
from kernelwright.ir.window_products import Slide
from kernelwright.targets.cpp.choices import Choices
from kernelwright.targets.cpp.form_printer import in_lines, loop_over
from kernelwright.targets.cpp.image_printer import ImagePrinter
from kernelwright.targets.cpp.pieces import digits
from kernelwright.targets.cpp.winograd import POINTS, STEP, WinogradTiling

SIDE, TAPS = 4, 3
"""Of a tile of positions, and of a filter."""


class WinogradPrinter(ImagePrinter):
    """Writes the functions of one region."""

    def __init__(
        self, region: Region, choices: Choices, tiling: WinogradTiling, declare: Callable[[Argument], str]
    ) -> None:
        super().__init__(region, choices, tiling, declare)
        self.tiling = tiling

    def text(self) -> str:
        """Return the text of the region's functions."""
        f, t = self.form, self.tiling
        sums = f"{f.images * f.n_filters} times {f.rows.size} x {f.columns.size} sums"
        self._opening(f"{sums} over windows of {f.planes} x 3 x 3, by Winograd's F(2 x 2, 3 x 3).", t.lanes)
        self._filter()
        self._tiles()
        self._products()
        self._results()
        self._block()
        self._entry()
        return self.out.text()

    # -- the filter --------------------------------------------------------------------------------

    def _filter(self) -> None:
        """Write the function that transforms some filters, plane by plane; the last ones may be none."""
        f, t = self.form, self.tiling
        self.out.line("// The planes of some filters, each as 4 x 4 points.")
        with self._function("filter", ["int group", "float* to"], axes=()), ExitStack() as loops:
            for axis in f.inner:
                loops.enter_context(self.out.block(loop_over(self.axes[axis.name], axis.size)))
            self.out.line(f"float points[{POINTS}][{t.filters}] = {{}};")
            count = f"least({t.filters}, {f.n_filters} - group)"
            with self.out.block(f"for (int i = 0; i < {count}; ++i)"):
                for axis, part in digits(f.filters, "(group + i)"):
                    self.out.line(f"const int {self.axes[axis.name]} = {part};")
                self._points()
            plane = self._flat(f.inner)
            self.out.line(f"float* const at = to{f' + ({plane}) * {t.filters}' if plane else ''};")
            self.out.line(f"for (int x = 0; x < {POINTS}; ++x)")
            place = f"at[x * {t.all_filters * f.planes}L + i]"
            self.out.line(f"  for (int i = 0; i < {t.filters}; ++i) {place} = points[x][i];")

    def _points(self) -> None:
        """Write the transform of one plane of one filter."""
        f = self.form
        taps = [slide.taps for slide in (f.rows, f.columns) if slide.taps is not None]
        sides = zip((f.rows, f.columns), taps, strict=True)
        places = [_place(slide, self.axes[axis.name]) for slide, axis in sides]
        self.out.line("float g[3][3], h[4][3];")
        with ExitStack() as loops:
            for axis in taps:
                loops.enter_context(self.out.block(loop_over(self.axes[axis.name], axis.size)))
            value = bare(self._renderer().text(f.weight))
            self.out.line(f"g[{places[0]}][{places[1]}] = {value};")
        with self.out.block("for (int c = 0; c < 3; ++c)"):
            self.out.line("h[0][c] = g[0][c];")
            self.out.line("h[1][c] = 0.5f * (g[0][c] + g[1][c] + g[2][c]);")
            self.out.line("h[2][c] = 0.5f * (g[0][c] - g[1][c] + g[2][c]);")
            self.out.line("h[3][c] = g[2][c];")
        with self.out.block("for (int r = 0; r < 4; ++r)"):
            self.out.line("points[4 * r][i] = h[r][0];")
            self.out.line("points[4 * r + 1][i] = 0.5f * (h[r][0] + h[r][1] + h[r][2]);")
            self.out.line("points[4 * r + 2][i] = 0.5f * (h[r][0] - h[r][1] + h[r][2]);")
            self.out.line("points[4 * r + 3][i] = h[r][2];")

    def _filters(self) -> None:
        """Write the loop that transforms all filters."""
        t = self.tiling
        self.out.line(f"for (int group = 0; group < {t.all_filters}; group += {t.filters})")
        to = f"filters + group * {self.form.planes}L"
        self.out.line(f"  {self.name}_filter({self._given(())}group, {to});")

    # -- the tiles ---------------------------------------------------------------------------------

    def _tiles(self) -> None:
        """Write the function that transforms the tiles of a block, plane by plane."""
        f, t = self.form, self.tiling
        self.out.line(
            "// Rows of tiles of an image, with zeros where nothing is; every plane as 4 x 4 points."
        )
        own = ["int row", "float* window", "float* tiles"]
        with self._function("tiles", own), ExitStack() as loops:
            for axis in f.inner:
                loops.enter_context(self.out.block(loop_over(self.axes[axis.name], axis.size)))
            count, row_floats = STEP * t.tile_rows + 2, t.phases * t.pitch
            beyond = (
                f"if (row + j >= {f.rows.positions(f.rows.size)}) {{",
                f"  for (int l = 0; l < {row_floats}; ++l) to[l] = 0.0f;",
                "  continue;",
                "}",
            )
            self._rows(str(count), "row", f"j * {row_floats}", beyond)
            plane = self._flat(f.inner)
            place = f" + ({plane}) * {t.block_tiles}L" if plane else ""
            self.out.line(f"float* const plane = tiles{place};")
            written = (t.tile_rows - 1) * t.row_tiles + t.tiles_written
            if written < t.block_vectors * t.lanes:
                last = f"plane[x * {f.planes * t.block_tiles}L + {(t.block_vectors - 1) * t.lanes} + l]"
                self.out.line(f"for (int x = 0; x < {POINTS}; ++x)")
                self.out.line(f"  for (int l = 0; l < {t.lanes}; ++l) {last} = 0.0f;")
            with (
                self.out.block(f"for (int r = 0; r < {t.tile_rows}; ++r)"),
                self.out.block(f"for (int l = 0; l < {t.row_tiles}; l += {t.lanes})"),
            ):
                self._tile()

    def _tile(self) -> None:
        """Write the transform of a vector of tiles."""
        t, vector, loose = self.tiling, f"{self.name}_vector", f"{self.name}_loose"
        self.out.line(f"{vector} d[4][4];")
        self.out.line("#pragma GCC unroll 4")
        with self.out.block("for (int i = 0; i < 4; ++i)"):
            self.out.line(f"const float* const p = window + (2 * r + i) * {t.phases * t.pitch} + l;")
            for number, at in enumerate(("p", f"p + {t.pitch}", "p + 1", f"p + {t.pitch + 1}")):
                self.out.line(f"const {vector} x{number} = *(const {loose}*)({at});")
            self.out.line("d[i][0] = x0 - x2, d[i][1] = x1 + x2, d[i][2] = x2 - x1, d[i][3] = x1 - x3;")
        self.out.line(f"float* const to = plane + r * {t.row_tiles} + l;")
        step = self.form.planes * t.block_tiles
        self.out.line("#pragma GCC unroll 4")
        with self.out.block("for (int c = 0; c < 4; ++c)"):
            for row, value in enumerate(("d[0] - d[2]", "d[1] + d[2]", "d[2] - d[1]", "d[1] - d[3]")):
                value = value.replace("]", "][c]")
                self.out.line(f"*({loose}*)(to + ({4 * row} + c) * {step}L) = {value};")

    # -- the products ------------------------------------------------------------------------------

    def _products(self) -> None:
        """Write the function that adds up planes at one point, for some filters and all tiles of a block."""
        f, t, vector = self.form, self.tiling, f"{self.name}_vector"
        self.out.line("// Sums over planes at one point: FILTERS rows of vectors of tiles in registers.")
        rows, vectors = (str(t.filters), t.filters), (str(t.vectors), t.vectors)
        with (
            self._tile_function(
                "products", ["const float* filters", "const float* tiles", "float* products"]
            ),
            self.out.block(f"for (int l = 0; l < {t.block_vectors * t.lanes}; l += {t.vectors * t.lanes})"),
        ):
            self.out.line(f"{vector} c[{t.filters}][{t.vectors}];")
            self._each_sum(f"c[i][v] = {vector}{{}};", rows, vectors)
            self.out.line("const float *g = filters, *at = tiles + l;")
            head = f"for (int k = 0; k < {f.planes}; ++k, g += {t.filters}, at += {t.block_tiles})"
            with self.out.block(head):
                self.out.line(f"{vector} x[{t.vectors}];")
                self.out.line(f"#pragma GCC unroll {t.vectors}")
                load = f"x[v] = *(const {vector}*)(at + v * {t.lanes});"
                self.out.line(f"for (int v = 0; v < {t.vectors}; ++v) {load}")
                self._each_sum("c[i][v] += g[i] * x[v];", rows, vectors)
            place = f"products + i * {t.block_tiles} + l + v * {t.lanes}"
            self._each_sum(f"*({vector}*)({place}) = c[i][v];", rows, vectors)

    # -- what becomes of the sums ------------------------------------------------------------------

    def _results(self) -> None:
        """Write the function that transforms the sums of one filter back, and the epilogue."""
        f, t = self.form, self.tiling
        own = ["int row_begin", "int row_end", "const float* products"]
        assert f.rows.axis is not None
        with self._function("results", own, axes=(*f.outer, *f.filters)):
            self.out.line(f"const int COLUMNS = {f.columns.size}, column = 0;")
            with self.out.block("for (int r = 0, row = row_begin; row < row_end; ++r, row += 2)"):
                self.out.line(f"alignas(64) float y[4][{t.tiles_written}], sums[{STEP * t.columns}];")
                with self.out.block(f"for (int l = 0; l < {t.row_tiles}; l += {t.lanes})"):
                    self._back()
                with self.out.block("for (int i = 0; i < 2; ++i)"):
                    self.out.line("#pragma omp simd")
                    with self.out.block(f"for (int l = 0; l < {t.tiles_written}; ++l)"):
                        self.out.line(f"sums[i * {t.columns} + 2 * l] = y[2 * i][l];")
                        self.out.line(f"sums[i * {t.columns} + 2 * l + 1] = y[2 * i + 1][l];")
                with self.out.block("for (int i = 0; i < 2 && row + i < row_end; ++i)"):
                    self.out.line(f"const int {self.axes[f.rows.axis.name]} = row + i;")
                    self._epilogue()

    def _back(self) -> None:
        """Write the transform of a vector of sums to four results each, one after the other."""
        t, vector = self.tiling, f"{self.name}_vector"
        step = t.filters * t.block_tiles
        self.out.line(f"const float* const p = products + r * {t.row_tiles} + l;")
        self.out.line(f"{vector} h[2][4];")
        self.out.line("#pragma GCC unroll 4")
        with self.out.block("for (int c = 0; c < 4; ++c)"):
            for row in range(4):
                load = f"*(const {self.name}_loose*)(p + ({4 * row} + c) * {step}L)"
                self.out.line(f"const {vector} x{row} = {load};")
            self.out.line("h[0][c] = x0 + x1 + x2, h[1][c] = x1 - x2 - x3;")
        self.out.line("#pragma GCC unroll 2")
        with self.out.block("for (int i = 0; i < 2; ++i)"):
            self.out.line(f"*({vector}*)(y[2 * i] + l) = h[i][0] + h[i][1] + h[i][2];")
            self.out.line(f"*({vector}*)(y[2 * i + 1] + l) = h[i][1] - h[i][2] - h[i][3];")

    # -- blocks and threads ------------------------------------------------------------------------

    def _parts(self) -> dict[str, int]:
        """Return name -> floats of a thread's own memory, each a whole number of cache lines."""
        f, t = self.form, self.tiling
        parts = {
            "window": (STEP * t.tile_rows + 2) * t.phases * t.pitch,
            "tiles": POINTS * f.planes * t.block_tiles,
            "products": POINTS * t.filters * t.block_tiles,
        }
        return in_lines(parts)

    def _block(self) -> None:
        """Write the function for a block of rows and filters of one image."""
        f, t = self.form, self.tiling
        own = ["int row_begin", "int filter_begin", "const float* filters", "float* memory"]
        with self._function("block", own, inline=False):
            self.out.line(f"const int row_end = least(row_begin + {t.block_rows}, {f.rows.size});")
            self._memory_parts(self._parts())
            self.out.line(f"{self.name}_tiles({self._given()}row_begin, window, tiles);")
            end = f"least(filter_begin + {t.block_filters}, {f.n_filters})"
            self.out.line(f"const int filter_end = {end};")
            step = f"group += {t.filters}"
            with self.out.block(f"for (int group = filter_begin; group < filter_end; {step})"):
                self.out.line(f"for (int x = 0; x < {POINTS}; ++x)")
                places = (
                    f"filters + (x * {t.all_filters}L + group) * {f.planes}",
                    f"tiles + x * {f.planes * t.block_tiles}L",
                    f"products + x * {t.filters * t.block_tiles}L",
                )
                self.out.line("  " + wrapped(f"{self.name}_products(", places, ");"))
                self.out.line(f"const int most = least(group + {t.filters}, filter_end);")
                with self.out.block("for (int filter = group; filter < most; ++filter)"):
                    for axis, part in digits(f.filters, "filter"):
                        self.out.line(f"const int {self.axes[axis.name]} = {part};")
                    own_products = f"products + (filter - group) * {t.block_tiles}"
                    arguments = f"{self._given((*f.outer, *f.filters))}row_begin, row_end, {own_products}"
                    self.out.line(f"{self.name}_results({arguments});")

    def _entry(self) -> None:
        """Write the function that is called: all filters first, in memory of the calling thread."""
        f, t = self.form, self.tiling
        loops = [(self.axes[a.name], a.size, 1) for a in f.outer]
        loops += [("row", f.rows.size, t.block_rows), ("filter", f.n_filters, t.block_filters)]
        shared = POINTS * t.all_filters * f.planes
        memory = f"scratch_floats({shared + sum(self._parts().values())})"
        with self._entry_function():
            self.out.line(f"float* const filters = {memory};")
            with self._team(t.is_shared) as is_parallel:
                if is_parallel:
                    self.out.line("#pragma omp for schedule(static)")
                self._filters()
                self.out.line(f"float* const memory = {memory} + {shared};")
                indent = self._loops(loops, is_parallel=is_parallel)
                self.out.line(f"{indent}{self.name}_block({self._given()}row, filter, filters, memory);")


def _place(slide: Slide, tap: str) -> str:
    """Return where a tap lies among the positions of a window."""
    return tap if slide.step == 1 else f"{TAPS - 1} - {tap}"
