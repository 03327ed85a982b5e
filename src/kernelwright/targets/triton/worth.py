"""Is a matrix product better in the kernel of what follows it than with the library?

A guess of ours from shapes and what is known of the GPU; no figure in it was measured. For products that are
as exact as float32 on both sides.
"""

from dataclasses import dataclass

from kernelwright.core.machine import Accelerator

LIBRARY_SHARE, TILE_SHARE = 0.85, 0.6
"""Of the float32 peak: what the library reaches, which picks tile and split so that every unit has work, and
what our tiles do on units that have some."""
LAUNCH_S = 3e-6
"""One more kernel, when the host keeps up."""
UNKNOWN_FLOPS, UNKNOWN_BANDWIDTH, UNKNOWN_COUNT = 60e12, 3e12, 128
"""Of a GPU that is not known: of about the last years' data centres."""
ITEM_BYTES = 4


@dataclass(frozen=True)
class FusedProduct:
    """A product of float32 with what follows it."""

    batches: int
    rows: int
    inner: int
    columns: int
    tiles: int
    """Programs that it takes in one kernel."""
    beside_bytes: int
    """What the rest reads beside the product, and what it writes."""


def busy_share(tiles: int, units: int) -> float:
    """Return the share of units with work, all waves together: the last one is seldom full.

    Example:
        >>> busy_share(132, 132), busy_share(133, 132) < 0.51
        (1.0, True)
    """
    return tiles / (-(-tiles // units) * units)


def fusion_gain(product: FusedProduct, gpu: Accelerator) -> float:
    """Return the library's product and another kernel over one kernel of ours, in time; at least 1.

    The one kernel neither writes nor reads the product, and is launched once; the library's arithmetic is
    the better one, and has no idle units in a last wave.
    """
    flops = gpu.fp32_flops or UNKNOWN_FLOPS
    bandwidth = gpu.bandwidth or UNKNOWN_BANDWIDTH
    p = product
    work = 2 * p.batches * p.rows * p.inner * p.columns / flops
    operands = ITEM_BYTES * p.batches * p.inner * (p.rows + p.columns) / bandwidth
    result = ITEM_BYTES * p.batches * p.rows * p.columns / bandwidth
    beside = p.beside_bytes / bandwidth
    busy = busy_share(p.tiles, gpu.units or UNKNOWN_COUNT)
    library = max(work / LIBRARY_SHARE, operands + result) + result + beside + 2 * LAUNCH_S
    ours = max(work / (TILE_SHARE * busy), operands + beside) + LAUNCH_S
    return max(1.0, library / ours)
