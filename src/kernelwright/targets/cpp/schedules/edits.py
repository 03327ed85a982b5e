"""The schedule edits that skills lower to for C++: a table, and what each is worth where."""

import re
from collections.abc import Callable, Mapping
from functools import cache

from kernelwright.core.machine import Machine
from kernelwright.core.plan import ParamValue
from kernelwright.ir.edits import FieldEdit, Found, ScheduleEdit, ScheduleFields
from kernelwright.ir.joint_edit import JointEdit
from kernelwright.ir.program import Program, Region
from kernelwright.targets.cpp.choices import complete, resolve
from kernelwright.targets.cpp.schedule import CppSchedule, schedule_of
from kernelwright.targets.cpp.schedules import finders
from kernelwright.targets.cpp.schedules.dimensions import DIMENSIONS, is_carried_out_with
from kernelwright.targets.cpp.schedules.in_place import InPlaceEpilogue
from kernelwright.targets.cpp.schedules.region_facts import CppRegionFacts

Finder = Callable[[CppRegionFacts], Found | None]
_CLOSED = frozenset({"parallel", "moments", "vector_bytes", "exp_degree", "product", "packing"})
"""Fields that take no value but those of their dimension; of others there are more than search tries."""


_SIZES = {"register_tile": r"[1-9]\d?x[1-9]\d?", "cache_block": r"([1-9]\d{0,5}x){1,2}[1-9]\d{0,5}"}
"""Fields of several sizes in one, such as ``12x2``."""


class CppFields(ScheduleFields[CppRegionFacts]):
    """The fields of CppSchedule on one machine."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def facts(self, region: Region, program: Program) -> CppRegionFacts:
        return CppRegionFacts.of(region, program, self._machine)

    def given(self, region: Region) -> CppSchedule:
        return schedule_of(region)

    def complete(self, region: Region) -> CppSchedule:
        return complete(region, self._machine)

    def takes(self, region: Region, field: str, value: ParamValue) -> bool:
        known = DIMENSIONS[field].values
        if field == "vector_axis":
            return value in {axis.name for axis in (*region.kept, *region.inner)}
        if field in _SIZES:
            is_known = isinstance(value, str) and re.fullmatch(_SIZES[field], value) is not None
            return is_known and (field != "cache_block" or str(value).count("x") == self._sides(region))
        if field in _CLOSED or isinstance(known[0], bool):
            return value in known and type(value) is type(known[0])
        return type(value) is int and min(map(int, known)) <= value <= 1 << 20

    def _sides(self, region: Region) -> int:
        """Return how many sizes a block has, less one."""
        choices = resolve(region, self._machine)
        return 1 if choices.window is not None or choices.recurrence is not None else 2

    def gain(self, found: Found, facts: CppRegionFacts) -> float:
        return 1.0 + (found.gain - 1.0) * facts.share


_TILES = ("register_tile", "cache_block", "packing")
_FIELDS: tuple[tuple[str, str, Finder, tuple[str, ...]], ...] = (
    ("product-form", "product", finders.of_product("product"), (*_TILES, "parallel")),
    ("register-tile", "register_tile", finders.of_product("register_tile"), ("cache_block",)),
    ("cache-block", "cache_block", finders.of_product("cache_block"), ()),
    ("packing", "packing", finders.of_product("packing"), ()),
    ("vector-width", "vector_bytes", finders.vector_width, ()),
    ("unroll", "unroll", finders.unroll, ("chunk",)),
    ("tile", "tile", finders.tile, ()),
    ("chunk", "chunk", finders.chunk, ()),
    ("moments", "moments", finders.moments, ()),
    ("online-softmax", "online", finders.online, ()),
    ("cache-rows", "cache_rows", finders.cache_rows, ()),
    ("streaming-stores", "stream", finders.stream, ()),
    ("rows-together", "rows_together", finders.rows_together, ("tile", "unroll", "chunk")),
    ("parallel-axis", "parallel", finders.parallel_axis, ("cache_rows",)),
    ("threads", "threads", finders.threads, ()),
    ("interior-split", "interior_split", finders.interior_split, ()),
    ("separable-window", "separable", finders.separable, ("tile", "interior_split")),
    ("jam", "jam", finders.jam, ()),
    ("prefetch-distance", "prefetch", finders.prefetch, ()),
    ("dynamic-blocks", "grain", finders.grain, ()),
    ("exp-degree", "exp_degree", finders.exp_degree, ()),
    ("vector-axis", "vector_axis", finders.vector_axis, ("tile", "unroll", "chunk", "parallel")),
)
"""Name, field, where it matters, and which other fields are decided anew."""


def _where_it_matters(field: str, find: Finder) -> Finder:
    """Return the finder, which does not look at products in tiles for what loops alone have."""
    if field in (*_TILES, "product"):
        return find
    return lambda facts: find(facts) if is_carried_out_with(facts, field) else None


@cache
def schedule_edits(machine: Machine) -> Mapping[str, ScheduleEdit]:
    """Return edit name -> edit for a machine; skills name them ``schedule:NAME``."""
    fields = CppFields(machine)
    edits = [
        FieldEdit(name, field, _where_it_matters(field, find), fields, resets, DIMENSIONS[field])
        for name, field, find, resets in sorted(_FIELDS, key=lambda row: list(DIMENSIONS).index(row[1]))
    ]
    others: tuple[ScheduleEdit, ...] = (InPlaceEpilogue(machine), JointEdit("retune", tuple(edits)))
    return {edit.name: edit for edit in (*edits, *others)}
