"""How many bytes a thread moves at a time: the tile against the threads that share it.

Triton gives every thread neighbouring values of a tile, as many as there are for it up to 16 bytes an
access. So width is a ratio, not an option: this edit sets the number of warps that makes it.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from kernelwright.core.errors import LoweringError
from kernelwright.core.machine import ANY_GPU, Accelerator
from kernelwright.core.plan import ParamValue
from kernelwright.ir.dag import Dag
from kernelwright.ir.edits import Site
from kernelwright.ir.program import Program, Region
from kernelwright.ir.regions import find_region, replace_region
from kernelwright.targets.triton.schedule import TritonSchedule, complete, decide

WIDTHS = (16, 8, 32)
"""Bytes of a tile a thread has: the widest access; half of it, for more warps; two, for more in flight."""
LANES = {"cuda": 32, "hip": 64}
MAX_THREADS = 1024
_BYTES = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "int16": 2}


@dataclass
class VectorWidth:
    """Gives every thread so many neighbouring bytes of what is read."""

    name: str = "triton-vector"
    gpu: Accelerator = ANY_GPU

    def sites(self, program: Program) -> tuple[Site, ...]:
        """Return the regions where threads could have more or fewer."""
        found = []
        for step in program.steps:
            if not isinstance(step, Region) or decide(step).is_tiled:
                continue
            now = decide(step).num_warps
            values = tuple(w for w in WIDTHS if self._warps(step, w) not in (None, now))
            if values:
                why = f"{_tile_bytes(step) // (now * LANES[self.gpu.kind])} bytes of a tile for each thread"
                found.append(Site(step.name, why, 1.05, {"vector_bytes": values}))
        return tuple(found)

    def apply(self, program: Program, region: str, params: Mapping[str, ParamValue]) -> Program:
        """Return the program with the region's number of warps set; LoweringError where none will do."""
        old, width = find_region(program, region), params.get("vector_bytes")
        warps = self._warps(old, width) if type(width) is int and width in (4, *WIDTHS) else None
        if warps is None:
            raise LoweringError(f"{self.name}: vector_bytes cannot be {width!r} in region {region}")
        schedule = old.schedule if isinstance(old.schedule, TritonSchedule) else complete(old)
        return replace_region(
            program, dataclasses.replace(old, schedule=dataclasses.replace(schedule, num_warps=warps))
        )

    def _warps(self, region: Region, width: int) -> int | None:
        lanes = LANES[self.gpu.kind]
        warps = _tile_bytes(region) // (width * lanes)
        return warps if 1 <= warps <= MAX_THREADS // lanes and not decide(region).is_tiled else None


def _tile_bytes(region: Region) -> int:
    """Return the bytes that one step of a program reads of its widest tensor."""
    how = decide(region)
    loads = (node.dtype for node in Dag(how.region).nodes if node.kind == "load")
    return how.block_kept * how.block_inner * max((_BYTES.get(dtype, 1) for dtype in loads), default=4)
