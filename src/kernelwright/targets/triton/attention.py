"""Attention as one kernel: rows of a head, their keys a block at a time, softmax as the scores come.

Source: T. Dao, FlashAttention-2, arXiv 2307.08691: the sums are scaled down when a larger score comes.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from kernelwright.ir.attention import AttentionForm
from kernelwright.ir.program import Axis
from kernelwright.targets.triton.kernel import KernelWriter
from kernelwright.targets.triton.reducer import Reducer
from kernelwright.targets.triton.schedule import LEAST_TILE, Decided, power_of_two
from kernelwright.targets.triton.text import Flat, joined

DOWN, ACROSS = "[:, None]", "[None, :]"
"""Which dimension of a tile an axis runs along."""


class AttentionWriter(KernelWriter):
    """A kernel that never writes the matrix of scores."""

    def __init__(self, decided: Decided, pointers: Mapping[str, str], form: AttentionForm) -> None:
        super().__init__(decided, pointers)
        self.form = form
        self.dag, self.groups = form.dag, ()
        self.render.dag = form.dag

    def _pair(self) -> None:
        return None

    def _kept_head(self) -> None:
        form, how = self.form, self.how
        self.constants = {
            "ROWS": how.block_kept,
            "KEYS": how.block_inner,
            "DEPTH": max(LEAST_TILE, power_of_two(form.depth.size)),
            "FEATURES": max(LEAST_TILE, power_of_two(form.feature.size)),
        }
        block = "block" if how.programs else "tl.program_id(0)"
        per_head = -(-form.row.size // how.block_kept)
        if form.outer:
            outer = tuple(axis.name for axis in form.outer)
            name = self.names.new(outer[0] if len(outer) == 1 else "head")
            self._define(name, f"{block} // {per_head}")
            self._decompose(name, outer, self.stack, self.render.axes)
            self.render.flats.append(Flat(name, outer, ""))
        first = self.names.new("first_row")
        self._define(first, f"{block} % {per_head} * ROWS")
        with self._along(form.row, first, "ROWS", DOWN) as row:
            self._rows(first, row)

    def _rows(self, first: str, row: Flat) -> None:
        """Write what one program does for its rows."""
        form, out = self.form, self.out
        with self._along(form.depth, "", "DEPTH", ACROSS) as depth:
            queries = self._loaded(form.queries, "queries", row, depth)
        names = ("largest", "total", "weighted")
        largest, total, weighted = (self.names.new(name) for name in names)
        out.line(f'{largest} = tl.full([ROWS, 1], float("-inf"), tl.float32)')
        out.line(f"{total} = tl.zeros([ROWS, 1], tl.float32)")
        out.line(f"{weighted} = tl.zeros([ROWS, FEATURES], tl.float32)")
        end = str(form.key.size)
        if form.reach is not None:
            end = self.names.new("end")
            seen = f"{first} + ROWS + {form.reach}" if form.reach else f"{first} + ROWS"
            out.line(f"{end} = tl.minimum({form.key.size}, {seen})  # no row here sees a later key")
        stages = f", num_stages={self.how.num_stages}" if self.how.num_stages > 1 else ""
        loop = f"tl.range(0, {end}, KEYS{stages})" if stages else f"range(0, {end}, KEYS)"
        with out.block(f"for start in {loop}"), self.names.scope(), self.render.scope():
            self._step(queries, largest, total, weighted)
        self.render.bind(form.total, total)
        self.render.bind(form.mean, weighted)
        with self._along(form.feature, "", "FEATURES", ACROSS):
            self._bind(form.epilogue, lambda number: True)
            for action in form.epilogue:
                if action.store is not None:
                    self._store(action.node, action.store, (form.feature.name,))

    def _step(self, queries: str, largest: str, total: str, weighted: str) -> None:
        """Write what a block of keys adds."""
        form, out = self.form, self.out
        precision = f'input_precision="{self.how.precision}"'
        most = Reducer("max", "float32")
        product, scores, top, shift, shrink, weights = (
            self.names.new(n) for n in ("products", "scores", "top", "shift", "shrink", "weights")
        )
        with self._along(form.key, "start", "KEYS", ACROSS) as flat:
            with self._along(form.depth, "", "DEPTH", DOWN) as depth:
                keys = self._loaded(form.keys, "keys", depth, flat)
            out.line(f"{product} = tl.dot({queries}, {keys}, {precision})")
            with self.render.scope():
                self.render.bind(form.product, product)
                self._bind([form.score], lambda number: True)
                score = self.render.text(form.score.node)
            out.line(f'{scores} = tl.where({flat.mask}, {score}, float("-inf"))')
        out.line(f"{top} = nan_max({largest}, {most.over(scores, 1, keep=True)})")
        out.line(f'{shift} = tl.where({top} == float("-inf"), 0.0, {top})')
        out.line(f"{shrink} = tl.exp({largest} - {shift})")
        out.line(f"{weights} = tl.exp({scores} - {shift})")
        out.line(f"{total} = {total} * {shrink} + tl.sum({weights}, 1, keep_dims=True)")
        with (
            self._along(form.key, "start", "KEYS", DOWN) as key,
            self._along(form.feature, "", "FEATURES", ACROSS) as feature,
        ):
            values = self._loaded(form.values, "values", key, feature)
        out.line(f"{weighted} = tl.dot({weights}, {values}, {weighted} * {shrink}, {precision})")
        out.line(f"{largest} = {top}")

    def _loaded(self, node: int, stem: str, *dims: Flat) -> str:
        """Write the load of an operand's whole tile, 0 where there is none of it."""
        name, text = self.names.new(stem), self.render.text(node)
        if len(self.render.dims(axis for axis, _ in self.dag.nodes[node].index.terms)) < len(dims):
            text = (
                f"tl.where({joined([dim.mask for dim in dims])}, {text}, 0.0)"  # the same along a dimension
            )
        self.out.line(f"{name} = {text}")
        return name

    @contextmanager
    def _along(self, axis: Axis, first: str, size: str, dim: str) -> Iterator[Flat]:
        """Let an axis run along a dimension of tiles for what is written inside."""
        name = self.names.new(axis.name)
        lanes = f"tl.arange(0, {size})"
        wide = ".to(tl.int64)" if self.is_wide else ""
        text = f"({first} + {lanes})" if first else lanes
        mask = self.names.new(f"{name}_ok")
        flat = Flat(name, (axis.name,), mask)
        with ExitStack() as stack:
            self._define(name, f"{text}{wide}{dim}", stack)
            self._define(mask, f"{name} < {axis.size}", stack)
            with self._inner_names({axis.name: name}, [flat]), self.render.scope():
                yield flat
