"""How a region becomes a C++ function, as data; open fields are decided by the rules of ``choices.py``."""

from dataclasses import dataclass
from typing import Literal

from kernelwright.ir.program import Region, Schedule


@dataclass(frozen=True)
class CppSchedule(Schedule):
    """A schedule for the C++ printer. ``None`` means that its rules decide."""

    parallel: Literal["kept", "inner", "none"] | None = None
    """Threads over kept points, over chunks of the inner axes (partial results, then a combine), or not."""
    vector_axis: str | None = None
    """Innermost, vectorised loop: the last inner axis ("row" form) or a kept axis ("column" form)."""
    tile: int | None = None
    """Column form: kept points per block that stay in registers or L1 while the inner axes run."""
    unroll: int | None = None
    """Independent vectors in flight per iteration; of a reduction: accumulators."""
    chunk: int | None = None
    """Elements summed in float32 before the partial sum goes to a float64 accumulator."""
    vector_bytes: int | None = None
    """Preferred vector width: 16, 32 or 64."""
    moments: Literal["two_pass", "one_pass"] | None = None
    """Mean and variance: subtract the mean in a second pass, or shifted sums in one."""
    online: bool | None = None
    """Softmax-like max and sum of exponentials in one pass with rescaling."""
    cache_rows: bool | None = None
    """Values that several stages need at the same inner point are kept in scratch, not computed again."""
    stream: bool | None = None
    """Non-temporal stores for outputs that do not fit the cache."""
    rows_together: int | None = None
    """Scan and short-row reductions: kept points processed side by side to hide latency."""
    threads: int | None = None
    """Threads to use; None: all."""
    interior_split: bool | None = None
    """Window stages: border points apart, so that the interior needs no bounds."""
    separable: bool | None = None
    """Window stages: along the other axes first, into a row that stays in level 1, then along the lanes."""
    jam: int | None = None
    """Column form: points of the innermost sequential loop that one pass over the lanes takes together."""
    prefetch: int | None = None
    """Kept points ahead of which a row is asked for; 0: none."""
    grain: int | None = None
    """Blocks of work that a thread takes whenever it is free; 0: equal shares from the start."""
    exp_degree: int | None = None
    """Degree of the polynomial in exponentials, and so in all that is made of them: 6 or 5."""
    product: Literal["tile", "dot", "loops", "window", "winograd"] | None = None
    """Matrix products and convolutions: tiles of sums in registers with vectors along the columns, the same
    with vectors along what is added, plain loops, windows that slide over an image, or products of an image
    and filters after transforms."""
    register_tile: str | None = None
    """Products and attention: sums that stay in registers, ``ROWSxVECTORS``; of the form ``dot``
    ``ROWSxCOLUMNS``, of transforms ``FILTERSxVECTORS``, of recurrent layers ``ROWSxGATES``."""
    cache_block: str | None = None
    """Products: a share of work and how much of it one pass adds, ``ROWSxCOLUMNSxINNER``. Attention: rows and
    keys whose scores are in memory, and the rows of a share, ``ROWSxKEYSxSHARE``. Windows and
    transforms: rows of a block and filters that look at it, ``ROWSxFILTERS``. Recurrent layers: steps whose
    sums over the input are made together, and rows of a tile of these, ``STEPSxROWS``."""
    packing: Literal["none", "left", "right", "both"] | None = None
    """Products: the operands, of rows and of columns, that are copied into the order in which tiles read."""


def schedule_of(region: Region) -> CppSchedule:
    """Return the region's schedule for this printer; open in every field where it has none."""
    return region.schedule if isinstance(region.schedule, CppSchedule) else CppSchedule()
