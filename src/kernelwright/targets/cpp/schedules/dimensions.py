"""The dimensions of C++ schedules: what each field may be, where it matters, and what it is refused for.

Search, skills and ``kernelwright space`` have their values from here. ``finders.py`` says which of them
are worth a try of their own.
"""

import math
from dataclasses import replace

from kernelwright.core.plan import ParamValue
from kernelwright.ir.edits import Dimension
from kernelwright.ir.lanes import LANES_PER_VECTOR, estimate_ns, has_bounds
from kernelwright.ir.normalise import axis_sizes, coefficient
from kernelwright.ir.patterns import find_moments, find_online
from kernelwright.ir.program import Region
from kernelwright.ir.separable import find_separable
from kernelwright.targets.cpp.choices import SCRATCH_BYTES, cores_of
from kernelwright.targets.cpp.prefetch import reads_ahead
from kernelwright.targets.cpp.schedules.region_facts import CppRegionFacts
from kernelwright.targets.cpp.strided_loads import best_lane_axis, lane_quality
from kernelwright.targets.cpp.tiling import cache_blocks, may_dot, may_stay, register_tiles
from kernelwright.targets.cpp.winograd import may_transform

LONGEST_COLUMN_RUN = 1024
"""Additions into one float32 accumulator that the tolerance bears."""
EXPONENTIALS = frozenset(["exp", "sigmoid", "softplus", "tanh_softplus", "erf", "one_plus_erf"])
"""Operations that the printer makes of the exponential."""
EXP_ERROR = {6: 1, 5: 2, 4: 45}
"""Degree of the exponential's polynomial -> largest error in units of the last place."""
ALLOWED_UNITS = 16
"""Error of one operation that the strict tolerance bears."""
START_NS = 5_000.0
"""To wake the threads once; ours."""
WHOLE_VECTORS = 4
"""Vectors that an axis fills from which lanes along another one, at strided places, are not tried; ours."""
STRIDED = 0.25
"""Share of their quality (``lane_quality``) below which lanes along another axis count as strided; ours."""
BLOCKS_PER_CORE = 2
"""Blocks of work a core below which there is nothing to hand out."""


def _parallel(facts: CppRegionFacts) -> str | None:
    if not facts.choices.region.kept and facts.n_passes == 0:
        return None
    return f"{facts.kept_points} kept points, {facts.n_passes} passes over inner axes"


def _refuse_parallel(facts: CppRegionFacts, value: ParamValue) -> str | None:
    if value == "inner" and facts.n_passes == 0:
        return "there is no inner axis to share"
    if value == "inner" and facts.has_scan:
        return "each value of a scan waits for the one before"
    if value == "inner" and facts.choices.parallel != "inner" and _starts_too_often(facts):
        return f"threads would be woken for each of {facts.kept_points} points, longer than the work takes"
    return "there is one kept point" if value == "kept" and facts.kept_points == 1 else None


def _starts_too_often(facts: CppRegionFacts) -> bool:
    return facts.kept_points * facts.n_passes * START_NS > estimate_ns(facts.choices.region)


def _vector_axis(facts: CppRegionFacts) -> str | None:
    if facts.has_scan or facts.schedule_rows > 1 or facts.choices.lane_axis is None:
        return None
    return f"lanes run along {facts.choices.lane_axis}"


def _axes(facts: CppRegionFacts) -> tuple[ParamValue, ...]:
    return tuple(axis.name for axis in (*facts.choices.region.kept, *facts.choices.region.inner))


def _refuse_axis(facts: CppRegionFacts, value: ParamValue) -> str | None:
    region, name = facts.choices.region, str(value)
    size = axis_sizes(region)[name]
    if size < LANES_PER_VECTOR // 2:
        return f"its {size} points fill no vector"
    if name not in {axis.name for axis in (*region.kept[-1:], *region.inner[-1:])}:
        return "neighbouring lanes would lie in different lines of memory"
    if facts.choices.lane_axis != name and _is_strided(facts, name):
        return f"most accesses along it are strided, and {facts.choices.lane_axis} fills whole vectors"
    if any(axis.name == name for axis in region.inner) and any(
        group.axes and name not in group.axes for group in facts.dag.groups
    ):
        return "not every pass runs over it"
    return None


def _is_strided(facts: CppRegionFacts, name: str) -> bool:
    """Tell whether lanes along an axis jump through memory where those of now do not, over enough points.

    Values that are the same for all lanes make up for some jumps, not for most: compilers then write out
    each lane.
    """
    region, now = facts.choices.region, facts.choices.lane_axis
    if now is None or facts.lane_size < WHOLE_VECTORS * LANES_PER_VECTOR:
        return False
    return _is_far_below(region, name, now)


def _is_far_below(region: Region, name: str, other: str) -> bool:
    quality = lane_quality(region, other)
    return quality > 0 and lane_quality(region, name) < STRIDED * quality


def _rows(facts: CppRegionFacts) -> str | None:
    region = facts.choices.region
    if not region.kept or facts.n_passes == 0 or (facts.choices.is_column and facts.schedule_rows == 1):
        return None
    return f"rows of {facts.slice_bytes // 4} values, {region.kept[-1].size} of them side by side at most"


def _refuse_rows(facts: CppRegionFacts, value: ParamValue) -> str | None:
    size = facts.choices.region.kept[-1].size
    return f"there are {size} rows" if int(value) > size else None


def _tile(facts: CppRegionFacts) -> str | None:
    if not facts.choices.is_column or facts.choices.separable or facts.schedule_rows > 1:
        return None
    if facts.lane_size < LANES_PER_VECTOR:
        return None
    return f"{facts.choices.lanes} of {facts.lane_size} columns together, {facts.slice_bytes} bytes a block"


def _refuse_tile(facts: CppRegionFacts, value: ParamValue) -> str | None:
    return f"there are {facts.lane_size} columns" if int(value) > facts.lane_size else None


def _unroll(facts: CppRegionFacts) -> str | None:
    if not facts.has_reduction or facts.choices.is_column or facts.choices.lane_axis is None:
        return None
    vectors = max(1, facts.choices.lanes // LANES_PER_VECTOR)
    return f"{vectors} vectors in flight over a row of {facts.lane_size}"


def _refuse_unroll(facts: CppRegionFacts, value: ParamValue) -> str | None:
    too_long = int(value) * LANES_PER_VECTOR > facts.lane_size
    return f"a row has {facts.lane_size} values" if too_long else None


def _chunk(facts: CppRegionFacts) -> str | None:
    if not facts.sums or facts.values_per_lane <= 2 * facts.choices.chunk:
        return None
    return f"{facts.values_per_lane} values a lane, flushed every {facts.choices.chunk}"


def _refuse_chunk(facts: CppRegionFacts, value: ParamValue) -> str | None:
    per_lane = int(value) if facts.choices.is_column else int(value) // facts.choices.lanes
    if per_lane > LONGEST_COLUMN_RUN:
        return f"{per_lane} additions into one float32 accumulator round too much"
    return f"less than 4 additions a lane of {facts.choices.lanes}" if per_lane < 4 else None


def _vector_bytes(facts: CppRegionFacts) -> str | None:
    if facts.choices.lane_axis is None:
        return None
    return f"{facts.cost} instructions a point in {facts.schedule.vector_bytes or 64}-byte vectors"


def _refuse_width(facts: CppRegionFacts, value: ParamValue) -> str | None:
    widest = facts.machine.vector_bytes
    return f"the machine's vectors have {widest} bytes" if widest and int(value) > widest else None


def _is_row_form(facts: CppRegionFacts) -> bool:
    return not facts.choices.is_column and facts.choices.parallel != "inner"


def _moments(facts: CppRegionFacts) -> str | None:
    if not _is_row_form(facts) or find_moments(facts.dag) is None:
        return None
    return f"mean and variance over slices of {facts.slice_bytes / 1e6:.2f} MB in {facts.n_passes} passes"


def _online(facts: CppRegionFacts) -> str | None:
    if not _is_row_form(facts) or find_online(facts.dag) is None:
        return None
    return f"maximum, then exponentials, over rows of {facts.slice_bytes / 1e6:.2f} MB"


def _cache_rows(facts: CppRegionFacts) -> str | None:
    if not facts.shared or facts.slice_bytes > SCRATCH_BYTES or facts.choices.parallel == "inner":
        return None
    cost = facts.dag.cost(facts.shared[-1])
    return f"{cost} instructions a point are needed by two passes over {facts.slice_bytes} bytes"


def _stream(facts: CppRegionFacts) -> str | None:
    lane = facts.choices.lane_axis or ""
    stores = [a.store for g in facts.dag.groups for a in g.stores if a.stage.dtype == "float32"]
    if not any(store is not None and coefficient(store.index, lane) == 1 for store in stores):
        return None
    return f"writes {sum(facts.n_bytes(b) for b in facts.written) / 1e6:.3g} MB"


def _refuse_stream(facts: CppRegionFacts, value: ParamValue) -> str | None:
    read = {node.name for node in facts.dag.nodes if node.kind == "load"}
    return "it writes over what it reads" if value and any(b.name in read for b in facts.written) else None


def _threads(facts: CppRegionFacts) -> str | None:
    if facts.choices.parallel == "none" or cores_of(facts.machine) < 2:
        return None
    return f"{cores_of(facts.machine)} cores"


def _refuse_threads(facts: CppRegionFacts, value: ParamValue) -> str | None:
    cores = cores_of(facts.machine)
    return f"the machine has {cores} cores, and 0 stands for all" if int(value) >= cores else None


def _interior(facts: CppRegionFacts) -> str | None:
    choices = facts.choices
    if not choices.is_column or choices.parallel == "inner" or not has_bounds(choices.region):
        return None
    return f"guarded loads, {facts.kept_points} kept points"


def _separable(facts: CppRegionFacts) -> str | None:
    region = facts.choices.region
    steps = find_separable(region, facts.choices.lane_axis)
    if steps is None or facts.choices.parallel == "inner":
        return None
    points = math.prod(axis_sizes(region)[axis] for axis in region.stages[0].axes)
    return f"windows of {points} points, in rows of {steps.position.size} positions"


def _jam(facts: CppRegionFacts) -> str | None:
    groups = [g for g in facts.dag.groups if g.axes and g.reduces and not g.scans]
    if not facts.choices.is_column or not groups or facts.choices.separable:
        return None
    return f"{facts.choices.jam} points of the inner loop a pass over {facts.choices.lanes} lanes"


def _refuse_jam(facts: CppRegionFacts, value: ParamValue) -> str | None:
    region, lanes = facts.choices.region, facts.choices.lane_axis
    sizes = axis_sizes(region)
    longest = max(sizes[g.axes[-1]] for g in facts.dag.groups if g.axes)
    if int(value) > longest:
        return f"the inner loop has {longest} points"
    best = best_lane_axis(region)
    if int(value) > 1 and lanes and best and _is_far_below(region, lanes, best):
        return f"lanes along {lanes} jump through memory; compilers may work on such loads for minutes"
    return None


def _prefetch(facts: CppRegionFacts) -> str | None:
    if not reads_ahead(facts.choices, facts.dag) and facts.choices.prefetch:
        return None
    return f"rows of {facts.slice_bytes} bytes in {facts.n_passes} passes"


def _grain(facts: CppRegionFacts) -> str | None:
    if facts.choices.parallel != "kept" or facts.blocks < BLOCKS_PER_CORE * cores_of(facts.machine):
        return None
    return f"{facts.blocks} blocks of work for {cores_of(facts.machine)} cores"


def _refuse_grain(facts: CppRegionFacts, value: ParamValue) -> str | None:
    too_few = int(value) * cores_of(facts.machine) > facts.blocks
    return f"{facts.blocks} blocks are no {value} for each core" if too_few else None


def _exp_degree(facts: CppRegionFacts) -> str | None:
    used = sorted({n.name for n in facts.dag.nodes if n.kind == "op" and n.name in EXPONENTIALS})
    return f"{', '.join(used)}: {facts.cost} instructions a point" if used else None


def _refuse_degree(facts: CppRegionFacts, value: ParamValue) -> str | None:
    units = EXP_ERROR[int(value)]
    if units <= ALLOWED_UNITS:
        return None
    return f"off by {units} units in the last place, of {ALLOWED_UNITS} allowed"


def _products(facts: CppRegionFacts) -> str | None:
    if facts.product is None or facts.choices.window is not None:
        return _windows(facts)
    outer, m, n, k = facts.product.sizes
    batches = f"{outer} times " if outer > 1 else ""
    return f"{batches}{m} x {n} sums of {k} products"


def _windows(facts: CppRegionFacts) -> str | None:
    form = facts.window
    if form is None:
        return None
    sums = f"{form.images * form.n_filters} times {form.rows.size} x {form.columns.size} sums"
    return f"{sums} over windows of {form.planes} x {form.rows.n_taps} x {form.columns.n_taps}"


def _refuse_product(facts: CppRegionFacts, value: ParamValue) -> str | None:
    if value == "loops":
        return None
    if value == "window":
        return None if facts.window is not None else "no window slides along the rows of an image in cache"
    if value == "winograd":
        can = facts.window is not None and may_transform(facts.window)
        return None if can else "windows are no 3 x 3 that lie side by side"
    if facts.product is None:
        return "each result has a filter of its own: there is no matrix"
    if value == "tile" or may_dot(facts.product):
        return None
    return "the operands do not both lie along the products that are added"


def _tiled(facts: CppRegionFacts) -> str | None:
    tiling = facts.choices.in_tiles
    if tiling is None:
        return None
    what = _products(facts) or _scores(facts) or _steps(facts)
    return f"{what}, {tiling.rows} x {tiling.columns} of them in registers"


def _scores(facts: CppRegionFacts) -> str | None:
    if facts.choices.attention is None:
        return None
    outer, rows, keys, depth = facts.choices.attention.form.sizes
    return f"{outer} times {rows} x {keys} scores of {depth} products"


def _steps(facts: CppRegionFacts) -> str | None:
    if facts.choices.recurrence is None:
        return None
    steps, rows, units, _ = facts.choices.recurrence.form.sizes
    return f"{steps} steps of {rows} x {units} results"


def _register_tiles(facts: CppRegionFacts) -> tuple[ParamValue, ...]:
    own = facts.choices.attention or facts.choices.recurrence or facts.choices.window
    if own is not None:
        return own.tiles()
    tiling = facts.choices.tiling
    return () if tiling is None else register_tiles(tiling)


def _cache_blocks(facts: CppRegionFacts) -> tuple[ParamValue, ...]:
    own = facts.choices.attention or facts.choices.recurrence or facts.choices.window
    if own is not None:
        return own.cache_blocks()
    tiling = facts.choices.tiling
    return () if tiling is None else cache_blocks(tiling)


def _packing(facts: CppRegionFacts) -> str | None:
    tiling = facts.choices.tiling
    return None if tiling is None or tiling.is_dot else _tiled(facts)


def _refuse_packing(facts: CppRegionFacts, value: ParamValue) -> str | None:
    form = facts.product
    if form is None or value == "both":
        return None
    alone = [("rows", form.left, value != "left"), ("columns", form.right, value != "right")]
    wrong = [name for name, operand, stays in alone if stays and not may_stay(form, operand)]
    return f"the operand of the {wrong[0]} is computed or lies the other way" if wrong else None


OF_EVERY_FORM = frozenset({"vector_bytes", "threads", "grain", "exp_degree"})
"""Fields of loops that products in tiles have as well."""
OF_RECURRENCES = OF_EVERY_FORM - {"grain"}
"""The same of recurrent layers: a thread keeps its units from step to step."""
OF_WINDOWS = frozenset({"stream"})
"""Fields of loops that windows in tiles have besides."""


def is_carried_out_with(facts: CppRegionFacts, field: str) -> bool:
    """Tell whether a field of loops decides anything in the form in which a region is carried out."""
    if facts.choices.recurrence is not None:
        return field in OF_RECURRENCES
    if facts.choices.in_tiles is None or field in OF_EVERY_FORM:
        return True
    return facts.choices.window is not None and field in OF_WINDOWS


def _of_loops(name: str, dimension: Dimension[CppRegionFacts]) -> Dimension[CppRegionFacts]:
    """Return a dimension that does not matter where a region is carried out without it."""
    matters = dimension.matters
    return replace(
        dimension, matters=lambda facts: matters(facts) if is_carried_out_with(facts, name) else None
    )


_FORMS = ("tile", "winograd", "window", "dot", "loops")
_PRODUCTS: dict[str, Dimension[CppRegionFacts]] = {
    "product": Dimension("products", _FORMS, _products, _refuse_product),
    "register_tile": Dimension("products", (), _tiled, own=_register_tiles),
    "cache_block": Dimension("products", (), _tiled, own=_cache_blocks),
    "packing": Dimension("products", ("both", "right", "left", "none"), _packing, _refuse_packing),
}
_LOOPS: dict[str, Dimension[CppRegionFacts]] = {
    "vector_axis": Dimension("loops", (), _vector_axis, _refuse_axis, own=_axes),
    "rows_together": Dimension("loops", (1, 16, 8, 4), _rows, _refuse_rows, open=1),
    "parallel": Dimension("threads", ("kept", "inner", "none"), _parallel, _refuse_parallel),
    "tile": Dimension("loops", (256, 512, 128, 1024, 64, 32), _tile, _refuse_tile),
    "jam": Dimension("loops", (1, 2, 4, 8), _jam, _refuse_jam, open=1),
    "separable": Dimension("loops", (True, False), _separable),
    "interior_split": Dimension("loops", (True, False), _interior),
    "unroll": Dimension("vectors", (4, 8, 2, 1), _unroll, _refuse_unroll),
    "vector_bytes": Dimension("vectors", (64, 32, 16), _vector_bytes, _refuse_width),
    "chunk": Dimension("vectors", (4096, 16384, 1024, 256, 64, 16), _chunk, _refuse_chunk),
    "moments": Dimension("passes", ("two_pass", "one_pass"), _moments),
    "online": Dimension("passes", (False, True), _online),
    "cache_rows": Dimension("passes", (True, False), _cache_rows),
    "stream": Dimension("memory", (False, True), _stream, _refuse_stream),
    "prefetch": Dimension("memory", (1, 0, 2, 4), _prefetch),
    "threads": Dimension("threads", (0, 1, 2, 4, 8), _threads, _refuse_threads, open=0),
    "grain": Dimension("threads", (0, 1, 4, 16), _grain, _refuse_grain, open=0),
    "exp_degree": Dimension("approximations", (6, 5, 4), _exp_degree, _refuse_degree, open=6),
}
DIMENSIONS = _PRODUCTS | {name: _of_loops(name, dimension) for name, dimension in _LOOPS.items()}
"""Field -> what it may be. Fields that decide on loops come first: others depend on them."""
