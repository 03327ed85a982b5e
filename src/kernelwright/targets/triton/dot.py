"""A region that starts with a matrix product: tiles over tl.dot, the rest as their epilogue."""

import dataclasses
from collections.abc import Mapping
from contextlib import ExitStack

from kernelwright.ir.program import LoopStage
from kernelwright.ir.text import bare
from kernelwright.targets.triton.kernel import KernelWriter
from kernelwright.targets.triton.products import Dot
from kernelwright.targets.triton.schedule import Decided
from kernelwright.targets.triton.text import Flat


class DotWriter(KernelWriter):
    """A kernel whose first group is a matrix product; the rest is its epilogue, on the tile."""

    def __init__(self, decided: Decided, pointers: Mapping[str, str], dot: Dot) -> None:
        super().__init__(decided, pointers)
        self.dot = dot

    def _kept_head(self) -> None:
        self._tile("block" if self.how.programs else "tl.program_id(0)")
        self._bind_result(self._product("0", str(self._points_of(self.dot.inner))))
        self.groups = self.groups[1:]

    def _tile(self, block: str) -> None:
        """Write which rows and columns the tile of that number has."""
        dot = self.dot
        self.constants = {"ROWS": self.how.block_kept, "COLUMNS": self.how.block_columns}
        n_rows, n_columns = self._points_of(dot.rows), self._points_of(dot.columns)
        down, across = -(-n_rows // self.how.block_kept), -(-n_columns // self.how.block_columns)
        tile = self.names.new("tile")
        self._define(tile, block if not dot.batch else f"{block} % {down * across}")
        if dot.batch:
            name = self.names.new("batch" if len(dot.batch) > 1 else dot.batch[0])
            self._define(name, f"{block} // {down * across}")
            self._decompose(name, dot.batch, self.stack, self.render.axes)
            self.render.flats.append(Flat(name, dot.batch, ""))
        group = min(self.how.group_rows, down)
        self._define("group_start", f"{tile} // {group * across} * {group}")
        self._define("group_rows", f"tl.minimum({down} - group_start, {group})")
        self._define("row_block", f"group_start + {tile} % {group * across} % group_rows")
        self._define("column_block", f"{tile} % {group * across} // group_rows")
        for axes, count, place, size, dim in (
            (dot.rows, n_rows, "row_block", "ROWS", "[:, None]"),
            (dot.columns, n_columns, "column_block", "COLUMNS", "[None, :]"),
        ):
            wanted = axes[0] if len(axes) == 1 else ("row" if size == "ROWS" else "column")
            name = self.names.new(wanted)
            wide = ".to(tl.int64)" if self.is_wide else ""
            self._define(name, f"({place} * {size} + tl.arange(0, {size})){wide}{dim}")
            mask = self.names.new(f"{name}_ok")
            self._define(mask, f"{name} < {count}")
            self._decompose(name, axes, self.stack, self.render.axes)
            self.render.flats.append(Flat(name, axes, mask))

    def _product(self, first: str, end: str) -> LoopStage:
        """Write the sums over a range of the products; return the stage that they belong to."""
        dot = self.dot
        stage = self.groups[0].actions[0].stage
        total = self._name_result(stage)
        self.constants["STEP"] = self.how.block_inner
        self.out.line(f"{total} = tl.zeros([ROWS, COLUMNS], tl.float32)")
        stages = f", num_stages={self.how.num_stages}" if self.how.num_stages > 1 else ""
        loop = f"tl.range({first}, {end}, STEP{stages})" if stages else f"range({first}, {end}, STEP)"
        with self.out.block(f"for start in {loop}"), self.names.scope(), self.render.scope():
            texts = [self._operand(dot.left, "[None, :]"), self._operand(dot.right, "[:, None]")]
            self.out.line(
                f'{total} = tl.dot({texts[0]}, {texts[1]}, {total}, input_precision="{self.how.precision}")'
            )
        return stage

    def _operand(self, node: int, dim: str) -> str:
        """Write the load of one operand's tile; its steps run along the dimension that it lacks."""
        with ExitStack() as stack:
            names: dict[str, str] = {}
            name = self.names.new(self.dot.inner[0] if len(self.dot.inner) == 1 else "lane")
            wide = ".to(tl.int64)" if self.is_wide else ""
            self._define(name, f"(start + tl.arange(0, STEP)){wide}{dim}", stack)
            mask = self.names.new(f"{name}_ok")
            self._define(mask, f"{name} < {self._points_of(self.dot.inner)}", stack)
            self._decompose(name, self.dot.inner, stack, names)
            flat = Flat(name, self.dot.inner, mask)
            with self._inner_names(names, [flat]), self.render.scope():
                return self._operand_of(node, flat)

    def _operand_of(self, node: int, flat: Flat) -> str:
        """Write what an operand is made of; beyond the last product it is 0, not what 0 becomes."""
        action = dataclasses.replace(self.groups[0].actions[0], node=node)
        self._bind([action], lambda number: True)
        text = self.render.text(node)
        if self.dag.nodes[node].kind == "load":
            return text
        operand = self.names.new("operand")
        self.out.line(f"{operand} = tl.where({flat.mask}, {bare(text)}, 0.0)")
        return operand
