"""How sums over windows are cut up: a tile in registers, a block of an image in cache, shares for threads."""

import math
from dataclasses import dataclass

from kernelwright.core.machine import Machine
from kernelwright.ir.products import find_product
from kernelwright.ir.program import Region
from kernelwright.ir.window_products import WindowForm, find_window
from kernelwright.targets.cpp.schedule import CppSchedule, schedule_of
from kernelwright.targets.cpp.tiling import (
    SERIAL_BELOW_FLOPS,
    SHARES,
    even,
    l2_bytes,
    numbers,
    whole,
    width_of,
)

MOST_SUMS = {64: 16, 32: 8, 16: 8}
"""Bytes of a vector -> vectors of sums that fit the registers, with room for a filter's column."""
_TILES = {
    64: ((8, 2), (7, 2), (4, 2), (4, 3), (4, 4), (14, 1), (8, 1), (1, 8), (1, 4)),
    32: ((4, 2), (2, 4), (8, 1), (4, 1), (1, 8), (1, 4)),
    16: ((4, 2), (2, 4), (8, 1), (4, 1), (1, 8), (1, 4)),
}
LARGEST_WINDOW = 1 << 18
"""Floats of the part of an image that one row of results looks at; a private cache holds more."""
FEW_FILTERS = 16
"""Filters up to which windows beat a product of matrices, whose operand is larger by every tap; measured."""


@dataclass(frozen=True)
class WindowTiling:
    """Everything that the printer of windows needs to know of how; sizes in elements."""

    form: WindowForm
    lanes: int
    rows: int
    """Of a tile."""
    vectors: int
    """Of a tile's row."""
    block_rows: int
    """Rows of results for which a part of an image is brought into order; tiles divide them."""
    block_filters: int
    """Filters that look at that part one after the other."""

    def fields(self) -> dict[str, object]:
        """Return the fields of a schedule that say the same."""
        return {
            "product": "window",
            "register_tile": f"{self.rows}x{self.vectors}",
            "cache_block": f"{self.block_rows}x{self.block_filters}",
            "vector_bytes": 4 * self.lanes,
        }

    @property
    def columns(self) -> int:
        """Of a tile."""
        return self.vectors * self.lanes

    @property
    def phases(self) -> int:
        """Parts of a row of positions; with a stride, what a vector reads lies side by side in one."""
        return self.form.columns.move

    @property
    def pitch(self) -> int:
        """Floats of a phase of a row of positions: whole vectors, also behind the last result."""
        slide = self.form.columns
        last = slide.positions(1) - 1
        return whole(whole(slide.size, self.lanes) + last // slide.move, self.lanes)

    @property
    def row_floats(self) -> int:
        """Floats of a row of positions."""
        return self.pitch * self.phases

    @property
    def block_positions(self) -> int:
        """Rows of positions of a block."""
        return self.form.rows.positions(self.block_rows)

    @property
    def plane_floats(self) -> int:
        """Floats of a plane of a block."""
        return self.row_floats * self.block_positions

    @property
    def blocks(self) -> int:
        """Shares of work for threads."""
        rows = math.ceil(self.form.rows.size / self.block_rows)
        return self.form.images * rows * math.ceil(self.form.n_filters / self.block_filters)

    @property
    def is_shared(self) -> bool:
        """Tell whether there is enough work to wake threads for."""
        return self.form.products >= SERIAL_BELOW_FLOPS

    def tiles(self) -> tuple[str, ...]:
        """Return tiles worth trying: the current one, and others that fit the registers and the results."""
        rows, columns = self.form.rows.size, self.form.columns.size
        fits = [f"{min(r, rows)}x{v}" for r, v in _TILES[4 * self.lanes] if (v - 1) * self.lanes < columns]
        return tuple(dict.fromkeys((f"{self.rows}x{self.vectors}", *fits)))

    def cache_blocks(self) -> tuple[str, ...]:
        """Return blocks worth trying: the current one, and each of its sides halved and doubled."""
        now = (self.block_rows, self.block_filters)
        most = (whole(self.form.rows.size, self.rows), self.form.n_filters)
        steps = (self.rows, 1)
        found = [now]
        for side in range(2):
            for size in (now[side] // 2, now[side] * 2):
                other = list(now)
                other[side] = whole(max(1, min(size, most[side])), steps[side])
                found.append((other[0], other[1]))
        return tuple(dict.fromkeys("x".join(map(str, block)) for block in found))


def window_tiling(region: Region, machine: Machine) -> WindowTiling | None:
    """Return how a normalised region is carried out window by window; None where it is not."""
    schedule = schedule_of(region)
    if schedule.product not in (None, "window"):
        return None
    form = find_window(region)
    if form is None or not may_slide(form):
        return None
    is_product = find_product(region) is not None
    is_wanted = schedule.product == "window" or is_better(form, is_product=is_product)
    return decide(form, schedule, machine) if is_wanted else None


def may_slide(form: WindowForm) -> bool:
    """Tell whether the part of an image that one row of results looks at fits a cache."""
    row = form.columns.positions(form.columns.size) + 64
    return form.planes * form.rows.positions(1) * row <= LARGEST_WINDOW


def is_better(form: WindowForm, *, is_product: bool) -> bool:
    """Tell whether windows are the rule's choice: a row that is loaded once serves several rows of results.

    Without such rows plain loops, or tiles of a product, read an image just as well where it is.
    """
    return form.rows.n_taps > 1 and (form.n_filters <= FEW_FILTERS or not is_product)


def decide(form: WindowForm, schedule: CppSchedule, machine: Machine) -> WindowTiling:
    """Decide what the schedule leaves open."""
    width = width_of(schedule, machine)
    rows, vectors = _tile(form, schedule, width)
    block = numbers(schedule.cache_block)
    most = whole(form.rows.size, rows)
    first = WindowTiling(
        form, width // 4, rows, vectors, min(whole(block[0], rows) if block else rows, most), 1
    )
    if block:
        return _with(first, first.block_rows, min(block[1], form.n_filters))
    row_bytes = 4 * first.row_floats * form.planes
    fitting = max(1, (l2_bytes(machine) // 4 // row_bytes - form.rows.positions(1)) // form.rows.move)
    return _shared(first, machine, even(most, max(rows, min(fitting, most))))


def _shared(first: WindowTiling, machine: Machine, block_rows: int) -> WindowTiling:
    """Return a tiling with smaller blocks where there are too few for the threads."""
    cores = machine.cores or SHARES
    tiling = _with(first, whole(block_rows, first.rows), first.form.n_filters)
    while tiling.blocks < SHARES * cores and tiling.blocks % cores:
        if tiling.block_rows > first.rows:
            tiling = _with(tiling, whole(tiling.block_rows // 2, first.rows), tiling.block_filters)
        elif tiling.block_filters > 1:
            tiling = _with(tiling, tiling.block_rows, math.ceil(tiling.block_filters / 2))
        else:
            break
    return tiling


def _with(tiling: WindowTiling, block_rows: int, block_filters: int) -> WindowTiling:
    return WindowTiling(tiling.form, tiling.lanes, tiling.rows, tiling.vectors, block_rows, block_filters)


def _tile(form: WindowForm, schedule: CppSchedule, width: int) -> tuple[int, int]:
    """Return rows and vectors of a tile: as many as fit, in equal parts of what there is."""
    in_row = math.ceil(4 * form.columns.size / width)
    given = numbers(schedule.register_tile)
    if given:
        return min(given[0], form.rows.size), min(given[1], in_row)
    if form.rows.size == 1:
        return 1, even(in_row, 8)
    vectors = min(2, in_row)
    return even(form.rows.size, MOST_SUMS[width] // vectors), vectors
