"""How a region becomes a Triton kernel, as data; open fields are decided by the rules below."""

import dataclasses
import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

from kernelwright.ir.attention import AttentionForm, find_attention
from kernelwright.ir.dag import Dag
from kernelwright.ir.lanes import best_lane_axis
from kernelwright.ir.normalise import axis_sizes, normalise
from kernelwright.ir.program import Region, Schedule
from kernelwright.targets.triton.products import Dot, find_dot

Form: TypeAlias = Literal["flat", "row", "block", "dot", "attention"]
"""What one program holds at a time.

flat   a vector of kept points; inner points one after another (pointwise work, windows, column scans)
row    one kept point and a vector of its inner points (long rows)
block  a tile, kept points by inner points (short rows, columns)
dot    a tile of a matrix product or convolution, rows by columns, and what is done with it
attention   rows of one head; their keys a block at a time (online softmax)
"""
Precision: TypeAlias = Literal["ieee", "tf32", "tf32x3"]
"""How float32 inputs of a matrix product are rounded; anything but ieee must be allowed by the task."""

LEAST_TILE = 16
"""``tl.dot`` takes no dimension below this."""
WINDOW_POINTS = 64
"""Inner ranges up to this size are gone through point by point where the kept axis is contiguous."""
TILE_VALUES = 8192
"""Values of a tile that stay in registers over several passes: 32 a thread with 8 warps."""
ROW_VALUES = 16384
"""Longest row that one program keeps in registers."""
STEP_VALUES = 4096
"""Values per step where a row is longer than that."""
FLAT_VALUES = 1024
"""Points of a pointwise program: 8 a thread with 4 warps, two 16-byte accesses of float32."""
GROUP_ROWS = 8
"""Blocks of rows of a product that are worked on together: the columns that they share stay in the cache."""
VALUES_PER_WARP = 512
"""A warp for so many values of a tile, 16 a thread."""


@dataclass(frozen=True)
class TritonSchedule(Schedule):
    """A schedule for the Triton printer.

    ``None`` means that the rules of this module decide. No field changes what is computed; sums are
    added in an order that depends on the block sizes alone, so every run gives the same bits.
    """

    form: Form | None = None
    block_kept: int | None = None
    """Kept points per program; a power of two. Form ``row`` has always one."""
    block_inner: int | None = None
    """Inner points per step; a power of two. At least the whole range: the row stays in registers.

    Form ``attention``: keys per step.
    """
    block_columns: int | None = None
    """Form ``dot``: columns of a tile, whose rows are ``block_kept``; powers of two from 16 on."""
    group_rows: int | None = None
    """Form ``dot``: so many blocks of rows are worked on together, before the next block of columns."""
    precision: Precision | None = None
    """Forms ``dot`` and ``attention``."""
    num_warps: int | None = None
    num_stages: int | None = None
    """Steps of a loop whose loads are in flight together."""
    programs: int | None = None
    """So many programs go through all blocks in turn; None or 0: one program a block."""
    stream: int | None = None
    """Form ``dot``: so many programs share the steps of all tiles evenly (stream-K); a second kernel adds the
    parts of tiles that several worked on, in order. Goes before ``programs``. None or 0: a tile is one
    program's.
    """
    hints: bool | None = None
    """Cache hints: rows that are read again are kept, what is read for the last time goes first."""
    moments: Literal["two_pass", "one_pass"] | None = None
    """Mean and variance: subtract the mean in a second pass, or shifted sums in one."""
    online: bool | None = None
    """Softmax-like max and sum of exponentials in one pass with rescaling."""


@dataclass(frozen=True)
class Decided:
    """Everything that the printer needs to know of how."""

    region: Region
    """The normalised region."""
    form: Form
    block_kept: int
    block_inner: int
    block_columns: int
    group_rows: int
    precision: Precision
    dot: Dot | None
    """The matrix product of form ``dot``."""
    attention: AttentionForm | None
    """What form ``attention`` computes."""
    num_warps: int
    num_stages: int
    programs: int | None
    stream: int | None
    hints: bool
    online: bool
    one_pass: bool

    @property
    def kept_points(self) -> int:
        """Return the number of kept points."""
        return math.prod(axis.size for axis in self.region.kept)

    @property
    def blocks(self) -> int:
        """Return the number of blocks of kept points, or of tiles."""
        if self.attention is not None:
            batches, rows, _, _ = self.attention.sizes
            return batches * -(-rows // self.block_kept)
        if self.dot is None:
            return -(-self.kept_points // self.block_kept)
        down, across, batch = (self.size_of(a) for a in (self.dot.rows, self.dot.columns, self.dot.batch))
        return -(-down // self.block_kept) * -(-across // self.block_columns) * batch

    @property
    def steps(self) -> int:
        """Return the steps of the loop over a tile's inner points."""
        return -(-self.loop_points // self.block_inner)

    @property
    def is_tiled(self) -> bool:
        """True where products of matrices are added in tiles."""
        return self.dot is not None or self.attention is not None

    @property
    def loop_points(self) -> int:
        """Return the points that ``block_inner`` cuts up."""
        return self.attention.key.size if self.attention else inner_points(self.region)

    def size_of(self, axes: tuple[str, ...]) -> int:
        """Return the number of points of some axes."""
        sizes = axis_sizes(self.region)
        return math.prod(sizes[axis] for axis in axes)


def power_of_two(count: int) -> int:
    """Return the smallest power of two that is not below the count."""
    return 1 << max(count - 1, 0).bit_length()


def decide(region: Region) -> Decided:
    """Return the region normalised and every choice made."""
    schedule = region.schedule
    given = schedule if isinstance(schedule, TritonSchedule) else TritonSchedule()
    region = normalise(region)
    inner = inner_points(region)
    attention = find_attention(region)
    if attention is not None:
        return _of_attention(region, attention, given)
    dot = find_dot(region) if given.form in (None, "dot") else None
    form = "dot" if dot is not None else _usable_form(region, given.form or _form(region, inner))
    kept = math.prod(axis.size for axis in region.kept)
    block_inner = given.block_inner or _block_inner(region, form, inner)
    block_inner = 1 if form == "flat" else min(block_inner, power_of_two(inner))
    block_kept = given.block_kept or _block_kept(region, form, block_inner)
    block_kept = 1 if form == "row" else min(block_kept, power_of_two(kept))
    if dot is not None:  # tl.dot takes no dimension below 16
        block_inner, block_kept = max(LEAST_TILE, block_inner), max(LEAST_TILE, block_kept)
    block_columns = max(LEAST_TILE, given.block_columns or 64)
    tile = block_kept * (block_columns if dot is not None else block_inner)
    is_looped = block_inner < inner and form != "flat"
    decided = Decided(
        region=region,
        form=form,
        block_kept=block_kept,
        block_inner=block_inner,
        block_columns=block_columns,
        group_rows=given.group_rows or GROUP_ROWS,
        precision=given.precision or "ieee",
        dot=dot,
        attention=None,
        num_warps=given.num_warps or _warps(form, tile),
        num_stages=given.num_stages or (1 if not is_looped else 3 if dot else 2),
        programs=given.programs or None,
        stream=None,
        hints=True if given.hints is None else given.hints,
        online=True if given.online is None else given.online,
        one_pass=given.moments == "one_pass",
    )
    stream = _stream(decided, given.stream or 0)
    return dataclasses.replace(decided, stream=stream, programs=None) if stream else decided


def _stream(decided: Decided, wanted: int) -> int | None:
    """Return how many programs share the steps of a product; None where a tile is one program's."""
    total = decided.blocks * decided.steps
    programs = min(wanted, total)
    largest = max(total * (programs + 1), 2 * programs * decided.block_kept * decided.block_columns)
    return programs if decided.dot is not None and programs > 1 and largest < 2**31 else None


def _of_attention(region: Region, attention: AttentionForm, given: TritonSchedule) -> Decided:
    """Return every choice for attention: rows and keys of a step make one tile of scores."""
    _, rows, keys, depth = attention.sizes
    widest = max(depth, attention.feature.size)
    block_kept = min(given.block_kept or (64 if widest <= 128 else 32), power_of_two(rows))
    block_inner = min(given.block_inner or 32, power_of_two(keys))
    block_kept, block_inner = max(LEAST_TILE, block_kept), max(LEAST_TILE, block_inner)
    values = block_kept * max(block_inner, power_of_two(widest))
    return Decided(
        region=region,
        form="attention",
        block_kept=block_kept,
        block_inner=block_inner,
        block_columns=LEAST_TILE,
        group_rows=GROUP_ROWS,
        precision=given.precision or "ieee",
        dot=None,
        attention=attention,
        num_warps=given.num_warps or (4 if values <= 2048 else 8),
        num_stages=given.num_stages or (2 if block_inner < keys else 1),
        programs=given.programs or None,
        stream=None,
        hints=True,
        online=True,
        one_pass=False,
    )


def complete(region: Region) -> TritonSchedule:
    """Return the region's schedule with every open field decided."""
    decided = decide(region)
    return TritonSchedule(
        form=decided.form,
        block_kept=decided.block_kept,
        block_inner=decided.block_inner,
        block_columns=decided.block_columns if decided.dot else None,
        group_rows=decided.group_rows if decided.dot else None,
        precision=decided.precision if decided.is_tiled else None,
        num_warps=decided.num_warps,
        num_stages=decided.num_stages,
        programs=decided.programs,
        stream=decided.stream,
        hints=decided.hints,
        online=decided.online,
        moments="one_pass" if decided.one_pass else "two_pass",
    )


def inner_points(region: Region) -> int:
    """Return the number of inner points of the largest stage."""
    sizes = axis_sizes(region)
    return max((math.prod(sizes[a] for a in stage.axes) for stage in region.stages), default=1)


def passes(region: Region) -> int:
    """Return how often the inner axes are gone over."""
    return sum(1 for group in Dag(region).groups if group.axes)


def _usable_form(region: Region, form: Form) -> Form:
    """Scans with further axes beside their own run point by point; so does what has no inner axes."""
    if form in ("dot", "attention"):
        form = _form(region, inner_points(region))
    has_more = any(s.kind == "scan" and s.axes != (s.scan_axis,) for s in region.stages)
    return "flat" if has_more or inner_points(region) == 1 else form


def _form(region: Region, inner: int) -> Form:
    lane = best_lane_axis(region)
    is_column = any(axis.name == lane for axis in region.kept)
    has_scan = any(stage.kind == "scan" for stage in region.stages)
    if is_column and (has_scan or (inner <= WINDOW_POINTS and passes(region) == 1)):
        return "flat"
    if is_column or (region.kept and inner <= 1024):
        return "block"
    return "row"


def _block_inner(region: Region, form: Form, inner: int) -> int:
    whole = power_of_two(inner)
    if form == "dot":
        return 32
    if form == "row":
        return whole if whole <= ROW_VALUES else STEP_VALUES
    if whole <= 512 or (whole <= 1024 and passes(region) > 1):
        return whole
    return 64


def _block_kept(region: Region, form: Form, block_inner: int) -> int:
    if form == "dot":
        return 64
    if form == "flat":
        loops = any(stage.axes for stage in region.stages)
        return FLAT_VALUES // 4 if loops else FLAT_VALUES
    lane = best_lane_axis(region)
    is_column = any(axis.name == lane for axis in region.kept)
    budget = TILE_VALUES if is_column else TILE_VALUES // 4
    return max(16 if is_column else 1, min(128 if is_column else 64, budget // block_inner))


def _warps(form: Form, values: int) -> int:
    if form == "dot":
        return 4 if values <= 8192 else 8
    if form == "flat":
        return max(1, min(8, values // 256))
    return max(1, min(8 if values <= TILE_VALUES else 16, power_of_two(values // VALUES_PER_WARP)))
