"""One product as C++: tiles of sums in registers, operands packed where that pays, the epilogue on tiles."""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from kernelwright.ir.arguments import Argument
from kernelwright.ir.normalise import coefficient
from kernelwright.ir.products import ProductForm
from kernelwright.ir.program import Affine, Axis, Region
from kernelwright.ir.text import bare
from kernelwright.targets.cpp.choices import Choices
from kernelwright.targets.cpp.form_printer import FormPrinter, in_lines
from kernelwright.targets.cpp.pieces import digits, extents
from kernelwright.targets.cpp.tiling import Tiling, is_shared, plain_steps

_OWN = (
    "l", "k", "i", "j", "s", "e", "at", "run", "row", "column", "first", "count", "packed", "left", "right",
    "sums", "total", "right_step", "memory", "rows_end", "columns_end", "lanes", "tile", "is_whole",
    "c", "b", "a", "v", "ROWS", "COLUMNS",
)  # fmt: skip
"""Names that the printed functions use for themselves."""


class ProductPrinter(FormPrinter):
    """Writes the functions of one region."""

    def __init__(
        self, region: Region, choices: Choices, tiling: Tiling, declare: Callable[[Argument], str]
    ) -> None:
        form: ProductForm = tiling.form
        super().__init__(region, choices, form.dag, declare, own=_OWN, outer=form.outer)
        self.tiling, self.form = tiling, form
        self.outer_points, self.m, self.n, self.k = form.sizes
        axes = (*form.outer, *form.rows, *form.columns, *form.inner)
        self.axes = {a.name: self.names.new(a.name) for a in axes}

    def text(self) -> str:
        """Return the text of the region's functions."""
        t = self.tiling
        batches = f"{self.outer_points} times " if self.outer_points > 1 else ""
        tile = f"{t.rows} x {t.columns} of them in registers"
        self._opening(f"{batches}{self.m} x {self.n} sums of {self.k} products, {tile}.", t.lanes)
        if t.is_dot:
            self._dot_tile()
        else:
            self._tile()
            if t.packs_left:
                self._pack("left", self.form.left, self.form.rows, t.rows, "ROWS")
            if self._packs_some_right:
                self._pack("right", self.form.right, self.form.columns, t.columns, "COLUMNS")
        self._finish()
        self._block()
        self._entry()
        return self.out.text()

    # -- sizes -------------------------------------------------------------------------------------

    @property
    def _packs_some_right(self) -> bool:
        """The last columns, fewer than a tile has, are packed with zeros in any case."""
        return not self.tiling.is_dot and (self.tiling.packs_right or self.n % self.tiling.columns != 0)

    @property
    def _passes(self) -> bool:
        """Several passes over the inner axes: sums wait in memory between them."""
        return self.k > self.tiling.inner

    # -- the tile ----------------------------------------------------------------------------------

    def _tile(self) -> None:
        t, name = self.tiling, self.name
        row_step, left_step = self._left_steps()
        self.out.line(f"// Adds `count` products to a tile of sums: ROWS rows of {t.vectors} vectors.")
        self.out.line("template <int ROWS, bool IS_FIRST>")
        own = ["const float* left", "const float* right", "long right_step", "int count", "float* sums"]
        rows, vectors = ("ROWS", t.rows), (str(t.vectors), t.vectors)
        with self._tile_function("tile", own):
            self.out.line(f"{name}_vector c[ROWS][{t.vectors}];")
            load = f"*(const {name}_vector*)(sums + i * {t.columns} + v * {t.lanes})"
            self._each_sum(f"c[i][v] = IS_FIRST ? {name}_vector{{}} : {load};", rows, vectors)
            with self.out.block("for (int k = 0; k < count; ++k)"):
                self.out.line(f"{name}_vector b[{t.vectors}];")
                self.out.line(f"#pragma GCC unroll {t.vectors}")
                self.out.line(
                    f"for (int v = 0; v < {t.vectors}; ++v) "
                    f"b[v] = *(const {name}_loose*)(right + v * {t.lanes});"
                )
                self.out.line(f"#pragma GCC unroll {t.rows}")
                with self.out.block("for (int i = 0; i < ROWS; ++i)"):
                    self.out.line(f"const float a = left[{_times('i', row_step)}];")
                    self.out.line(f"#pragma GCC unroll {t.vectors}")
                    self.out.line(f"for (int v = 0; v < {t.vectors}; ++v) c[i][v] += a * b[v];")
                self.out.line(f"left += {left_step};")
                self.out.line("right += right_step;")
            store = f"*({name}_vector*)(sums + i * {t.columns} + v * {t.lanes}) = c[i][v];"
            self._each_sum(store, rows, vectors)

    def _dot_tile(self) -> None:
        """Vectors of partial sums along the inner axis, added up at the end."""
        t, name = self.tiling, self.name
        row_step, column_step = self._left_steps()[0], self._right_steps()[0]
        whole = self.k // t.lanes * t.lanes
        self.out.line("// A tile of sums, each the sum of a vector of partial sums.")
        self.out.line("template <int ROWS, int COLUMNS>")
        rows, columns = ("ROWS", t.rows), ("COLUMNS", t.vectors)
        with self._tile_function("tile", ["const float* left", "const float* right", "float* sums"]):
            self.out.line(f"{name}_vector c[ROWS][COLUMNS];")
            self._each_sum(f"c[i][v] = {name}_vector{{}};", rows, columns)
            with self.out.block(f"for (int k = 0; k < {whole}; k += {t.lanes})"):
                self.out.line(f"{name}_vector b[COLUMNS];")
                self.out.line(f"#pragma GCC unroll {t.vectors}")
                self.out.line(
                    f"for (int v = 0; v < COLUMNS; ++v) b[v] = *(const {name}_loose*)"
                    f"(right + {_times('v', column_step)} + k);"
                )
                self.out.line(f"#pragma GCC unroll {t.rows}")
                with self.out.block("for (int i = 0; i < ROWS; ++i)"):
                    self.out.line(
                        f"const {name}_vector a = *(const {name}_loose*)(left + {_times('i', row_step)} + k);"
                    )
                    self.out.line(f"#pragma GCC unroll {t.vectors}")
                    self.out.line("for (int v = 0; v < COLUMNS; ++v) c[i][v] += a * b[v];")
            self.out.line(f"alignas(64) float lanes[ROWS * COLUMNS * {t.lanes}];")
            store = f"*({name}_vector*)(lanes + (i * COLUMNS + v) * {t.lanes}) = c[i][v];"
            self._each_sum(store, rows, columns)
            with (
                self.out.block("for (int i = 0; i < ROWS; ++i)"),
                self.out.block("for (int v = 0; v < COLUMNS; ++v)"),
            ):
                self.out.line("float total = 0.0f;")
                self.out.line("#pragma omp simd reduction(+ : total)")
                lane = f"lanes[(i * COLUMNS + v) * {t.lanes} + l]"
                self.out.line(f"for (int l = 0; l < {t.lanes}; ++l) total += {lane};")
                if whole < self.k:
                    product = f"left[{_times('i', row_step)} + k] * right[{_times('v', column_step)} + k]"
                    self.out.line(f"for (int k = {whole}; k < {self.k}; ++k) total += {product};")
                self.out.line(f"sums[i * {t.columns} + v] = total;")

    def _left_steps(self) -> tuple[int, int]:
        """Return how far apart a tile's rows, and the elements of a row, lie in what it reads."""
        steps = plain_steps(self.form, self.form.left, "rows")
        return (1, self.tiling.rows) if self.tiling.packs_left or steps is None else steps

    def _right_steps(self) -> tuple[int, int]:
        steps = plain_steps(self.form, self.form.right, "columns")
        return (1, self.tiling.columns) if self.tiling.packs_right or steps is None else steps

    # -- packing -----------------------------------------------------------------------------------

    def _pack(self, side: str, operand: int, across: Sequence[Axis], width: int, lanes: str) -> None:
        """Write the function that brings rows or columns side by side, product after product."""
        self.out.line(f"template <int {lanes}>")
        start = "row" if side == "left" else "column"
        with self._function(f"pack_{side}", [f"int {start}", "int first", "int count", "float* packed"]):
            if self._is_along(operand, across):
                with self.out.block(f"for (int l = 0; l < {lanes}; ++l)"):
                    self._position(across, f"{start} + l")
                    with self._segments(self.form.inner, "first", "count", "k"):
                        self._element(operand, f"packed[k * {width} + l]")
                pad = f"for (int k = 0; k < count; ++k) packed[k * {width} + l] = 0.0f;"
                self.out.line(f"for (int l = {lanes}; l < {width}; ++l)")
                self.out.line(f"  {pad}")
            else:
                with self.out.block(f"for (int k = 0; k < count; ++k, packed += {width})"):
                    self._position(self.form.inner, "first + k")
                    with self._segments(across, start, lanes, "l"):
                        self._element(operand, "packed[l]")
                    self.out.line(f"for (int l = {lanes}; l < {width}; ++l) packed[l] = 0.0f;")

    def _is_along(self, operand: int, across: Sequence[Axis]) -> bool:
        """Tell whether the operand's memory runs along the products rather than across them."""
        dag = self.form.dag
        indices = [dag.nodes[n].index for n in dag.needed([operand]) if dag.nodes[n].kind == "load"]
        along = sum(abs(coefficient(i, self.form.inner[-1].name)) == 1 for i in indices)
        return along > sum(abs(coefficient(i, across[-1].name)) == 1 for i in indices)

    def _element(self, operand: int, target: str) -> None:
        self.out.line(f"{target} = {bare(self._renderer().text(operand))};")

    # -- positions along axes taken as one ---------------------------------------------------------

    def _position(self, axes: Sequence[Axis], text: str) -> None:
        """Declare the axes at a position along all of them."""
        if len(axes) == 1:
            self.out.line(f"const int {self.axes[axes[0].name]} = {text};")
            return
        for axis, part in digits(axes, f"({text})"):
            self.out.line(f"const int {self.axes[axis.name]} = {part};")

    @contextmanager
    def _segments(self, axes: Sequence[Axis], start: str, count: str, lane: str) -> Iterator[None]:
        """Loop over positions from ``start``: a vector loop along the last axis, the others fixed."""
        name = self.axes[axes[-1].name]
        if len(axes) == 1:
            self.out.line("#pragma omp simd")
            with self.out.block(f"for (int {lane} = 0; {lane} < {count}; ++{lane})"):
                self.out.line(f"const int {name} = {start} + {lane};")
                yield
            return
        with self.out.block(f"for (int s = 0, run; s < {count}; s += run)"):
            parts = digits(axes, f"({start} + s)")
            for axis, part in parts[:-1]:
                self.out.line(f"const int {self.axes[axis.name]} = {part};")
            self.out.line(f"const int at = {parts[-1][1]};")
            self.out.line(f"run = least({count} - s, {axes[-1].size} - at);")
            self.out.line("#pragma omp simd")
            with self.out.block("for (int e = 0; e < run; ++e)"):
                self.out.line(f"const int {name} = at + e, {lane} = s + e;")
                yield

    # -- what becomes of the sums ------------------------------------------------------------------

    def _finish(self) -> None:
        """Write the function that stores a tile, with the epilogue."""
        self.out.line("template <int ROWS, int COLUMNS>")
        with (
            self._function("finish", ["int row", "int column", "const float* sums"]),
            self.out.block("for (int i = 0; i < ROWS; ++i)"),
        ):
            self._position(self.form.rows, "row + i")
            with self._segments(self.form.columns, "column", "COLUMNS", "l"):
                self.out.line(f"const float total = sums[i * {self.tiling.columns} + l];")
                renderer = self._renderer()
                renderer.bind(self.form.total, "total")
                self._values(renderer).bind_all(self.form.epilogue)
                self._store(self.form.epilogue, renderer)

    # -- blocks and threads ------------------------------------------------------------------------

    def _block(self) -> None:
        t, own = self.tiling, ["int row_begin", "int column_begin", "float* memory"]
        with self._function("block", own, inline=False):
            self.out.line(f"const int rows_end = least(row_begin + {t.block_rows}, {self.m});")
            self.out.line(f"const int columns_end = least(column_begin + {t.block_columns}, {self.n});")
            self._memory_parts(self._parts())
            if self._passes:
                self._each_pass()
            else:
                self._pass(f"{self.k}", is_first=True, is_last=True)

    def _each_pass(self) -> None:
        inner = self.tiling.inner
        last = (math.ceil(self.k / inner) - 1) * inner
        with self.out.block(""):
            self.out.line("const int first = 0;")
            self._pass(f"{inner}", is_first=True, is_last=False)
        if last > inner:
            with self.out.block(f"for (int first = {inner}; first < {last}; first += {inner})"):
                self._pass(f"{inner}", is_first=False, is_last=False)
        with self.out.block(""):
            self.out.line(f"const int first = {last};")
            self._pass(f"{self.k - last}", is_first=False, is_last=True)

    def _parts(self) -> dict[str, int]:
        """Return name -> floats of a thread's own memory, each a whole number of cache lines."""
        t = self.tiling
        tiles = t.block_rows * t.block_columns if self._passes else t.rows * t.columns
        parts = {"sums": tiles}
        if t.packs_left:
            parts["packed_left"] = t.block_rows * t.inner
        if self._packs_some_right:
            parts["packed_right"] = t.columns * t.inner
        return in_lines(parts)

    def _pass(self, count: str, *, is_first: bool, is_last: bool) -> None:
        """Write one pass over a block: ``count`` products added to each of its sums."""
        t, name = self.tiling, self.name
        first = "first" if self._passes else "0"
        given = self._given()
        rows, columns = ("row", self.m, t.rows), ("column", self.n, t.columns)
        if t.packs_left:
            with self.out.block(f"for (int row = row_begin; row < rows_end; row += {t.rows})"):
                place = f"packed_left + (row - row_begin) * {t.inner}"
                call = f"{name}_pack_left<{{}}>({given}row, {first}, {count}, {place});"
                self._whole_or_rest(call, rows)
        with self.out.block(f"for (int column = column_begin; column < columns_end; column += {t.columns})"):
            self._right_panel(first, count)
            with self.out.block(f"for (int row = row_begin; row < rows_end; row += {t.rows})"):
                sums = "sums"
                if self._passes:
                    sums = (
                        f"sums + (column - column_begin) * {t.block_rows} + (row - row_begin) * {t.columns}"
                    )
                left = f"packed_left + (row - row_begin) * {t.inner}"
                if not t.packs_left:
                    left = self._element_address(self.form.left, "row", self._left_steps(), first)
                self.out.line(f"float* const tile = {sums};")
                self.out.line(f"const float* const left = {left};")
                if t.is_dot:
                    call = f"{name}_tile<{{}}, {{}}>(left, right, tile);"
                    self._whole_or_rest(call, rows, columns)
                else:
                    flag = "true" if is_first else "false"
                    call = f"{name}_tile<{{}}, {flag}>(left, right, right_step, {count}, tile);"
                    self._whole_or_rest(call, rows)
                if is_last:
                    call = f"{name}_finish<{{}}, {{}}>({given}row, column, tile);"
                    self._whole_or_rest(call, rows, columns)

    def _right_panel(self, first: str, count: str) -> None:
        """Declare where the columns' operand of one tile is, packing it where needed."""
        t, name = self.tiling, self.name
        pack = f"{name}_pack_right<{{}}>({self._given()}column, {first}, {count}, packed_right);"
        if t.packs_right:
            self._whole_or_rest(pack, ("column", self.n, t.columns))
            self.out.line("const float* const right = packed_right;")
            self.out.line(f"const long right_step = {t.columns};")
            return
        address = self._element_address(self.form.right, "column", self._right_steps(), first)
        rest = self.n % t.columns
        if t.is_dot or not rest:
            self.out.line(f"const float* const right = {address};")
            if not t.is_dot:
                self.out.line(f"const long right_step = {self._right_steps()[1]};")
            return
        self.out.line(f"const bool is_whole = column + {t.columns} <= {self.n};")
        self.out.line(f"if (!is_whole) {pack.format(rest)}")
        self.out.line(f"const float* const right = is_whole ? {address} : packed_right;")
        self.out.line(f"const long right_step = is_whole ? {self._right_steps()[1]} : {t.columns};")

    def _element_address(self, operand: int, position: str, steps: tuple[int, int], first: str) -> str:
        """Return the address of a plain operand's element at a row or column and the first product."""
        node = self.form.dag.nodes[operand]
        batches = {a.name for a in self.form.outer}
        index = Affine(tuple((a, c) for a, c in node.index.terms if a in batches), node.index.offset)
        parts = [self._renderer().index(index)] if index.terms or index.offset else []
        parts += [f"(long){position} * {steps[0]}"] if steps[0] else []
        parts += [f"(long){first} * {steps[1]}"] if first != "0" and steps[1] else []
        return " + ".join([self.pointers[node.name], *parts])

    def _whole_or_rest(self, call: str, *sides: tuple[str, int, int]) -> None:
        """Write a call of a template for a whole tile, or for what is left of one at the end.

        ``sides``: the variable, size and step of each of the template's extents.
        """
        cases = list(itertools.product(*(extents(*side) for side in sides)))
        for case in cases:
            condition = " && ".join(text for _, text in case if text)
            test = "" if case == cases[-1] else f"if ({condition}) "
            self.out.line(
                f"{'' if case == cases[0] else 'else '}{test}{call.format(*(size for size, _ in case))}"
            )

    def _entry(self) -> None:
        t = self.tiling
        loops = [(self.axes[a.name], a.size, 1) for a in self.form.outer]
        loops += [("row", self.m, t.block_rows), ("column", self.n, t.block_columns)]
        with self._entry_function(), self._team(is_shared(self.form)) as is_parallel:
            self.out.line(f"float* const memory = scratch_floats({sum(self._parts().values())});")
            indent = self._loops(loops, is_parallel=is_parallel)
            self.out.line(f"{indent}{self.name}_block({self._given()}row, column, memory);")


def _times(name: str, factor: int) -> str:
    return name if factor == 1 else f"{name} * {factor}L"
