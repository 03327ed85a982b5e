"""Products whose steps are shared evenly: every program has the same work, whatever the number of tiles.

All (tile, step) pairs are numbered; each program takes an equal range of them. A tile that lies in one range
is finished there. Of the others each program keeps its part, and a second kernel adds the parts in order: no
atomics, and sums depend on sizes and on the number of programs alone.

Source: M. Osama and others, Stream-K, arXiv 2301.03598; there programs wait for one another, here a second
kernel adds.
"""

from collections.abc import Mapping

from kernelwright.targets.triton.dot import DotWriter
from kernelwright.targets.triton.products import Dot
from kernelwright.targets.triton.schedule import Decided

_OWN_NAMES = (
    "worker",
    "at",
    "end",
    "first_step",
    "last_step",
    "first_worker",
    "last_worker",
    "part",
    "place",
)
_PLACE = "place = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]"


class SharedTileWriter(DotWriter):
    """What the two kernels have in common."""

    def __init__(
        self, decided: Decided, pointers: Mapping[str, str], dot: Dot, parts: str, programs: int
    ) -> None:
        super().__init__(decided, pointers, dot)
        self.parts = parts
        """Parameter: parts of tiles, two for each program; the first ends a tile, the second starts one."""
        self.workers = programs
        self.total = decided.blocks * decided.steps
        for name in (*_OWN_NAMES, parts):
            self.names.new(name)

    def _part(self, slot: str) -> str:
        """Return the addresses of a part."""
        return f"{self.parts} + {slot} * (ROWS * COLUMNS) + place"


class StreamWriter(SharedTileWriter):
    """The kernel that adds products: whole tiles are finished, parts are kept."""

    def _kept_head(self) -> None:
        out, steps = self.out, self.how.steps
        out.line("worker = tl.program_id(0)")
        out.line(f"at = worker * {self.total} // {self.workers}")
        out.line(f"end = (worker + 1) * {self.total} // {self.workers}")
        self.stack.enter_context(out.block("while at < end"))
        out.line(f"first_step = at % {steps}")
        out.line(f"last_step = tl.minimum({steps}, first_step + end - at)")
        count = self._points_of(self.dot.inner)
        self.stack.callback(self._keep_part)
        self._tile(f"at // {steps}")
        stage = self._product("first_step * STEP", f"tl.minimum({count}, last_step * STEP)")
        self._bind_result(stage)
        self.groups = self.groups[1:]
        self.stack.enter_context(out.block(f"if last_step - first_step == {steps}"))

    def _keep_part(self) -> None:
        """Write what happens to a tile that is not whole, and the step to the next one."""
        ((_, total),) = self.results.items()
        with self.out.block("else"):
            self.out.line("part = 2 * worker + tl.where(first_step == 0, 1, 0)")
            self.out.line(_PLACE)
            self.out.line(f"tl.store({self._part('part')}, {total})")
        self.out.line("at += last_step - first_step")


class PartsWriter(SharedTileWriter):
    """The kernel that adds the parts of a tile and finishes it; one program a tile."""

    def _kept_head(self) -> None:
        out, steps, workers = self.out, self.how.steps, self.workers
        out.line("block = tl.program_id(0)")
        out.line(f"first_worker = ((block * {steps} + 1) * {workers} - 1) // {self.total}")
        out.line(f"last_worker = ((block + 1) * {steps} * {workers} - 1) // {self.total}")
        self.stack.enter_context(out.block("if first_worker < last_worker"))
        self._tile("block")
        stage = self.groups[0].actions[0].stage
        total = self._name_result(stage)
        out.line(_PLACE)
        out.line(f"{total} = tl.load({self._part('(2 * first_worker + 1)')})")
        with out.block("for worker in range(first_worker + 1, last_worker + 1)"):
            out.line(f"{total} += tl.load({self._part('2 * worker')})")
        self._bind_result(stage)
        self.groups = self.groups[1:]
