"""Positions along several axes taken as one, and the tails of loops over tiles."""

import math
from collections.abc import Sequence

from kernelwright.ir.program import Axis


def digits(axes: Sequence[Axis], text: str) -> list[tuple[Axis, str]]:
    """Return the text of each axis's position, given the text of the position along all of them."""
    found, step = [], math.prod(a.size for a in axes)
    for position, axis in enumerate(axes):
        step //= axis.size
        part = text if step == 1 else f"{text} / {step}"
        found.append((axis, part if position == 0 else f"{part} % {axis.size}"))
    return found


def extents(variable: str, size: int, step: int) -> list[tuple[int, str]]:
    """Return the extents that a tile can have along one side, each with the condition for it."""
    rest = size % step
    whole = [(step, f"{variable} + {step} <= {size}" if rest else "")] if size >= step else []
    return whole + ([(rest, "")] if rest else [])
