"""What finders and dimensions read of a region: how it is carried out now, and what that costs."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from kernelwright.core.machine import Machine
from kernelwright.ir.by_loops import by_program
from kernelwright.ir.dag import COST_CACHED, Dag
from kernelwright.ir.lanes import estimate_ns
from kernelwright.ir.normalise import axis_sizes
from kernelwright.ir.products import ProductForm, find_product
from kernelwright.ir.program import Buffer, Call, Program, Region
from kernelwright.ir.window_products import WindowForm, find_window
from kernelwright.targets.cpp.choices import Choices, resolve
from kernelwright.targets.cpp.schedule import CppSchedule, schedule_of
from kernelwright.targets.cpp.tiling import l2_bytes
from kernelwright.targets.cpp.windows import may_slide

ITEM_BYTES = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "int16": 2}
CALL_SHARE = 4.0
"""A library call is guessed to take as long as this many regions."""


@by_program
def _whole_ns(program: Program) -> float:
    regions = sum(estimate_ns(s) for s in program.steps if isinstance(s, Region))
    n_calls = sum(1 for s in program.steps if isinstance(s, Call) and not s.is_view)
    return regions * (1 + CALL_SHARE * (n_calls > 0))


@by_program
def _places(program: Program) -> Mapping[str, int]:
    return {buffer.name: place for place, buffer in enumerate(program.buffers)}


@dataclass(frozen=True)
class CppRegionFacts:
    """A region, how it is carried out now, and its share of the program's time."""

    region: Region
    choices: Choices
    dag: Dag
    share: float
    written: tuple[Buffer, ...]
    machine: Machine

    @classmethod
    def of(cls, region: Region, program: Program, machine: Machine) -> "CppRegionFacts":
        """Gather them."""
        choices = resolve(region, machine)
        dag = Dag(choices.region, choices.lane_axis)
        own, total, places = estimate_ns(choices.region), _whole_ns(program), _places(program)
        stores = {a.store.buffer for g in dag.groups for a in g.stores if a.store is not None}
        return cls(
            region=region,
            choices=choices,
            dag=dag,
            share=own / total if total else 0.0,
            written=tuple(program.buffers[place] for place in sorted(places[name] for name in stores)),
            machine=machine,
        )

    @staticmethod
    def n_bytes(buffer: Buffer) -> int:
        """Return the size of a tensor."""
        return math.prod(buffer.shape) * ITEM_BYTES.get(buffer.dtype, 1)

    @property
    def schedule(self) -> CppSchedule:
        """The schedule as given."""
        return schedule_of(self.region)

    @property
    def l2_bytes(self) -> int:
        """A core's share of the level 2 cache."""
        return l2_bytes(self.machine)

    @property
    def has_reduction(self) -> bool:
        """True when some stage reduces."""
        return any(g.reduces for g in self.dag.groups)

    @property
    def slice_bytes(self) -> int:
        """Bytes of one pass over the inner axes at one kept point (one block of them)."""
        sizes = axis_sizes(self.choices.region)
        lanes = self.choices.lanes if self.choices.is_column else 1
        largest = max((math.prod(sizes[a] for a in g.axes) for g in self.dag.groups), default=1)
        return 4 * largest * lanes

    @property
    def n_passes(self) -> int:
        """How often the inner axes are gone over."""
        return sum(1 for g in self.dag.groups if g.axes)

    @property
    def has_scan(self) -> bool:
        """True when some stage scans."""
        return any(g.scans for g in self.dag.groups)

    @property
    def sums(self) -> bool:
        """True when some stage sums."""
        return any(a.stage.combine == "sum" for g in self.dag.groups for a in g.reduces)

    @property
    def kept_points(self) -> int:
        """How many kept points there are."""
        return math.prod(a.size for a in self.choices.region.kept)

    @property
    def lane_size(self) -> int:
        """Points along the vector axis."""
        return axis_sizes(self.choices.region).get(self.choices.lane_axis or "", 1)

    @property
    def schedule_rows(self) -> int:
        """Rows that are taken side by side."""
        return self.schedule.rows_together or 1

    @property
    def values_per_lane(self) -> int:
        """Values that one lane takes in a pass."""
        return self.slice_bytes // 4 // max(self.choices.lanes, 1)

    @cached_property
    def product(self) -> ProductForm | None:
        """What the region multiplies."""
        tiling = self.choices.tiling
        return find_product(self.choices.region) if tiling is None else tiling.form

    @cached_property
    def window(self) -> WindowForm | None:
        """What the region sums over windows, where a part of an image fits a cache."""
        if self.choices.window is not None:
            return self.choices.window.form
        form = find_window(self.choices.region)
        return form if form is not None and may_slide(form) else None

    @property
    def blocks(self) -> int:
        """Blocks of work that threads share."""
        if self.choices.in_tiles is not None:
            return self.choices.in_tiles.blocks
        if not self.choices.is_column:
            return self.kept_points
        outer = self.kept_points // max(self.lane_size, 1)
        return outer * -(-self.lane_size // max(self.choices.lanes, 1))

    @property
    def cost(self) -> int:
        """Instructions a point of the costliest stage."""
        return max((self.dag.cost(a.node) for g in self.dag.groups for a in g.actions), default=0)

    @cached_property
    def shared(self) -> list[int]:
        """Costly values that several passes need."""
        groups = self.dag.groups
        return [
            n
            for n in range(len(self.dag.nodes))
            if self.dag.nodes[n].kind == "op"
            and self.dag.cost(n) >= COST_CACHED
            and sum(1 for g in groups if g.axes and n in self.dag.needed([a.node for a in g.actions])) > 1
        ]
