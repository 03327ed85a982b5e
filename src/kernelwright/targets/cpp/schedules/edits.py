"""The schedule edits that skills lower to: one class, a table, and what each is worth where."""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from kernelwright.core.errors import LoweringError
from kernelwright.core.machine import UNKNOWN_MACHINE, Machine
from kernelwright.core.plan import ParamValue
from kernelwright.ir.edits import ScheduleEdit, Site
from kernelwright.ir.program import Program, Region
from kernelwright.ir.regions import find_region, replace_region
from kernelwright.targets.cpp.choices import complete
from kernelwright.targets.cpp.schedules import finders
from kernelwright.targets.cpp.schedules.finders import Facts, Found
from kernelwright.targets.cpp.schedules.in_place import InPlaceEpilogue

Finder = Callable[[Facts], Found | None]


@dataclass
class FieldEdit:
    """Sets one field of a region's schedule; fields that depended on the old value are decided anew."""

    name: str
    field: str
    """Field of Schedule, and the name of the parameter."""
    find: Finder
    resets: tuple[str, ...] = ()
    machine: Machine = UNKNOWN_MACHINE

    def sites(self, program: Program) -> tuple[Site, ...]:
        """Return the regions where another value could change something, most promising first."""
        found: list[Site] = []
        for step in program.steps:
            if not isinstance(step, Region):
                continue
            facts = Facts.of(step, program, self.machine)
            match = self.find(facts)
            if match is None or not match.values:
                continue
            gain = 1.0 + (match.gain - 1.0) * facts.share
            found.append(Site(step.name, match.why, gain, {self.field: match.values}))
        return tuple(sorted(found, key=lambda site: -site.gain))

    def apply(self, program: Program, region: str, params: Mapping[str, ParamValue]) -> Program:
        """Return the program with that region's field set; LoweringError when it cannot be."""
        old = find_region(program, region)
        if self.field not in params:
            raise LoweringError(f"{self.name}: parameter {self.field!r} is missing")
        value = _checked(self.name, old, self.field, params[self.field])
        changes: dict[str, object] = dict.fromkeys(self.resets)
        schedule = dataclasses.replace(old.schedule, **{**changes, self.field: value})  # type: ignore[arg-type]
        changed = dataclasses.replace(old, schedule=schedule)
        changed = dataclasses.replace(changed, schedule=complete(changed, self.machine))
        return replace_region(program, changed)


_CHOICES: dict[str, tuple[ParamValue, ...]] = {
    "parallel": ("kept", "inner", "none"),
    "moments": ("one_pass", "two_pass"),
    "vector_bytes": (16, 32, 64),
}
_FLAGS = frozenset({"online", "cache_rows", "stream", "interior_split"})


def _checked(edit: str, region: Region, field: str, value: ParamValue) -> ParamValue:
    """Return the value; raises LoweringError when the field cannot take it."""
    if field in _CHOICES:
        is_right = value in _CHOICES[field]
    elif field in _FLAGS:
        is_right = isinstance(value, bool)
    elif field == "vector_axis":
        is_right = value in {axis.name for axis in (*region.kept, *region.inner)}
    else:
        is_right = type(value) is int and 1 <= value <= 1 << 20
    if not is_right:
        raise LoweringError(f"{edit}: {field} cannot be {value!r} in region {region.name}")
    return value


_FIELD_EDITS = (
    FieldEdit("vector-width", "vector_bytes", finders.vector_width),
    FieldEdit("unroll", "unroll", finders.unroll, resets=("chunk",)),
    FieldEdit("tile", "tile", finders.tile),
    FieldEdit("chunk", "chunk", finders.chunk),
    FieldEdit("moments", "moments", finders.moments),
    FieldEdit("online-softmax", "online", finders.online),
    FieldEdit("cache-rows", "cache_rows", finders.cache_rows),
    FieldEdit("streaming-stores", "stream", finders.stream),
    FieldEdit("rows-together", "rows_together", finders.rows_together, resets=("tile", "unroll", "chunk")),
    FieldEdit("parallel-axis", "parallel", finders.parallel_axis, resets=("cache_rows",)),
    FieldEdit("threads", "threads", finders.threads),
    FieldEdit("interior-split", "interior_split", finders.interior_split),
    FieldEdit(
        "vector-axis", "vector_axis", finders.vector_axis, resets=("tile", "unroll", "chunk", "parallel")
    ),
)


@cache
def schedule_edits(machine: Machine) -> Mapping[str, ScheduleEdit]:
    """Return edit name -> edit for a machine; skills name them ``schedule:NAME``."""
    fields = [dataclasses.replace(edit, machine=machine) for edit in _FIELD_EDITS]
    edits: tuple[ScheduleEdit, ...] = (*fields, InPlaceEpilogue(machine))
    return {edit.name: edit for edit in edits}
