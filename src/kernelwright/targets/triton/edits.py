"""The Triton printer's schedule space: what may be tried where, and how it is set.

The gains are guesses that order the sites, as for the other printers; nothing here was measured.
"""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from kernelwright.core.errors import LoweringError
from kernelwright.core.machine import Accelerator
from kernelwright.core.plan import ParamValue
from kernelwright.ir.dag import Dag
from kernelwright.ir.edits import FieldEdit, Found, ScheduleEdit, ScheduleFields, Site
from kernelwright.ir.patterns import find_moments, find_online
from kernelwright.ir.program import Program, Region
from kernelwright.ir.regions import find_region
from kernelwright.targets.triton.matmul import FuseMatmul
from kernelwright.targets.triton.schedule import (
    LEAST_TILE,
    ROW_VALUES,
    Decided,
    TritonSchedule,
    complete,
    decide,
    inner_points,
    passes,
    power_of_two,
)
from kernelwright.targets.triton.split import FEW_PROGRAMS, can_split, parts_for, split
from kernelwright.targets.triton.vector import VectorWidth

SPLITS = (2, 4, 8, 16)
"""Parts that the sums of a product are cut into (split-K)."""
MAX_TILE = 32768
"""Largest tile worth trying: 64 values a thread with 16 warps."""
MAX_PRODUCT = 16384
"""Largest tile of a matrix product, rows by columns: 128 by 128 are 64 registers a thread with 8 warps."""
MAX_ROWS, MAX_STEP = 256, 128
"""Most rows of such a tile, and most products or keys of a step."""
PRECISIONS: dict[str, tuple[str, ...]] = {"cuda": ("ieee", "tf32", "tf32x3"), "hip": ("ieee",)}
"""Kind of device -> how Triton's back end can round inputs of products on every model that we know of.

Some of AMD's models take ``tf32`` (gfx942 does, gfx950 does not), none takes ``tf32x3``.
"""
UNKNOWN_UNITS = (256, 512, 1024)
"""Counts of persistent programs worth trying where the number of SMs or CUs is not known."""
PROGRAMS_PER_UNIT = (2, 4, 8)
"""The same where it is known."""
FULL_WAVES = 4
"""From so many tiles for each program on, the last wave is a small part of all."""


Finder = Callable[["TritonRegionFacts"], Found | None]


@dataclass(frozen=True)
class TritonRegionFacts:
    """A region and how it is carried out now, on which GPU."""

    region: Region
    how: Decided
    gpu: Accelerator


@dataclass
class SplitReduction:
    """Few long rows: each shared among many programs, their partial results combined in a second launch."""

    name: str = "triton-split"

    def sites(self, program: Program) -> tuple[Site, ...]:
        """Return the regions with fewer rows than a GPU has places for programs."""
        found = []
        for step in program.steps:
            if not isinstance(step, Region) or not can_split(step):
                continue
            decided, inner = decide(step), inner_points(step)
            if decided.blocks >= FEW_PROGRAMS or inner < 512:
                continue
            if decided.dot is not None:
                values = tuple(parts for parts in SPLITS if _splits_evenly(decided, parts))
            else:
                best = parts_for(step) or max(2, inner // 1024)
                values = tuple(dict.fromkeys(v for v in (best, best // 2, best * 2) if 2 <= v <= inner // 32))
            if not values:
                continue
            why = f"{decided.blocks} programs over rows of {inner} values"
            gain = min(8.0, FEW_PROGRAMS / decided.blocks)
            found.append(Site(step.name, why, gain, {"parts": values}))
        return tuple(sorted(found, key=lambda site: -site.gain))

    def apply(self, program: Program, region: str, params: Mapping[str, ParamValue]) -> Program:
        """Return the program with the region split; LoweringError for an unknown region or count."""
        parts = params.get("parts")
        if type(parts) is not int or not 2 <= parts <= 4096:
            raise LoweringError(f"{self.name}: parts cannot be {parts!r} in region {region}")
        decided = decide(find_region(program, region))
        if decided.dot is not None and not _splits_evenly(decided, parts):
            raise LoweringError(f"{self.name}: {parts} equal parts of the products in region {region}: none")
        program = split(program, find_region(program, region), parts)
        steps = tuple(
            dataclasses.replace(s, schedule=complete(s)) if isinstance(s, Region) else s
            for s in program.steps
        )
        return dataclasses.replace(program, steps=steps)


def _splits_evenly(decided: Decided, parts: int) -> bool:
    """Tell whether the longest axis of a product's sums has so many equal parts; only these stay products."""
    assert decided.dot is not None
    return max(decided.size_of((axis,)) for axis in decided.dot.inner) % parts == 0


_LIMITS = {
    "block_columns": 256,
    "group_rows": 64,
    "block_kept": 1 << 14,
    "block_inner": 1 << 15,
    "num_warps": 32,
}
_FLAGS = frozenset({"hints", "online"})
_CHOICES: dict[str, tuple[ParamValue, ...]] = {
    "form": ("flat", "row", "block", "dot"),
    "moments": ("one_pass", "two_pass"),
    "num_stages": (1, 2, 3, 4, 5),
}


class TritonFields(ScheduleFields[TritonRegionFacts]):
    """The fields of TritonSchedule on one GPU."""

    def __init__(self, gpu: Accelerator) -> None:
        self._gpu = gpu

    def facts(self, region: Region, program: Program) -> TritonRegionFacts:
        return TritonRegionFacts(region, decide(region), self._gpu)

    def given(self, region: Region) -> TritonSchedule:
        return region.schedule if isinstance(region.schedule, TritonSchedule) else complete(region)

    def complete(self, region: Region) -> TritonSchedule:
        return complete(region)

    def takes(self, region: Region, field: str, value: ParamValue) -> bool:
        choices = _CHOICES | {"precision": PRECISIONS[self._gpu.kind]}
        if field in choices:
            return value in choices[field] and type(value) is not bool
        if field in _FLAGS:
            return isinstance(value, bool)
        if field in _LIMITS:
            return type(value) is int and 1 <= value <= _LIMITS[field] and value == power_of_two(value)
        return type(value) is int and 0 <= value <= 1 << 16  # programs, stream; 0: one a block

    def check(self, edit: str, region: Region) -> None:
        """Refuse a tile of a product that compilers work on for minutes: each side is moved on its own."""
        how = decide(region)
        across = _across(how)
        if across is not None and how.block_kept * across > MAX_PRODUCT:
            tile = f"{how.block_kept} by {across}"
            raise LoweringError(
                f"{edit}: {tile} is no tile for region {region.name}: over {MAX_PRODUCT} values"
            )


def _across(how: Decided) -> int | None:
    """Return the columns of the largest tile of sums that a program holds; None where there is no product."""
    if how.attention is not None:
        return max(how.block_inner, power_of_two(how.attention.feature.size))
    return how.block_columns if how.dot is not None else None


def _powers(least: int, most: int, now: int) -> tuple[ParamValue, ...]:
    """Return the powers of two of a range but for the current one, the nearest first."""
    found = [1 << k for k in range(least.bit_length() - 1, most.bit_length()) if least <= 1 << k <= most]
    return tuple(sorted((v for v in found if v != now), key=lambda v: (max(v / now, now / v), -v)))


def _form(facts: TritonRegionFacts) -> Found | None:
    how = facts.how
    if inner_points(how.region) == 1 or how.is_tiled:
        return None
    others: tuple[ParamValue, ...] = tuple(f for f in ("row", "block", "flat") if f != how.form)
    return Found(f"{how.form} form over {inner_points(how.region)} inner points", 1.0, others)


def _block_kept(facts: TritonRegionFacts) -> Found | None:
    how = facts.how
    if how.form == "row":
        return None
    across = _across(how)
    if across is not None:
        rows = how.attention.row.size if how.attention else how.size_of(how.dot.rows if how.dot else ())
        most = min(max(LEAST_TILE, power_of_two(rows)), MAX_ROWS, MAX_PRODUCT // across)
        return Found(
            f"tiles of {how.block_kept} by {across}", 1.02, _powers(LEAST_TILE, most, how.block_kept)
        )
    around = (how.block_kept * 2, how.block_kept // 2, how.block_kept * 4)
    most = min(power_of_two(how.kept_points), MAX_TILE // how.block_inner)
    values: tuple[ParamValue, ...] = tuple(v for v in around if 1 <= v <= most and v != how.block_kept)
    return Found(f"{how.block_kept} of {how.kept_points} points a program", 1.02, values)


def _block_inner(facts: TritonRegionFacts) -> Found | None:
    how = facts.how
    inner = how.loop_points
    if how.form == "flat" or inner == 1:
        return None
    whole = power_of_two(inner)
    if how.is_tiled:
        most = min(max(LEAST_TILE, whole), MAX_STEP)
        if how.attention is not None:
            most = min(most, MAX_PRODUCT // how.block_kept)
        why = f"{how.block_inner} of {inner} {'keys' if how.attention else 'products'} at a time"
        return Found(why, 1.02, _powers(LEAST_TILE, most, how.block_inner))
    n_passes = passes(how.region)
    most = min(whole, MAX_TILE // how.block_kept)
    around = [how.block_inner * 2, how.block_inner // 2]
    if how.block_inner < whole <= ROW_VALUES * 2:
        around = [whole, *around]
    values: tuple[ParamValue, ...] = tuple(
        dict.fromkeys(v for v in around if 16 <= v <= most and v != how.block_inner)
    )
    is_looped = how.block_inner < inner
    gain = float(n_passes) if is_looped and whole in values and n_passes > 1 else 1.02
    return Found(f"{how.block_inner} of {inner} inner points at a time, {n_passes} passes", gain, values)


def _block_columns(facts: TritonRegionFacts) -> Found | None:
    how = facts.how
    if how.dot is None:
        return None
    most = min(max(LEAST_TILE, power_of_two(how.size_of(how.dot.columns))), MAX_PRODUCT // how.block_kept)
    values = _powers(LEAST_TILE, min(most, 256), how.block_columns)
    return Found(f"tiles of {how.block_kept} by {how.block_columns}", 1.1, values)


def _group_rows(facts: TritonRegionFacts) -> Found | None:
    how = facts.how
    if how.dot is None:
        return None
    down = -(-how.size_of(how.dot.rows) // how.block_kept)
    across = -(-how.size_of(how.dot.columns) // how.block_columns)
    if min(down, across) < 2:
        return None
    values: tuple[ParamValue, ...] = tuple(v for v in (8, 4, 16, 1) if v != how.group_rows)
    return Found(f"{down} by {across} tiles, {how.group_rows} rows of them together", 1.02, values)


def _precision(facts: TritonRegionFacts) -> Found | None:
    how = facts.how
    if not how.is_tiled:
        return None
    values: tuple[ParamValue, ...] = tuple(
        p for p in reversed(PRECISIONS[facts.gpu.kind]) if p != how.precision
    )
    return Found(f"products in {how.precision}, if the task allows less", 1.0, values)


def _warps(facts: TritonRegionFacts) -> Found | None:
    how = facts.how
    values: tuple[ParamValue, ...] = tuple(v for v in (how.num_warps * 2, how.num_warps // 2) if 1 <= v <= 16)
    tile = how.block_kept * (_across(how) or how.block_inner)
    return Found(f"{how.num_warps} warps for a tile of {tile} values", 1.03, values)


def _stages(facts: TritonRegionFacts) -> Found | None:
    how = facts.how
    if how.form == "flat" or how.loop_points <= how.block_inner:
        return None
    values: tuple[ParamValue, ...] = tuple(v for v in (3, 4, 2, 1) if v != how.num_stages)
    return Found(f"loads of {how.num_stages} steps in flight", 1.03, values)


def _programs(facts: TritonRegionFacts) -> Found | None:
    how = facts.how
    units = facts.gpu.units
    counts = tuple(n * units for n in PROGRAMS_PER_UNIT) if units else UNKNOWN_UNITS
    values: tuple[ParamValue, ...] = tuple(v for v in counts if v * 4 <= how.blocks and v != how.programs)
    where = f" on {units} units" if units else ""
    return Found(f"{how.blocks} blocks{where}, each a program of its own", 1.02, values)


def _stream(facts: TritonRegionFacts) -> Found | None:
    how = facts.how
    if how.dot is None or how.steps < 2:
        return None
    counts = (facts.gpu.units, 2 * facts.gpu.units) if facts.gpu.units else UNKNOWN_UNITS[:2]
    uneven = [n for n in counts if how.blocks % n and how.blocks < FULL_WAVES * n]
    values: tuple[ParamValue, ...] = tuple(
        n for n in uneven if 2 * n <= how.blocks * how.steps and n != how.stream
    )
    waves = how.blocks / counts[0]
    return Found(f"{how.blocks} tiles of {how.steps} steps: {waves:.3g} waves of {counts[0]}", 1.05, values)


def _hints(facts: TritonRegionFacts) -> Found | None:
    how = facts.how
    if how.is_tiled or inner_points(how.region) <= how.block_inner or passes(how.region) < 2:
        return None
    return Found(f"{passes(how.region)} passes over rows read from memory", 1.02, (not how.hints,))


def _online(facts: TritonRegionFacts) -> Found | None:
    how = facts.how
    if how.is_tiled or how.form == "flat" or inner_points(how.region) <= how.block_inner:
        return None
    if find_online(Dag(how.region)) is None:
        return None
    why = f"maximum, then exponentials, over {inner_points(how.region)} values"
    return Found(why, 1.0 if how.online else 1.3, (not how.online,))


def _moments(facts: TritonRegionFacts) -> Found | None:
    how = facts.how
    if how.is_tiled or how.form == "flat" or inner_points(how.region) <= how.block_inner:
        return None
    if find_moments(Dag(how.region)) is None:
        return None
    why = f"mean, then variance, over {inner_points(how.region)} values"
    return Found(why, 1.0 if how.one_pass else 1.4, ("two_pass" if how.one_pass else "one_pass",))


_SIZES = ("block_kept", "block_inner", "num_warps", "num_stages")
_FIELDS: tuple[tuple[str, str, str, Finder, tuple[str, ...]], ...] = (
    ("triton-form", "form", "loops", _form, _SIZES),
    ("triton-block", "block_kept", "loops", _block_kept, ("num_warps",)),
    ("triton-step", "block_inner", "loops", _block_inner, ("num_warps", "num_stages")),
    ("triton-columns", "block_columns", "products", _block_columns, ("num_warps",)),
    ("triton-group", "group_rows", "products", _group_rows, ()),
    ("triton-precision", "precision", "approximations", _precision, ()),
    ("triton-warps", "num_warps", "threads", _warps, ()),
    ("triton-stages", "num_stages", "memory", _stages, ()),
    ("triton-programs", "programs", "threads", _programs, ("stream",)),
    ("triton-stream", "stream", "threads", _stream, ("programs",)),
    ("triton-hints", "hints", "memory", _hints, ()),
    ("triton-online", "online", "passes", _online, ()),
    ("triton-moments", "moments", "passes", _moments, ()),
)
"""Name, field, what the space counts it under, where it matters, and which other fields are decided anew."""


@cache
def triton_edits(gpu: Accelerator) -> Mapping[str, ScheduleEdit]:
    """Return edit name -> edit for a device, as ``schedule_edits`` has those of the C++ printer."""
    own = TritonFields(gpu)
    fields = [
        FieldEdit(
            name, field, find, own, resets, factor=factor, open=0 if field in ("programs", "stream") else None
        )
        for name, field, factor, find, resets in _FIELDS
    ]
    edits: tuple[ScheduleEdit, ...] = (*fields, VectorWidth(gpu=gpu), SplitReduction(), FuseMatmul(gpu=gpu))
    return {edit.name: edit for edit in edits}
