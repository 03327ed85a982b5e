"""Attention as C++: scores of a block of rows and keys at a time, softmax as they come, sums kept scaled.

The largest score so far scales what was summed; a larger one scales it down (online softmax). Both products
run on tiles of sums in registers. Sizes are literals: a tail has its own function.
"""

import math
from collections.abc import Callable

from kernelwright.ir.arguments import Argument
from kernelwright.ir.program import Affine, Region
from kernelwright.ir.text import bare, wrapped
from kernelwright.targets.cpp.attention import AttentionTiling
from kernelwright.targets.cpp.choices import Choices
from kernelwright.targets.cpp.form_printer import FormPrinter, in_lines

_OWN = (
    "row", "rows", "key", "count", "column", "feature", "depth", "first", "last", "i", "l", "v", "n", "e",
    "left", "right", "sums", "scores", "packed", "packed_keys", "packed_values", "right_values", "tops",
    "totals", "memory", "here", "product", "largest", "shift", "shrink", "total", "sum", "a", "b", "c",
    "ROWS", "VECTORS", "IS_FIRST", "ROW_STEP", "LEFT_STEP", "RIGHT_STEP", "SUMS_STEP",
)  # fmt: skip
"""Names that the printed functions use for themselves."""
_TILE = "ROWS VECTORS IS_FIRST ROW_STEP LEFT_STEP RIGHT_STEP SUMS_STEP"


class AttentionPrinter(FormPrinter):
    """Writes the functions of one region."""

    def __init__(
        self, region: Region, choices: Choices, tiling: AttentionTiling, declare: Callable[[Argument], str]
    ) -> None:
        form = tiling.form
        super().__init__(region, choices, form.dag, declare, own=_OWN, outer=form.outer)
        self.tiling, self.form = tiling, form
        self.axes = {a.name: self.names.new(a.name) for a in form.outer}
        for axis, name in zip(
            (form.row, form.key, form.depth, form.feature), ("row", "key", "depth", "feature"), strict=True
        ):
            self.axes[axis.name] = self.names.new(f"{name}_at")
        self.width = math.ceil(form.feature.size / tiling.lanes) * tiling.lanes
        """Of a row of sums: its columns, filled up to whole vectors."""

    def text(self) -> str:
        """Return the text of the region's functions."""
        t = self.tiling
        batches, rows, keys, depth = self.form.sizes
        self._opening(
            f"{batches} times {rows} rows that attend to {keys} keys; {t.block_rows} x {t.block_keys} "
            f"scores at a time, {t.rows} x {t.columns} of them in registers.",
            t.lanes,
        )
        self._tile()
        self._tiles()
        self._pack_keys(depth)
        if t.packs_values:
            self._pack_values()
        self._soften()
        self._finish()
        self._rows(rows, keys, depth)
        self._share(rows, keys, depth)
        self._entry(rows)
        return self.out.text()

    # -- products on tiles -------------------------------------------------------------------------

    def _tile(self) -> None:
        t, name = self.tiling, self.name
        self.out.line("// Adds `count` products to a tile of sums: ROWS rows of VECTORS vectors.")
        self._tile_template()
        own = ["const float* left", "const float* right", "int count", "float* sums"]
        rows, vectors = ("ROWS", 32), ("VECTORS", 16)
        with self._tile_function("tile", own):
            self.out.line(f"{name}_vector c[ROWS][VECTORS];")
            place = f"*({name}_loose*)(sums + i * SUMS_STEP + v * {t.lanes})"
            first = f"c[i][v] = IS_FIRST ? {name}_vector{{}} : {name}_vector({place});"
            self._each_sum(first, rows, vectors)
            with self.out.block("for (int n = 0; n < count; ++n)"):
                self.out.line(f"{name}_vector b[VECTORS];")
                self.out.line("#pragma GCC unroll 16")
                self.out.line(
                    f"for (int v = 0; v < VECTORS; ++v) b[v] = *(const {name}_loose*)(right + v * {t.lanes});"
                )
                self.out.line("#pragma GCC unroll 32")
                with self.out.block("for (int i = 0; i < ROWS; ++i)"):
                    self.out.line("const float a = left[i * ROW_STEP];")
                    self.out.line("#pragma GCC unroll 16")
                    self.out.line("for (int v = 0; v < VECTORS; ++v) c[i][v] += a * b[v];")
                self.out.line("left += LEFT_STEP;")
                self.out.line("right += RIGHT_STEP;")
            self._each_sum(f"{place} = c[i][v];", rows, vectors)

    def _tile_template(self, without: str = "") -> None:
        kinds = {"IS_FIRST": "bool"} | dict.fromkeys(_TILE.split()[3:], "long")
        names = [f"{kinds.get(name, 'int')} {name}" for name in _TILE.split() if name != without]
        self.out.line(f"template <{', '.join(names)}>")

    def _tiles(self) -> None:
        """Write the function that runs a tile over the rows of a block."""
        t, name = self.tiling, self.name
        self._tile_template(without="ROWS")
        own = ["int rows", "const float* left", "const float* right", "int count", "float* sums"]
        rest = self.form.row.size % t.rows
        given = "(left + i * ROW_STEP, right, count, sums + i * SUMS_STEP);"
        call = f"\n    {name}_tile<{{}}, {', '.join(_TILE.split()[1:])}>{given}"
        with (
            self.out.block(wrapped(f"static void {name}_tiles(", own, ")")),
            self.out.block(f"for (int i = 0; i < rows; i += {t.rows})"),
        ):
            if rest:
                self.out.line(f"if (i + {t.rows} > rows) {call.format(rest)}")
            self.out.line(f"{'else' if rest else ''}{call.format(t.rows)}".strip())
        self.out.line("")

    # -- packing -----------------------------------------------------------------------------------

    def _pack_keys(self, depth: int) -> None:
        """Write the function that brings keys side by side, product after product."""
        columns = self.tiling.columns
        own = ["int column", "int count", "float* packed"]
        with self._function("pack_keys", own):
            with self.out.block("for (int l = 0; l < count; ++l)"):
                self.out.line(f"const int {self._axis('key')} = column + l;")
                self.out.line("#pragma omp simd")
                at = self._axis("depth")
                element = self._renderer().text(self.form.keys)
                self.out.line(
                    f"for (int {at} = 0; {at} < {depth}; ++{at}) "
                    f"packed[{at} * {columns} + l] = {bare(element)};"
                )
            self.out.line(f"for (int l = count; l < {columns}; ++l)")
            self.out.line(f"  for (int e = 0; e < {depth}; ++e) packed[e * {columns} + l] = 0.0f;")

    def _pack_values(self) -> None:
        """Write the function that brings values into rows of whole vectors."""
        size, at = self.form.feature.size, self._axis("feature")
        with (
            self._function("pack_values", ["int count", "float* packed"]),
            self.out.block("for (int n = 0; n < count; ++n)"),
        ):
            self.out.line(f"float* const here = packed + (long)n * {self.width};")
            self.out.line(f"const int {self._axis('key')} = n;")
            self.out.line("#pragma omp simd")
            element = self._renderer().text(self.form.values)
            self.out.line(f"for (int {at} = 0; {at} < {size}; ++{at}) here[{at}] = {bare(element)};")
            if size < self.width:
                self.out.line(f"for (int l = {size}; l < {self.width}; ++l) here[l] = 0.0f;")

    # -- softmax and result ------------------------------------------------------------------------

    def _soften(self) -> None:
        """Write the function that makes scores of products, and weights of scores."""
        t, exp = self.tiling, "vexp" if self.choices.exp_degree == 6 else f"vexp_{self.choices.exp_degree}"
        own = ["int row", "int rows", "int key", "int count", "float* scores", "float* tops"]
        own += ["float* totals", "float* sums"]
        with self._function("soften", own), self.out.block("for (int i = 0; i < rows; ++i)"):
            self.out.line(f"const int {self._axis('row')} = row + i;")
            self.out.line(f"float* const here = scores + i * {t.block_keys};")
            self.out.line("float largest = tops[i];")
            self.out.line("#pragma omp simd reduction(max : largest)")
            with self.out.block("for (int l = 0; l < count; ++l)"):
                self.out.line(f"const int {self._axis('key')} = key + l;")
                self.out.line("const float product = here[l];")
                renderer = self._renderer()
                renderer.bind(self.form.product, "product")
                self._values(renderer).bind_all([self.form.score])
                self.out.line(f"const float a = {bare(renderer.text(self.form.score.node))};")
                self.out.line("here[l] = a;")
                self.out.line("largest = a > largest ? a : largest;")
            self.out.line("const float shift = largest == -INF ? 0.0f : largest;")
            self.out.line(f"const float shrink = {exp}(tops[i] - shift);")
            self.out.line("float sum = 0.0f;")
            self.out.line("#pragma omp simd reduction(+ : sum)")
            with self.out.block("for (int l = 0; l < count; ++l)"):
                self.out.line(f"here[l] = {exp}(here[l] - shift);")
                self.out.line("sum += here[l];")
            self.out.line("tops[i] = largest;")
            self.out.line("totals[i] = totals[i] * shrink + sum;")
            self.out.line("if (shrink == 1.0f) continue;")
            self.out.line("#pragma omp simd")
            self.out.line(f"for (int l = 0; l < {self.width}; ++l) sums[i * {self.width} + l] *= shrink;")

    def _finish(self) -> None:
        """Write the function that stores the rows of a block."""
        at = self._axis("feature")
        own = ["int row", "int rows", "const float* sums", "const float* totals"]
        with self._function("finish", own), self.out.block("for (int i = 0; i < rows; ++i)"):
            self.out.line(f"const int {self._axis('row')} = row + i;")
            self.out.line("const float total = totals[i];")
            self.out.line("#pragma omp simd")
            with self.out.block(f"for (int {at} = 0; {at} < {self.form.feature.size}; ++{at})"):
                self.out.line(f"const float sum = sums[i * {self.width} + {at}];")
                renderer = self._renderer()
                renderer.bind(self.form.total, "total")
                renderer.bind(self.form.mean, "sum")
                self._values(renderer).bind_all(self.form.epilogue)
                self._store(self.form.epilogue, renderer)

    # -- blocks, shares, threads -------------------------------------------------------------------

    def _rows(self, rows: int, keys: int, depth: int) -> None:
        """Write the function for a block of rows: all keys that they see, a block at a time."""
        t, name = self.tiling, self.name
        own = ["int row", "int rows", "const float* packed_keys", "const float* right_values"]
        own += ["float* memory"]
        with self._function("rows", own, inline=False):
            self._memory_parts(self._of_block())
            lines = (
                "for (int i = 0; i < rows; ++i) tops[i] = -INF, totals[i] = 0.0f;",
                f"for (int i = 0; i < rows * {self.width}; ++i) sums[i] = 0.0f;",
            )
            for line in lines:
                self.out.line(line)
            address = self._address(self.form.queries, ("row", self.form.row.name))
            self.out.line(f"const float* const left = {address};")
            self.out.line(f"const int last = {self._last('row + rows')};")
            with self.out.block(f"for (int key = 0; key < last; key += {t.block_keys})"):
                self.out.line(f"const int count = least({t.block_keys}, last - key);")
                with self.out.block(f"for (int l = 0; l < count; l += {t.columns})"):
                    of_row, along = (
                        self.form.step(self.form.queries, axis) for axis in (self.form.row, self.form.depth)
                    )
                    steps = f"{t.vectors}, true, {of_row}, {along}, {t.columns}, {t.block_keys}"
                    self.out.line(
                        f"{name}_tiles<{steps}>(rows, left, "
                        f"packed_keys + (long)(key + l) * {depth}, {depth}, scores + l);"
                    )
                given = "row, rows, key, count, scores, tops, totals, sums"
                self._call("soften", given)
                self._weigh()
            self._call("finish", "row, rows, sums, totals")

    def _weigh(self) -> None:
        """Write the calls that add weighted values to the sums, some vectors of columns at a time."""
        t, name = self.tiling, self.name
        step = self.width if t.packs_values else self.form.step(self.form.values, self.form.key)
        whole, rest = divmod(self.width // t.lanes, t.vectors)
        for count, vectors, first in ((whole, t.vectors, 0), (int(rest > 0), rest, whole * t.columns)):
            steps = f"{vectors}, false, {t.block_keys}, 1, {step}, {self.width}"
            call = (
                f"{name}_tiles<{steps}>(rows, scores, right_values + (long)key * {step} + {{0}}, "
                "count, sums + {0});"
            )
            if count > 1:
                head = f"for (int l = 0; l < {count * t.columns}; l += {t.columns})"
                self.out.line(f"{head}\n    {call.format('l')}")
            elif count:
                self.out.line(call.format(first))

    def _share(self, rows: int, keys: int, depth: int) -> None:
        """Write the function for a share of the rows: keys and values are brought into order once."""
        t = self.tiling
        with self._function("share", ["int first", "float* memory"], inline=False):
            self._memory_parts(self._of_share())
            self.out.line(f"const int rows = least(first + {t.share}, {rows});")
            self.out.line(f"const int last = {self._last('rows')};")
            with self.out.block(f"for (int column = 0; column < last; column += {t.columns})"):
                place = f"packed_keys + (long)column * {depth}"
                self._call("pack_keys", f"column, least({t.columns}, {keys} - column), {place}")
            values = "packed_values"
            if t.packs_values:
                self._call("pack_values", f"last, {values}")
            else:
                values = self._address(self.form.values)
            with self.out.block(f"for (int row = first; row < rows; row += {t.block_rows})"):
                count = f"least({t.block_rows}, rows - row)"
                self._call("rows", f"row, {count}, packed_keys, {values}, here")

    def _last(self, end: str) -> str:
        """Return the number of keys that the rows before ``end`` may see."""
        keys, reach = self.form.key.size, self.form.reach
        if reach is None:
            return str(keys)
        return f"least({keys}, {end}{f' + {reach}' if reach else ''})"

    def _of_share(self) -> dict[str, int]:
        """Return name -> floats of what lies there for a share; what comes after is a block's."""
        t = self.tiling
        _, _, keys, depth = self.form.sizes
        parts = {"packed_keys": math.ceil(keys / t.columns) * t.columns * depth}
        if t.packs_values:
            parts["packed_values"] = keys * self.width
        return in_lines(parts) | {"here": 0}

    def _of_block(self) -> dict[str, int]:
        t = self.tiling
        parts = {"scores": t.block_rows * t.block_keys, "sums": t.block_rows * self.width}
        parts |= dict.fromkeys(("tops", "totals"), t.block_rows)
        return in_lines(parts)

    def _entry(self, rows: int) -> None:
        t = self.tiling
        loops = [(self.axes[a.name], a.size, 1) for a in self.form.outer] + [("first", rows, t.share)]
        size = sum(self._of_share().values()) + sum(self._of_block().values())
        uneven = self.form.reach is not None and t.share < rows
        with self._entry_function(), self._team(t.is_shared) as is_parallel:
            self.out.line(f"float* const memory = scratch_floats({size});")
            indent = self._loops(loops, is_parallel=is_parallel, grain=int(uneven))
            self._call("share", "first, memory", indent)

    # -- parts of the above ------------------------------------------------------------------------

    def _axis(self, name: str) -> str:
        """Return the variable of one of the form's axes."""
        return self.axes[getattr(self.form, name).name]

    def _address(self, operand: int, at: tuple[str, str] | None = None) -> str:
        """Return the address of an operand's first element, at a position along one axis if given."""
        node = self.form.dag.nodes[operand]
        outer = {a.name for a in self.form.outer}
        index = Affine(tuple((a, c) for a, c in node.index.terms if a in outer), node.index.offset)
        parts = [self.pointers[node.name]]
        parts += [self._renderer().index(index)] if index.terms or index.offset else []
        if at is not None:
            step = next((c for a, c in node.index.terms if a == at[1]), 0)
            parts += [f"(long){at[0]} * {step}"] if step else []
        return " + ".join(parts)
