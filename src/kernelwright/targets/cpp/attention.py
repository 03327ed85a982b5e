"""How attention is cut up: a tile in registers, blocks of rows and keys in caches, shares for threads."""

import math
from dataclasses import dataclass

from kernelwright.core.machine import Machine
from kernelwright.ir.attention import AttentionForm, find_attention
from kernelwright.ir.program import Region
from kernelwright.targets.cpp.schedule import schedule_of
from kernelwright.targets.cpp.tiling import (
    SERIAL_BELOW_FLOPS,
    SHARES,
    numbers,
    tile_of,
    vector_tiles,
    whole,
    width_of,
)

BLOCK_ROWS, BLOCK_KEYS = 64, 128
"""Scores of so many rows and keys lie in a private cache beside what they are made of; ours."""


@dataclass(frozen=True)
class AttentionTiling:
    """Everything that the printer of attention needs to know of how; sizes in elements."""

    form: AttentionForm
    lanes: int
    rows: int
    """Of a tile."""
    vectors: int
    """Of a tile's row."""
    block_rows: int
    """Rows whose scores are in memory at a time; tiles divide them."""
    block_keys: int
    """Keys whose scores are in memory at a time; tiles divide them."""
    share: int
    """Rows for which a thread brings keys into order once; blocks divide them."""

    def fields(self) -> dict[str, object]:
        """Return the fields of a schedule that say the same."""
        return {
            "register_tile": f"{self.rows}x{self.vectors}",
            "cache_block": f"{self.block_rows}x{self.block_keys}x{self.share}",
            "vector_bytes": 4 * self.lanes,
        }

    @property
    def columns(self) -> int:
        """Of a tile."""
        return self.vectors * self.lanes

    @property
    def blocks(self) -> int:
        """Shares of work for threads."""
        batches, rows, _, _ = self.form.sizes
        return batches * math.ceil(rows / self.share)

    @property
    def is_shared(self) -> bool:
        """True where there is enough work to wake threads for."""
        return self.form.work >= SERIAL_BELOW_FLOPS

    @property
    def packs_values(self) -> bool:
        """True where a tile cannot read the values where they are."""
        return (
            self.form.step(self.form.values, self.form.feature) != 1
            or self.form.feature.size % self.lanes != 0
        )

    def tiles(self) -> tuple[str, ...]:
        """Return tiles worth trying, the current one first."""
        _, rows, keys, _ = self.form.sizes
        return vector_tiles((self.rows, self.vectors), rows, keys, self.lanes)

    def cache_blocks(self) -> tuple[str, ...]:
        """Return blocks worth trying: the current one, and each of its sizes halved and doubled."""
        _, rows, keys, _ = self.form.sizes
        now = (self.block_rows, self.block_keys, self.share)
        most, steps = (rows, keys, rows), (self.rows, self.columns, 1)
        found = [now]
        for side in range(3):
            for size in (now[side] // 2, now[side] * 2):
                other = list(now)
                other[side] = whole(max(1, min(size, most[side])), steps[side])
                found.append((other[0], other[1], whole(min(other[2], rows), other[0])))
        return tuple(dict.fromkeys("x".join(map(str, block)) for block in found))


def attention_tiling(region: Region, machine: Machine) -> AttentionTiling | None:
    """Return how a region of attention is carried out, open fields decided; None of other regions."""
    form = find_attention(region)
    if form is None:
        return None
    schedule = schedule_of(region)
    _, rows, keys, _ = form.sizes
    width = width_of(schedule, machine)
    lanes = width // 4
    tile_rows, vectors = tile_of(rows, keys, schedule, width)
    block = numbers(schedule.cache_block) or (BLOCK_ROWS, BLOCK_KEYS, 0)
    block_rows = whole(min(block[0], rows), tile_rows)
    share = block[2] or _share(form, machine, block_rows)
    return AttentionTiling(
        form=form,
        lanes=lanes,
        rows=tile_rows,
        vectors=vectors,
        block_rows=block_rows,
        block_keys=whole(min(block[1], keys), vectors * lanes),
        share=whole(min(share, rows), block_rows),
    )


def _share(form: AttentionForm, machine: Machine, block_rows: int) -> int:
    """Return the rows of a share: all of them, unless threads would have unequal work."""
    batches, rows, _, _ = form.sizes
    cores = machine.cores or SHARES
    for parts in range(1, math.ceil(rows / block_rows) + 1):
        if batches * parts >= SHARES * cores or (form.reach is None and batches * parts % cores == 0):
            return math.ceil(rows / parts)
    return block_rows
