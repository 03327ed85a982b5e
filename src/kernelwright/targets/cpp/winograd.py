"""How 3 x 3 filters are carried out by Winograd's F(2 x 2, 3 x 3): products of transformed tiles.

A tile is 4 x 4 positions of an image, of which 2 x 2 results follow. Tiles and filters are transformed by
additions. Then 16 products of matrices add up the planes, with 4 multiplications for a result instead of 9.

Source: A. Lavin, S. Gray, Fast Algorithms for Convolutional Neural Networks, CVPR 2016 (arXiv 1509.09308).
"""

import math
from dataclasses import dataclass, replace

from kernelwright.core.machine import Machine
from kernelwright.ir.program import Region
from kernelwright.ir.window_products import Slide, WindowForm, find_window
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

POINTS = 16
"""Positions of a tile, and so products of matrices."""
STEP = 2
"""Results along each side of a tile."""
REGISTERS = {64: 32, 32: 16, 16: 16}
"""Bytes of a vector -> how many there are."""
MOST_FILTERS, MOST_VECTORS = 12, 7
"""Of a tile of sums in registers."""
MOST_TILES = 128
"""Tiles of a block by default: more do not make the products faster."""
FEW_PLANES, MANY_PLANES = 4, 384
"""Planes between which the rules choose this form. With fewer, transforms are most of the work; with more,
a block in cache has few tiles."""
FILLED = 0.6
"""Share of lanes that must have a tile."""


@dataclass(frozen=True)
class WinogradTiling:
    """Everything that the printer needs to know of how; sizes in elements."""

    form: WindowForm
    lanes: int
    filters: int
    """Of a tile of sums in registers."""
    vectors: int
    """Of a row of these."""
    tile_rows: int
    """Rows of tiles of a block."""
    block_filters: int
    """Filters that look at a block one after the other; whole tiles of sums, except at the end."""

    def fields(self) -> dict[str, object]:
        """Return the fields of a schedule that say the same."""
        return {
            "product": "winograd",
            "register_tile": f"{self.filters}x{self.vectors}",
            "cache_block": f"{self.block_rows}x{self.block_filters}",
            "vector_bytes": 4 * self.lanes,
        }

    @property
    def rows(self) -> int:
        """Of a tile of sums in registers."""
        return self.filters

    @property
    def phases(self) -> int:
        """A row of positions lies as its even and its odd ones: neighbouring tiles are two apart."""
        return STEP

    @property
    def row_tiles(self) -> int:
        """Tiles of a row."""
        return math.ceil(self.form.columns.size / STEP)

    @property
    def tiles_written(self) -> int:
        """Tiles of a row in whole vectors."""
        return whole(self.row_tiles, self.lanes)

    @property
    def pitch(self) -> int:
        """Floats of a phase of a row of positions; tiles look at the next position, too."""
        return self.tiles_written + self.lanes

    @property
    def block_rows(self) -> int:
        """Rows of results of a block."""
        return STEP * self.tile_rows

    @property
    def block_vectors(self) -> int:
        """Vectors of tiles of a block; one row of tiles follows the other without a gap."""
        return math.ceil(self.tile_rows * self.row_tiles / self.lanes)

    @property
    def block_tiles(self) -> int:
        """From one plane of transformed tiles to the next: room for what is written past the last row."""
        written = (self.tile_rows - 1) * self.row_tiles + self.tiles_written
        return whole(max(written, self.block_vectors * self.lanes), self.lanes)

    @property
    def columns(self) -> int:
        """From one row of sums to the next."""
        return STEP * self.tiles_written

    @property
    def all_filters(self) -> int:
        """Filters in whole tiles of sums."""
        return whole(self.form.n_filters, self.filters)

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
        """Return tiles worth trying: the current one, and others that fit the registers."""
        known = [f"{f}x{v}" for f, v in _tiles(4 * self.lanes, self.block_vectors)]
        return tuple(dict.fromkeys((f"{self.filters}x{self.vectors}", *known)))

    def cache_blocks(self) -> tuple[str, ...]:
        """Return blocks worth trying: the current one, and each of its sides halved and doubled."""
        rows = [self.block_rows, whole(self.block_rows // 2, STEP), self.block_rows * 2]
        most = whole(self.form.rows.size, STEP)
        found = [f"{min(max(r, STEP), most)}x{self.block_filters}" for r in rows]
        half = whole(math.ceil(self.block_filters / 2), self.filters)
        return tuple(dict.fromkeys((*found, f"{self.block_rows}x{min(half, self.all_filters)}")))


def winograd_tiling(region: Region, machine: Machine) -> WinogradTiling | None:
    """Return how a normalised region is carried out by transforms; None where it is not."""
    schedule = schedule_of(region)
    if schedule.product not in (None, "winograd"):
        return None
    form = find_window(region)
    if form is None or not may_transform(form):
        return None
    tiling = decide(form, schedule, machine)
    return tiling if schedule.product == "winograd" or is_better(tiling) else None


def may_transform(form: WindowForm) -> bool:
    """Tell whether windows are 3 x 3 and side by side, and all images meet the same filters."""
    is_square = all(_is_plain(slide) for slide in (form.rows, form.columns))
    images = {axis.name for axis in form.outer}
    return is_square and bool(form.filters) and not images & form.dag.axes[form.weight]


def is_better(tiling: WinogradTiling) -> bool:
    """Tell whether transforms are the rule's choice."""
    form = tiling.form
    taken = tiling.tile_rows * tiling.row_tiles / (tiling.block_vectors * tiling.lanes)
    is_wide = taken >= FILLED and form.rows.size >= STEP
    return is_wide and FEW_PLANES <= form.planes <= MANY_PLANES and form.n_filters >= FEW_PLANES


def decide(form: WindowForm, schedule: CppSchedule, machine: Machine) -> WinogradTiling:
    """Decide what the schedule leaves open."""
    width = width_of(schedule, machine)
    tile, block = numbers(schedule.register_tile), numbers(schedule.cache_block)
    rows = math.ceil(form.rows.size / STEP)
    first = WinogradTiling(form, width // 4, 1, 1, 1, form.n_filters)
    if block:
        first = _with(first, min(max(1, block[0] // STEP), rows), min(block[1], form.n_filters))
    else:
        first = _shared(first, machine, min(rows, _fitting(first, machine)))
    most, wanted = tile or max(_tiles(width, first.block_vectors), key=_products_a_load)
    vectors = next(v for v in range(min(wanted, first.block_vectors), 0, -1) if first.block_vectors % v == 0)
    filters = min(most, form.n_filters) if tile else even(form.n_filters, most)
    return replace(first, filters=filters, vectors=vectors, block_filters=whole(first.block_filters, filters))


def _tiles(width: int, block_vectors: int) -> list[tuple[int, int]]:
    """Return (filters, vectors) whose sums fit the registers, beside what is loaded for them."""
    room = REGISTERS[width] - 2
    sides = (v for v in range(1, MOST_VECTORS + 1) if block_vectors % v == 0)
    return [(min(MOST_FILTERS, (room - v) // v), v) for v in sides if room >= 2 * v]


def _products_a_load(tile: tuple[int, ...]) -> float:
    filters, vectors = tile
    return filters * vectors / (filters + vectors)


def _is_plain(slide: Slide) -> bool:
    return slide.axis is not None and slide.n_taps == 3 and slide.move == 1 and abs(slide.step) == 1


def _fitting(first: WinogradTiling, machine: Machine) -> int:
    """Return the rows of tiles that fit half of a private cache once they are transformed, at least one."""
    tiles = min(MOST_TILES, l2_bytes(machine) // 2 // (4 * POINTS * first.form.planes))
    return max(1, tiles // first.row_tiles)


def _shared(first: WinogradTiling, machine: Machine, tile_rows: int) -> WinogradTiling:
    """Return a tiling with smaller blocks where there are too few for the threads."""
    cores = machine.cores or SHARES
    tiling = _with(first, tile_rows, first.block_filters)
    while tiling.blocks < SHARES * cores and tiling.blocks % cores:
        if tiling.tile_rows > 1:
            tiling = _with(tiling, math.ceil(tiling.tile_rows / 2), tiling.block_filters)
        elif tiling.block_filters > MOST_FILTERS:
            tiling = _with(tiling, 1, math.ceil(tiling.block_filters / 2))
        else:
            break
    return tiling


def _with(tiling: WinogradTiling, tile_rows: int, block_filters: int) -> WinogradTiling:
    return replace(tiling, tile_rows=tile_rows, block_filters=block_filters)
