"""Where each schedule field could matter, and which values are worth trying there."""

import math
from dataclasses import dataclass

from kernelwright.core.machine import Machine
from kernelwright.core.plan import ParamValue
from kernelwright.ir.dag import COST_CACHED, Dag
from kernelwright.ir.edits import Found
from kernelwright.ir.lanes import estimate_ns, has_bounds, lane_quality, points
from kernelwright.ir.normalise import axis_sizes
from kernelwright.ir.patterns import find_moments, find_online
from kernelwright.ir.program import Buffer, Call, Program, Region
from kernelwright.targets.cpp.choices import (
    SCRATCH_BYTES,
    SERIAL_BELOW_NS,
    Choices,
    cores_of,
    resolve,
)
from kernelwright.targets.cpp.schedule import CppSchedule, schedule_of

ASSUMED_L2_BYTES = 1 << 20
"""A core's share of the level 2 cache where that is not known."""
ITEM_BYTES = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "int16": 2}
SHORT_ROW_BYTES, SHORT_SCAN_BYTES = 256, 2048
"""Rows up to this size may be worth taking side by side: of a reduction, of a scan."""
CALL_SHARE = 4.0
"""A library call is guessed to take as long as this many regions."""


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
        own = estimate_ns(choices.region)
        regions = [estimate_ns(s) for s in program.steps if isinstance(s, Region)]
        n_calls = sum(1 for s in program.steps if isinstance(s, Call) and not s.is_view)
        total = sum(regions) * (1 + CALL_SHARE * (n_calls > 0))
        stores = {a.store.buffer for g in dag.groups for a in g.stores if a.store is not None}
        return cls(
            region=region,
            choices=choices,
            dag=dag,
            share=own / total if total else 0.0,
            written=tuple(b for b in program.buffers if b.name in stores),
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
        found = self.machine.cache(2)
        return ASSUMED_L2_BYTES if found is None else found.instance_bytes // found.shared_by

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


def vector_width(facts: CppRegionFacts) -> Found | None:
    """Half as wide: full width has won wherever it was measured, but the clock may drop with it."""
    current = facts.schedule.vector_bytes or 64
    cost = max((facts.dag.cost(a.node) for g in facts.dag.groups for a in g.actions), default=0)
    if cost < COST_CACHED:
        return None
    return Found(
        f"{cost} instructions a point in {current}-byte vectors", 1.0, (32 if current == 64 else 64,)
    )


def unroll(facts: CppRegionFacts) -> Found | None:
    """More accumulators hide the latency of the additions of a row reduction."""
    if not facts.has_reduction or facts.choices.is_column or facts.choices.lane_axis is None:
        return None
    size = axis_sizes(facts.choices.region)[facts.choices.lane_axis]
    current = max(1, facts.choices.lanes // 16)
    values: tuple[ParamValue, ...] = tuple(v for v in (4, 2) if v != current and v * 16 <= size)
    return Found(f"{current} vectors in flight over a row of {size}", 1.0, values)


def tile(facts: CppRegionFacts) -> Found | None:
    """Column form: a wider tile reads longer runs of memory, a narrower one stays in registers."""
    if not facts.choices.is_column or facts.n_passes == 0:
        return None
    size = axis_sizes(facts.choices.region)[facts.choices.lane_axis or ""]
    current = facts.choices.lanes
    values: tuple[ParamValue, ...] = tuple(
        v for v in (current // 2, current * 2) if 32 <= v <= min(size, 1024)
    )
    why = f"{current} of {size} columns together, {facts.slice_bytes} bytes a block"
    return Found(why, 1.1 if facts.n_passes > 1 and facts.slice_bytes > facts.l2_bytes else 1.02, values)


def chunk(facts: CppRegionFacts) -> Found | None:
    """Longer float32 runs flush less often, shorter ones round less."""
    sums = [a for g in facts.dag.groups for a in g.reduces if a.stage.combine == "sum"]
    if not sums:
        return None
    per_lane = facts.slice_bytes // 4 // max(facts.choices.lanes, 1)
    if per_lane <= 2 * facts.choices.chunk:
        return None
    current = facts.choices.chunk * (1 if facts.choices.is_column else facts.choices.lanes)
    candidates = (128, 256) if facts.choices.is_column else (8192, 16384)
    values: tuple[ParamValue, ...] = tuple(v for v in candidates if v != current)
    return Found(f"partial sums of {current} values, {per_lane} values a lane", 1.0, values)


def moments(facts: CppRegionFacts) -> Found | None:
    """One pass over memory instead of two where a slice does not stay in a core's cache."""
    if find_moments(facts.dag) is None or facts.choices.is_column or facts.choices.parallel == "inner":
        return None
    is_large = facts.slice_bytes > facts.l2_bytes
    one_pass = facts.choices.one_pass
    why = f"mean and variance over slices of {facts.slice_bytes / 1e6:.2f} MB, {facts.n_passes} passes"
    if is_large and not one_pass:
        return Found(why, facts.n_passes / (facts.n_passes - 1), ("one_pass",))
    return Found(why, 1.0, ("two_pass",)) if one_pass else None


def online(facts: CppRegionFacts) -> Found | None:
    """Maximum and sum of exponentials in one pass over memory."""
    if find_online(facts.dag) is None or facts.choices.is_column or facts.choices.parallel == "inner":
        return None
    is_large = facts.slice_bytes > facts.l2_bytes
    megabytes = facts.slice_bytes / 1e6
    why = f"maximum, then exponentials, over rows of {megabytes:.2f} MB in {facts.n_passes} passes"
    if is_large and not facts.choices.online:
        return Found(why, facts.n_passes / max(facts.n_passes - 1, 1), (True,))
    return Found(why, 1.0, (False,)) if facts.choices.online else None


def cache_rows(facts: CppRegionFacts) -> Found | None:
    """Keeping exponentials and their like costs a store and a load, computing them again instructions."""
    groups = facts.dag.groups
    shared = [
        n
        for n in range(len(facts.dag.nodes))
        if facts.dag.nodes[n].kind == "op"
        and facts.dag.cost(n) >= COST_CACHED
        and sum(1 for g in groups if g.axes and n in facts.dag.needed([a.node for a in g.actions])) > 1
    ]
    if not shared or facts.slice_bytes > SCRATCH_BYTES or facts.choices.parallel == "inner":
        return None
    cost = facts.dag.cost(shared[-1])
    why = f"{cost} instructions a point are needed by two passes over {facts.slice_bytes} bytes"
    return Found(why, 1.0 if facts.choices.cache_rows else 1.2, (not facts.choices.cache_rows,))


def stream(facts: CppRegionFacts) -> Found | None:
    """Non-temporal stores save the read of lines that are overwritten whole: for large outputs."""
    written = sum(facts.n_bytes(b) for b in facts.written)
    read = {n.name for n in facts.dag.nodes if n.kind == "load"}
    if written < 8 << 20 or any(b.name in read for b in facts.written):
        return None  # what fits the caches, or was just read into them
    return Found(f"writes {written / 1e6:.0f} MB", 1.03, (not facts.choices.stream,))


def rows_together(facts: CppRegionFacts) -> Found | None:
    """Short rows: several kept points side by side in the lanes.

    Each step then touches one cache line per row, so long rows lose what they share of a line.
    """
    region = facts.choices.region
    scans = any(g.scans for g in facts.dag.groups)
    is_short = facts.slice_bytes <= (SHORT_SCAN_BYTES if scans else SHORT_ROW_BYTES)
    if facts.choices.is_column or not region.kept or not (is_short and (scans or facts.has_reduction)):
        return None
    current = facts.schedule.rows_together or 1
    values: tuple[ParamValue, ...] = (16,) if current != 16 <= region.kept[-1].size else ()
    what = "a scan" if scans else "reductions"
    return Found(
        f"{what} along rows of {facts.slice_bytes // 4} values, one row at a time",
        1.0 if scans else 1.05,
        values,
    )


def parallel_axis(facts: CppRegionFacts) -> Found | None:
    """Threads over kept points or over the inner axes."""
    if estimate_ns(facts.choices.region) < SERIAL_BELOW_NS or cores_of(facts.machine) < 2:
        return None
    kept = math.prod(a.size for a in facts.choices.region.kept)
    current = facts.choices.parallel
    can_inner = facts.n_passes > 0 and not any(g.scans for g in facts.dag.groups)
    others = [
        p
        for p in ("kept", "inner")
        if p != current and (p != "inner" or can_inner) and (p != "kept" or kept > 1)
    ]
    if not others or kept >= 16 * cores_of(facts.machine):
        return None
    return Found(f"{kept} kept points for {cores_of(facts.machine)} threads", 1.02, tuple(others))


def threads(facts: CppRegionFacts) -> Found | None:
    """Fewer threads where waking them costs as much as they save."""
    estimate = estimate_ns(facts.choices.region)
    available = cores_of(facts.machine)
    if facts.choices.parallel == "none" or estimate > 8 * SERIAL_BELOW_NS or available < 2:
        return None
    values: tuple[ParamValue, ...] = tuple(
        v for v in (1, 2, 4) if v < available and v != facts.schedule.threads
    )
    return Found(f"about {estimate / 1000:.0f} us of work on one thread", 1.1, values)


def interior_split(facts: CppRegionFacts) -> Found | None:
    """Guards only at the border."""
    if not has_bounds(facts.choices.region):
        return None
    n = points(facts.choices.region, facts.choices.region.stages[0])
    return Found(f"guarded loads at {n} points", 1.03, (not facts.choices.interior_split,))


def vector_axis(facts: CppRegionFacts) -> Found | None:
    """Another axis for the lanes, where accesses along it are nearly as contiguous."""
    region = facts.choices.region
    if any(g.scans for g in facts.dag.groups):
        return None
    names = [a.name for a in (*region.kept[-1:], *region.inner[-1:]) if a.size >= 8]
    current = facts.choices.lane_axis
    now = lane_quality(region, current) if current is not None else 0.0
    values: tuple[ParamValue, ...] = tuple(
        n for n in names if n != current and lane_quality(region, n) > max(0.5 * now, 0.0)
    )
    if not values:
        return None
    is_better = any(lane_quality(region, str(n)) > now for n in values)
    gain = 2.0 if now <= 0 else 1.2 if is_better else 1.0
    return Found(f"lanes run along {current}", gain, values)
