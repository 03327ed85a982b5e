"""From a schedule, with its open fields decided by the rules below, to the numbers that are printed."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from kernelwright.core.machine import Machine
from kernelwright.ir.by_loops import by_region
from kernelwright.ir.dag import Dag
from kernelwright.ir.extents import Extent
from kernelwright.ir.lanes import LANES_PER_VECTOR, estimate_ns, points
from kernelwright.ir.normalise import axis_sizes, normalise
from kernelwright.ir.program import Region
from kernelwright.ir.separable import find_separable
from kernelwright.targets.cpp.attention import AttentionTiling, attention_tiling
from kernelwright.targets.cpp.recurrence import RecurrenceTiling, recurrence_tiling
from kernelwright.targets.cpp.schedule import CppSchedule, schedule_of
from kernelwright.targets.cpp.strided_loads import LEAST_LANES, TransposedLoad, best_lane_axis, strided_loads
from kernelwright.targets.cpp.tiling import Tiling, is_shared, tiling_of
from kernelwright.targets.cpp.windows import WindowTiling, window_tiling
from kernelwright.targets.cpp.winograd import WinogradTiling, winograd_tiling

SERIAL_BELOW_NS = 30_000.0
"""Estimated single-thread time under which waking sleeping threads costs more than it saves."""
ASSUMED_CORES = 8
"""Cores of a machine of which the number is not known."""
ASSUMED_LAST_CACHE_BYTES = 32 << 20
"""Last-level cache of a machine of which it is not known."""
SCRATCH_BYTES = 192 << 10
"""Stack scratch per thread that still lies in a private level 2 cache."""
TRANSPOSED_LANES = (256, 128, 64, 32)
"""Points of a block in which loads are transposed: the first that fits."""
PARTS = 16
"""Pieces of an inner range that threads share; fixed, so that sums do not depend on the thread count."""


@dataclass(frozen=True)
class Choices:
    """Everything the printer needs to know of how."""

    region: Region
    """The normalised region."""
    lane_axis: str | None
    is_column: bool
    """The lane axis is kept: each lane has its own results."""
    lanes: int
    """Points per block of the lane axis."""
    chunk: int
    """Additions per lane in float32 before the partial sum goes to float64."""
    simdlen: int | None
    parallel: Literal["kept", "inner", "none"]
    threads: int | None
    stream: bool
    cache_rows: bool
    online: bool
    one_pass: bool
    interior_split: bool
    separable: bool = False
    jam: int = 1
    prefetch: int = 1
    grain: int = 0
    exp_degree: int = 6
    transposed: tuple[TransposedLoad, ...] = ()
    """Loads that are brought into scratch, lanes side by side."""
    attention: AttentionTiling | None = None
    """Of attention; the same then matter as of a product."""
    recurrence: RecurrenceTiling | None = None
    """Of a recurrent layer; the same then matter as of a product."""
    tiling: Tiling | None = None
    """Of a product that is carried out in tiles; of the fields above only ``threads``, ``grain`` and
    ``exp_degree`` then matter."""
    window: WindowTiling | WinogradTiling | None = None
    """Of sums over windows, in tiles of their own; the same then matter as of a product."""

    @property
    def in_tiles(self) -> Tiling | AttentionTiling | RecurrenceTiling | WindowTiling | WinogradTiling | None:
        """How sums in registers are cut up; None where loops carry the region out."""
        return self.attention or self.recurrence or self.window or self.tiling


def cores_of(machine: Machine) -> int:
    """Return the cores that the rules reckon with."""
    return machine.cores or ASSUMED_CORES


def complete(region: Region, machine: Machine) -> CppSchedule:
    """Return the region's schedule with every open field decided; rules in the functions below."""
    choices = resolve(region, machine)
    given = schedule_of(region)
    product = {} if choices.in_tiles is None else choices.in_tiles.fields()
    loops = _loops_schedule(choices, given)
    return dataclasses.replace(loops, **product)  # type: ignore[arg-type]  # its own fields


def _loops_schedule(choices: Choices, given: CppSchedule) -> CppSchedule:
    return CppSchedule(
        parallel=choices.parallel,
        vector_axis=choices.lane_axis,
        tile=choices.lanes if choices.is_column else None,
        unroll=given.unroll or (None if choices.is_column else max(1, choices.lanes // LANES_PER_VECTOR)),
        chunk=choices.chunk * (1 if choices.is_column else choices.lanes),
        vector_bytes=given.vector_bytes or 64,
        moments="one_pass" if choices.one_pass else "two_pass",
        online=choices.online,
        cache_rows=choices.cache_rows,
        stream=choices.stream,
        rows_together=given.rows_together or 1,
        threads=choices.threads,
        interior_split=choices.interior_split,
        separable=choices.separable,
        jam=choices.jam,
        prefetch=choices.prefetch,
        grain=choices.grain,
        exp_degree=choices.exp_degree,
        product=given.product,
    )


@by_region
def resolve(region: Region, machine: Machine) -> Choices:
    """Decide everything for one region; a schedule from ``complete`` leaves the machine nothing to decide."""
    region = normalise(region)
    choices = _resolve_loops(region, machine)
    attention = attention_tiling(region, machine)
    if attention is not None:
        shared: Literal["kept", "none"] = "kept" if attention.is_shared else "none"
        return dataclasses.replace(choices, attention=attention, parallel=shared, stream=False)
    recurrence = recurrence_tiling(region, machine)
    if recurrence is not None:
        many: Literal["kept", "none"] = "kept" if recurrence.is_shared else "none"
        return dataclasses.replace(choices, recurrence=recurrence, parallel=many, stream=False)
    winograd = winograd_tiling(region, machine)
    window = winograd or window_tiling(region, machine)
    if window is not None:
        wide: Literal["kept", "none"] = "kept" if window.is_shared else "none"
        return dataclasses.replace(choices, window=window, parallel=wide)
    tiling = tiling_of(region, machine)
    if tiling is None:
        return choices
    parallel: Literal["kept", "none"] = "kept" if is_shared(tiling.form) else "none"
    return dataclasses.replace(choices, tiling=tiling, parallel=parallel, stream=False)


def _resolve_loops(region: Region, machine: Machine) -> Choices:
    schedule = schedule_of(region)
    sizes = axis_sizes(region)
    lane_axis = schedule.vector_axis if schedule.vector_axis in sizes else best_lane_axis(region)
    if (schedule.rows_together or 1) > 1 and region.kept:
        lane_axis = region.kept[-1].name
    is_column = any(axis.name == lane_axis for axis in region.kept)
    dag = Dag(region)
    groups = dag.groups
    strided = strided_loads(region, lane_axis or "") if is_column else ()
    lanes = _lanes(region, dag, lane_axis, is_column, strided)
    parallel = schedule.parallel or _parallel(region, lane_axis, is_column, lanes, machine)
    if is_column and parallel == "kept" and schedule.tile is None and (schedule.rows_together or 1) == 1:
        lanes = _share_tiles(region, lane_axis or "", lanes, machine)
    return (
        Choices(
            region=region,
            lane_axis=lane_axis,
            is_column=is_column,
            lanes=lanes,
            chunk=_chunk(schedule.chunk, lanes, is_column),
            simdlen=None if schedule.vector_bytes in (None, 64) else (schedule.vector_bytes or 64) // 4,
            parallel=parallel,
            threads=schedule.threads,
            stream=_stream(region, machine) if schedule.stream is None else schedule.stream,
            cache_rows=(parallel != "inner") if schedule.cache_rows is None else schedule.cache_rows,
            online=bool(schedule.online),
            one_pass=schedule.moments == "one_pass",
            interior_split=(
                _many_rows(region, lane_axis, machine)
                if schedule.interior_split is None
                else schedule.interior_split
            ),
            separable=schedule.separable is not False and _is_separable(region, lane_axis, parallel),
            jam=schedule.jam or 1,
            prefetch=1 if schedule.prefetch is None else schedule.prefetch,
            grain=schedule.grain or 0,
            exp_degree=schedule.exp_degree or 6,
            transposed=strided
            if lanes >= LEAST_LANES and parallel != "inner" and _fits(strided, lanes)
            else (),
        )
        if groups
        else _nothing(region)
    )


def _chunk(chunk: int | None, lanes: int, is_column: bool) -> int:
    """Additions per lane; 64 by default: shorter runs than torch's own cascade ends up with."""
    if chunk is None:
        return 64
    return max(4, chunk if is_column else chunk // lanes)


def _is_separable(region: Region, lane_axis: str | None, parallel: str) -> bool:
    return parallel != "inner" and find_separable(region, lane_axis) is not None


def _many_rows(region: Region, lane_axis: str | None, machine: Machine) -> bool:
    """Tell whether borders may be told apart: blocks along the lanes are then not shared among threads."""
    return _outer_count(region, lane_axis) >= 4 * cores_of(machine)


def _nothing(region: Region) -> Choices:
    return Choices(region, None, False, 1, 64, None, "none", None, False, False, False, False, False)


def _fits(strided: Sequence[TransposedLoad], lanes: int) -> bool:
    """Tell whether what is transposed fits into scratch."""
    return 4 * lanes * sum(load.count for load in strided) <= SCRATCH_BYTES


def _lanes(
    region: Region, dag: Dag, lane_axis: str | None, is_column: bool, strided: Sequence[TransposedLoad]
) -> int:
    if lane_axis is None:
        return 1
    size = axis_sizes(region)[lane_axis]
    schedule = schedule_of(region)
    if is_column and (schedule.rows_together or 1) > 1:
        return min(schedule.rows_together or 1, int(size))
    if is_column:
        has_loops = any(group.axes for group in dag.groups)
        usual = next((n for n in TRANSPOSED_LANES if _fits(strided, n)), 256) if strided else 1024
        tile = schedule.tile or (min(usual, 256) if has_loops else usual)
        return tile if isinstance(size, Extent) else min(tile, size)
    cost = max((dag.cost(a.node) for g in dag.groups for a in g.actions), default=0)
    unroll = schedule.unroll or (4 if cost < 12 else 2)
    return min(unroll * LANES_PER_VECTOR, int(size))


def _outer_count(region: Region, lane_axis: str | None) -> int:
    return math.prod(a.size for a in region.kept if a.name != lane_axis)


def _share_tiles(region: Region, lane_axis: str, lanes: int, machine: Machine) -> int:
    """Smaller tiles where there are too few for the threads, in whole vectors."""
    size = axis_sizes(region)[lane_axis]
    outer = _outer_count(region, lane_axis)
    wanted = 4 * cores_of(machine)
    if outer * math.ceil(size / lanes) >= wanted or outer >= wanted:
        return lanes
    share = math.ceil(size * outer / wanted / LANES_PER_VECTOR) * LANES_PER_VECTOR
    return min(int(size), max(LANES_PER_VECTOR, int(share)))


def _parallel(
    region: Region, lane_axis: str | None, is_column: bool, lanes: int, machine: Machine
) -> Literal["kept", "inner", "none"]:
    if estimate_ns(region) < SERIAL_BELOW_NS:
        return "none"
    units = _outer_count(region, lane_axis if is_column else None)
    if is_column:
        units *= math.ceil(axis_sizes(region)[lane_axis or ""] / min(lanes, 64))
    threads = cores_of(machine)
    has_scan = any(stage.kind == "scan" for stage in region.stages)
    if units >= 4 * threads or (units >= threads and units % threads == 0) or has_scan:
        return "kept" if units > 1 else "none"
    has_inner = any(stage.axes for stage in region.stages)
    return "inner" if has_inner else "kept"


def _stream(region: Region, machine: Machine) -> bool:
    """Tell whether non-temporal stores pay: no cache keeps an output so large for its next reader."""
    last = machine.cache(3)
    kept = math.prod(a.size for a in region.kept)
    written = 0
    for stage in region.stages:
        n = kept if stage.kind == "reduce" else points(region, stage)
        written += 4 * n * len(stage.stores)
    return written >= (ASSUMED_LAST_CACHE_BYTES if last is None else last.instance_bytes)
