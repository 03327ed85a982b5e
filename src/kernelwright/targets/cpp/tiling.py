"""How a product is cut up: a tile in registers, blocks in caches, shares for threads."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kernelwright.core.machine import Machine
from kernelwright.ir.products import ProductForm, find_product
from kernelwright.ir.program import Region
from kernelwright.targets.cpp.schedule import CppSchedule, schedule_of

ASSUMED_VECTOR_BYTES = 32
ASSUMED_L2_BYTES = 1 << 20
"""A core's share of the level 2 cache where that is not known."""
LARGEST_TILE = {64: (12, 2), 32: (6, 2), 16: (6, 2)}
"""Bytes of a vector -> rows and vectors of sums that fit the registers, with room for the operands."""
DOT_TILE = {64: (4, 4), 32: (3, 3), 16: (3, 3)}
"""The same where vectors run along the products to add."""
_TILES = {
    64: ((12, 2), (14, 2), (8, 3), (6, 4), (24, 1), (8, 2), (4, 6), (1, 8)),
    32: ((6, 2), (4, 3), (3, 4), (12, 1), (4, 2), (1, 8)),
    16: ((6, 2), (4, 3), (12, 1), (4, 2), (1, 8)),
}
_DOT_TILES = ((4, 4), (3, 3), (2, 4), (4, 2), (1, 8), (8, 1), (2, 2), (1, 4))
LONGEST_INNER = 768
"""Products that one pass over a tile adds at most, by default."""
FEW_ROWS = 8
"""Rows up to which an operand is used so rarely that bringing it into another order costs too much."""
DOT_ROWS = 32
"""Rows or columns up to which it costs more than adding up vectors at the end."""
SHARES = 4
"""Blocks a thread that rules aim at."""
SERIAL_BELOW_FLOPS = 1 << 20
"""Multiplications below which waking threads costs more than it saves."""


_PACKED = {(False, False): "none", (True, False): "left", (False, True): "right", (True, True): "both"}


@dataclass(frozen=True)
class Tiling:
    """Everything that the printer of products needs to know of how; sizes in elements."""

    form: ProductForm
    is_dot: bool
    """Vectors run along the products to add instead of along the columns."""
    lanes: int
    rows: int
    """Of a tile."""
    vectors: int
    """Of a tile's row; of a dot tile its columns."""
    inner: int
    """Products that one pass over a tile adds."""
    block_rows: int
    block_columns: int
    packs_left: bool
    packs_right: bool

    def fields(self) -> dict[str, object]:
        """Return the fields of a schedule that say the same."""
        return {
            "product": "dot" if self.is_dot else "tile",
            "register_tile": f"{self.rows}x{self.vectors}",
            "cache_block": f"{self.block_rows}x{self.block_columns}x{self.inner}",
            "packing": _PACKED[self.packs_left, self.packs_right],
            "vector_bytes": 4 * self.lanes,
        }

    @property
    def blocks(self) -> int:
        """Shares of work for threads."""
        outer, m, n, _ = self.form.sizes
        return outer * math.ceil(m / self.block_rows) * math.ceil(n / self.block_columns)

    @property
    def columns(self) -> int:
        """Of a tile."""
        return self.vectors if self.is_dot else self.vectors * self.lanes


def register_tiles(tiling: Tiling) -> tuple[str, ...]:
    """Return tiles worth trying: the current one, and shapes about as large in registers."""
    known = _DOT_TILES if tiling.is_dot else _TILES[4 * tiling.lanes]
    _, m, n, _ = tiling.form.sizes
    return _that_fit(known, (tiling.rows, tiling.vectors), m, n, 1 if tiling.is_dot else tiling.lanes)


def vector_tiles(now: tuple[int, int], m: int, n: int, lanes: int) -> tuple[str, ...]:
    """As ``register_tiles``, of any tile with vectors along its rows."""
    return _that_fit(_TILES[4 * lanes], now, m, n, lanes)


def _that_fit(
    known: Sequence[tuple[int, int]], now: tuple[int, int], m: int, n: int, width: int
) -> tuple[str, ...]:
    fits = [f"{min(r, m)}x{v}" for r, v in known if (v - 1) * width < n]
    return tuple(dict.fromkeys((f"{now[0]}x{now[1]}", *fits)))


def cache_blocks(tiling: Tiling) -> tuple[str, ...]:
    """Return blocks worth trying: the current one, and each of its sides halved and doubled."""
    _, m, n, k = tiling.form.sizes
    now = (tiling.block_rows, tiling.block_columns, tiling.inner)
    least, most, steps = (1, 1, min(k, 64)), (m, n, k), (tiling.rows, tiling.columns, 1)
    found = [now]
    for side in range(2 if tiling.is_dot else 3):
        for size in (now[side] // 2, now[side] * 2):
            other = list(now)
            other[side] = whole(max(least[side], min(size, most[side])), steps[side])
            found.append((other[0], other[1], min(other[2], k)))
    return tuple(dict.fromkeys("x".join(map(str, block)) for block in found))


def numbers(text: str | None) -> tuple[int, ...]:
    """Return the numbers of a field such as ``12x2``; none of an open one."""
    return tuple(int(part) for part in text.split("x")) if text else ()


def plain_steps(form: ProductForm, operand: int, across: str) -> tuple[int, int] | None:
    """Return an operand's steps along rows or columns and along inner axes; None where it must be packed."""
    step = form.step(operand, form.rows if across == "rows" else form.columns)
    along = form.step(operand, form.inner)
    return None if step is None or along is None else (step, along)


def may_dot(form: ProductForm) -> bool:
    """Tell whether both operands lie along the products to add."""
    left, right = plain_steps(form, form.left, "rows"), plain_steps(form, form.right, "columns")
    return left is not None and right is not None and left[1] == 1 and right[1] == 1


def may_stay(form: ProductForm, operand: int) -> bool:
    """Tell whether a tile can read an operand where it is."""
    if operand == form.left:
        return plain_steps(form, operand, "rows") is not None
    steps = plain_steps(form, operand, "columns")
    return steps is not None and steps[0] == 1


def tiling_of(region: Region, machine: Machine) -> Tiling | None:
    """Return how a normalised region is carried out as a product; None where it is none, or runs as loops."""
    schedule = schedule_of(region)
    if schedule.product == "loops":
        return None
    form = find_product(region)
    return None if form is None else decide(form, schedule, machine)


def decide(form: ProductForm, schedule: CppSchedule, machine: Machine) -> Tiling:
    """Decide what the schedule leaves open."""
    _, m, n, k = form.sizes
    width = width_of(schedule, machine)
    lanes = width // 4
    wanted = schedule.product or ("dot" if _wants_dot(form, lanes) else "tile")
    if wanted == "dot" and may_dot(form):
        return _dots(form, schedule, machine, lanes)
    rows, vectors = tile_of(m, n, schedule, width)
    columns = vectors * lanes
    block = numbers(schedule.cache_block)
    inner = min(block[2], k) if block else even(k, LONGEST_INNER)
    l2 = l2_bytes(machine)
    block_rows = whole(block[0] if block else even(m, max(rows, 3 * l2 // 16 // inner)), rows)
    block_columns = block[1] if block else _share(form, machine, block_rows, columns, inner, l2)
    packing = schedule.packing or _packing(m, n, columns)
    return Tiling(
        form=form,
        is_dot=False,
        lanes=lanes,
        rows=rows,
        vectors=vectors,
        inner=inner,
        block_rows=min(block_rows, whole(m, rows)),
        block_columns=min(whole(block_columns, columns), whole(n, columns)),
        packs_left=packing in ("left", "both") or not may_stay(form, form.left),
        packs_right=packing in ("right", "both") or not may_stay(form, form.right),
    )


def is_shared(form: ProductForm) -> bool:
    """Tell whether there is enough work to wake threads for."""
    return math.prod(form.sizes) >= SERIAL_BELOW_FLOPS


def _wants_dot(form: ProductForm, lanes: int) -> bool:
    """Few rows: bringing the right operand into another order would cost as much as the product."""
    _, m, n, k = form.sizes
    return may_dot(form) and k >= 4 * lanes and min(m, n) <= DOT_ROWS and not may_stay(form, form.right)


def _dots(form: ProductForm, schedule: CppSchedule, machine: Machine, lanes: int) -> Tiling:
    _, m, n, k = form.sizes
    rows, columns = DOT_TILE[4 * lanes]
    rows, columns = numbers(schedule.register_tile) or (rows, columns)
    rows, columns = min(rows, m), min(columns, n)
    block = numbers(schedule.cache_block)
    block_rows = whole(block[0] if block else m, rows)
    share = block[1] if block else _share(form, machine, block_rows, columns, k, l2_bytes(machine))
    return Tiling(
        form=form,
        is_dot=True,
        lanes=lanes,
        rows=rows,
        vectors=columns,
        inner=k,
        block_rows=min(block_rows, whole(m, rows)),
        block_columns=min(whole(share, columns), whole(n, columns)),
        packs_left=False,
        packs_right=False,
    )


def width_of(schedule: CppSchedule, machine: Machine) -> int:
    """Return the bytes of a vector."""
    width = schedule.vector_bytes or machine.vector_bytes or ASSUMED_VECTOR_BYTES
    return width if width in LARGEST_TILE else ASSUMED_VECTOR_BYTES


def tile_of(m: int, n: int, schedule: CppSchedule, width: int) -> tuple[int, int]:
    """Return rows and vectors of a tile: as many as fit, in equal parts of what there is."""
    most_rows, vectors = LARGEST_TILE[width]
    given = numbers(schedule.register_tile)
    if given:
        return min(given[0], m), min(given[1], math.ceil(4 * n / width))
    if m * 2 <= most_rows:
        vectors = min(4, most_rows * vectors // m)
    return even(m, most_rows), min(vectors, math.ceil(4 * n / width))


def _packing(m: int, n: int, columns: int) -> str:
    """An operand that many tiles read is packed."""
    left, right = n > 2 * columns and m > FEW_ROWS, m > 4 * FEW_ROWS
    return "both" if left and right else "left" if left else "right" if right else "none"


def even(size: int, most: int) -> int:
    """Return the length of equal parts, none longer than ``most``."""
    return math.ceil(size / math.ceil(size / most))


def whole(size: int, step: int) -> int:
    """Return the size rounded up to a multiple of the step."""
    return math.ceil(size / step) * step


def l2_bytes(machine: Machine) -> int:
    """Return a core's share of the level 2 cache."""
    found = machine.cache(2)
    return ASSUMED_L2_BYTES if found is None else found.instance_bytes // found.shared_by


def _share(form: ProductForm, machine: Machine, block_rows: int, columns: int, inner: int, l2: int) -> int:
    """Return the columns of a block: threads get even shares, and sums that wait fit the cache."""
    outer, m, n, k = form.sizes
    panels = math.ceil(n / columns)
    most = panels if k <= inner else max(1, l2 // 16 // block_rows // columns)
    cores = machine.cores or SHARES
    units = outer * math.ceil(m / block_rows)
    fewest = math.ceil(panels / most)
    for parts in range(fewest, min(panels, fewest + SHARES * cores) + 1):
        shares = units * math.ceil(panels / math.ceil(panels / parts))
        if shares >= SHARES * cores or shares % cores == 0:
            return math.ceil(panels / parts) * columns
    return math.ceil(panels / fewest) * columns
