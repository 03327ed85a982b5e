"""How a recurrent layer is cut up: panels of units for threads, rows of a tile, steps of a block."""

import math
from dataclasses import dataclass

from kernelwright.core.machine import Machine
from kernelwright.ir.program import Region
from kernelwright.ir.recurrence import RecurrenceForm, find_recurrence
from kernelwright.targets.cpp.schedule import schedule_of
from kernelwright.targets.cpp.tiling import even, numbers, width_of

SUMS = {64: 24, 32: 12, 16: 12}
"""Bytes of a vector -> vectors of sums that fit the registers, with room for the operands."""
MOST_ROWS = 8
INPUT_ROWS = 128
"""Rows of the input, over all steps of a block, whose sums wait in a private cache; ours."""
IN_FLIGHT = 8
"""Additions that do not wait for one another; fewer leave an adder idle."""
SHARED_FROM = 1 << 15
"""Products a step from which threads share its units: they meet once a step; ours."""


@dataclass(frozen=True)
class RecurrenceTiling:
    """Everything that the printer of recurrent layers needs to know of how."""

    form: RecurrenceForm
    lanes: int
    rows: int
    """Of a tile of sums over the state."""
    input_rows: int
    """Of a tile of sums over the input."""
    block: int
    """Steps whose sums over the input are made before the first of them is taken."""

    def fields(self) -> dict[str, object]:
        """Return the fields of a schedule that say the same."""
        return {
            "register_tile": f"{self.rows}x{self.gates}",
            "cache_block": f"{self.block}x{self.input_rows}",
            "vector_bytes": 4 * self.lanes,
        }

    @property
    def gates(self) -> int:
        """Vectors of a tile's row."""
        return len(self.form.of_state)

    @property
    def columns(self) -> int:
        """Of a tile."""
        return self.gates * self.lanes

    @property
    def blocks(self) -> int:
        """Panels of units: shares of work for threads."""
        return math.ceil(self.form.unit.size / self.lanes)

    @property
    def is_shared(self) -> bool:
        """True where a step has enough work for threads to meet at its end."""
        return self.blocks > 1 and self.form.step_work >= SHARED_FROM

    def tiles(self) -> tuple[str, ...]:
        """Return tiles worth trying, the current one first."""
        most = min(MOST_ROWS, SUMS[4 * self.lanes] // self.gates, self.form.row.size)
        rows = dict.fromkeys((self.rows, *range(max(most, 1), 0, -1)))
        return tuple(f"{n}x{self.gates}" for n in rows)

    def cache_blocks(self) -> tuple[str, ...]:
        """Return blocks worth trying: the current one, its steps halved and doubled, and another tile."""
        blocks = [(self.block, self.input_rows)]
        steps = (max(1, self.block // 2), min(self.block * 2, self.form.step.size))
        blocks += [(n, self.input_rows) for n in steps]
        blocks += [(self.block, n) for n in (self.input_rows - 1, self.input_rows - 2) if n > 0]
        return tuple(dict.fromkeys("x".join(map(str, block)) for block in blocks))


def recurrence_tiling(region: Region, machine: Machine) -> RecurrenceTiling | None:
    """Return how a region of steps is carried out, open fields decided; None of other regions."""
    form = find_recurrence(region)
    if form is None:
        return None
    schedule = schedule_of(region)
    width = width_of(schedule, machine)
    steps, rows, _, _ = form.sizes
    most = max(1, min(MOST_ROWS, SUMS[width] // len(form.of_state)))
    given, block = numbers(schedule.register_tile), numbers(schedule.cache_block)
    block_steps = min(block[0] if block else max(1, INPUT_ROWS // rows), steps)
    longest = max(block_steps, rows)
    return RecurrenceTiling(
        form=form,
        lanes=width // 4,
        rows=min(given[0], rows) if given else even(rows, most),
        input_rows=min(block[1], longest) if block else even(longest, most),
        block=block_steps,
    )
