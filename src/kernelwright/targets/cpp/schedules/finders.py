"""Where another value of a schedule field is worth a move of its own, and what it may gain there.

Which values there are, and which are refused, ``dimensions.py`` says.
"""

from collections.abc import Callable

from kernelwright.core.plan import ParamValue
from kernelwright.ir.dag import COST_CACHED
from kernelwright.ir.edits import Found
from kernelwright.ir.lanes import estimate_ns, has_bounds, points
from kernelwright.ir.normalise import axis_sizes
from kernelwright.ir.patterns import find_moments, find_online
from kernelwright.targets.cpp.choices import SERIAL_BELOW_NS, cores_of
from kernelwright.targets.cpp.schedules.dimensions import DIMENSIONS
from kernelwright.targets.cpp.schedules.region_facts import CppRegionFacts
from kernelwright.targets.cpp.strided_loads import lane_quality

SHORT_ROW_BYTES, SHORT_SCAN_BYTES = 256, 2048
"""Rows up to this size may be worth taking side by side: of a reduction, of a scan."""


def _others(facts: CppRegionFacts, field: str, current: ParamValue | None) -> tuple[ParamValue, ...]:
    return DIMENSIONS[field].others(facts, current)


def vector_width(facts: CppRegionFacts) -> Found | None:
    """Half as wide: full width has won wherever it was measured, but the clock may drop with it."""
    current = facts.schedule.vector_bytes or 64
    cost = max((facts.dag.cost(a.node) for g in facts.dag.groups for a in g.actions), default=0)
    if cost < COST_CACHED:
        return None
    return Found(
        f"{cost} instructions a point in {current}-byte vectors", 1.0, _others(facts, "vector_bytes", current)
    )


def unroll(facts: CppRegionFacts) -> Found | None:
    """More accumulators hide the latency of the additions of a row reduction."""
    if not facts.has_reduction or facts.choices.is_column or facts.choices.lane_axis is None:
        return None
    size = axis_sizes(facts.choices.region)[facts.choices.lane_axis]
    current = max(1, facts.choices.lanes // 16)
    return Found(f"{current} vectors in flight over a row of {size}", 1.0, _others(facts, "unroll", current))


def tile(facts: CppRegionFacts) -> Found | None:
    """Column form: a wider tile reads longer runs of memory, a narrower one stays in registers."""
    if not facts.choices.is_column or facts.n_passes == 0:
        return None
    size = axis_sizes(facts.choices.region)[facts.choices.lane_axis or ""]
    current = facts.choices.lanes
    values = _others(facts, "tile", current)
    why = f"{current} of {size} columns together, {facts.slice_bytes} bytes a block"
    return Found(why, 1.1 if facts.n_passes > 1 and facts.slice_bytes > facts.l2_bytes else 1.02, values)


def chunk(facts: CppRegionFacts) -> Found | None:
    """Longer float32 runs flush less often, shorter ones round less."""
    choices = facts.choices
    if not facts.sums or facts.values_per_lane <= 2 * choices.chunk:
        return None
    current = choices.chunk * (1 if choices.is_column else choices.lanes)
    why = f"partial sums of {current} values, {facts.values_per_lane} values a lane"
    return Found(why, 1.0, _others(facts, "chunk", current))


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
    why = DIMENSIONS["cache_rows"].matters(facts)
    if why is None:
        return None
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
    values = _others(facts, "rows_together", current)
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
    kept, cores = facts.kept_points, cores_of(facts.machine)
    others = tuple(v for v in _others(facts, "parallel", facts.choices.parallel) if v != "none")
    if not others or kept >= 16 * cores:
        return None
    return Found(f"{kept} kept points for {cores} threads", 1.02, others)


def threads(facts: CppRegionFacts) -> Found | None:
    """Fewer threads where waking them costs as much as they save."""
    estimate = estimate_ns(facts.choices.region)
    available = cores_of(facts.machine)
    if facts.choices.parallel == "none" or estimate > 8 * SERIAL_BELOW_NS or available < 2:
        return None
    values = _others(facts, "threads", facts.schedule.threads)
    return Found(f"about {estimate / 1000:.0f} us of work on one thread", 1.1, values)


def interior_split(facts: CppRegionFacts) -> Found | None:
    """Guards only at the border."""
    if not has_bounds(facts.choices.region):
        return None
    n = points(facts.choices.region, facts.choices.region.stages[0])
    return Found(f"guarded loads at {n} points", 1.03, (not facts.choices.interior_split,))


def separable(facts: CppRegionFacts) -> Found | None:
    """Fewer combinations a point, and contiguous reads of what was strided."""
    why = DIMENSIONS["separable"].matters(facts)
    return None if why is None else Found(why, 1.0, (not facts.choices.separable,))


def jam(facts: CppRegionFacts) -> Found | None:
    """Accumulators are read and written once for several points of the inner loop."""
    why = DIMENSIONS["jam"].matters(facts)
    if why is None:
        return None
    return Found(why, 1.1 if facts.choices.jam == 1 else 1.0, _others(facts, "jam", facts.choices.jam))


def prefetch(facts: CppRegionFacts) -> Found | None:
    """Rows are asked for so long before they are read."""
    why = DIMENSIONS["prefetch"].matters(facts)
    values = _others(facts, "prefetch", facts.choices.prefetch)
    return None if why is None else Found(f"{why}, asked for {facts.choices.prefetch} ahead", 1.0, values)


def grain(facts: CppRegionFacts) -> Found | None:
    """Threads take work when they are free: for blocks of unequal cost, or cores of unequal speed."""
    why = DIMENSIONS["grain"].matters(facts)
    if why is None or estimate_ns(facts.choices.region) < 8 * SERIAL_BELOW_NS:
        return None
    return Found(why, 1.0, _others(facts, "grain", facts.choices.grain))


def exp_degree(facts: CppRegionFacts) -> Found | None:
    """One multiplication and addition less in every exponential, where they are what takes the time."""
    why = DIMENSIONS["exp_degree"].matters(facts)
    if why is None or facts.cost < COST_CACHED:
        return None
    return Found(why, 1.02, _others(facts, "exp_degree", facts.choices.exp_degree))


def of_product(field: str) -> Callable[[CppRegionFacts], Found | None]:
    """Return the finder of a field of products: every value is worth a try."""

    def find(facts: CppRegionFacts) -> Found | None:
        why = DIMENSIONS[field].matters(facts)
        current = getattr(facts.schedule, field)
        return None if why is None else Found(why, 1.05, _others(facts, field, current))

    return find


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
