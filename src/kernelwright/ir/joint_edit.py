"""Several fields of one region's schedule at once, since neither may gain alone."""

import random
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kernelwright.core.errors import LoweringError
from kernelwright.core.plan import ParamValue
from kernelwright.ir.decisions import Decision
from kernelwright.ir.edits import FieldEdit, Site
from kernelwright.ir.lanes import estimate_ns
from kernelwright.ir.program import Program, Region

REGIONS, POINTS = 3, 8
"""Regions that points are drawn for, the costliest first, and points of each; ours."""


@dataclass(frozen=True)
class JointEdit:
    """Sets some fields of one region together, in the order of the dimensions."""

    name: str
    edits: tuple[FieldEdit[Any], ...]

    def sites(self, program: Program) -> tuple[Site, ...]:
        """Return points near the current one, two or three fields away, by a lot that the name decides."""
        regions = [step for step in program.steps if isinstance(step, Region)]
        costly = sorted(regions, key=lambda region: -estimate_ns(region))[:REGIONS]
        return tuple(site for region in costly for site in self._points(region, program))

    def _points(self, region: Region, program: Program) -> list[Site]:
        found = [edit.decision(program, region) for edit in self.edits]
        open_ = [d for d in found if d is not None and len(d.legal) > 1 and d.param is not None]
        if len(open_) < 2:
            return []
        rng = random.Random(zlib.crc32(region.name.encode()))
        drawn = [_draw(open_, rng) for _ in range(POINTS)]
        unique = {str(sorted(values.items())): values for values in drawn}
        return [
            Site(region.name, _why(values, open_), 1.0, {name: (value,) for name, value in values.items()})
            for values in unique.values()
        ]

    def apply(self, program: Program, region: str, params: Mapping[str, ParamValue]) -> Program:
        """Return the program with the fields set; LoweringError for an unknown one or a wrong value."""
        unknown = sorted(set(params) - {edit.field for edit in self.edits})
        if unknown or not params:
            raise LoweringError(f"{self.name}: {', '.join(unknown) or 'nothing'} is no field of a schedule")
        for edit in self.edits:
            if edit.field in params:
                program = edit.apply(program, region, {edit.field: params[edit.field]})
        return program


def _draw(decisions: list[Decision], rng: random.Random) -> dict[str, ParamValue]:
    chosen = rng.sample(decisions, min(len(decisions), rng.choice((2, 2, 3))))
    return {d.param or "": rng.choice([v for v in d.legal if v != d.default]) for d in chosen}


def _why(values: Mapping[str, ParamValue], decisions: list[Decision]) -> str:
    before = {d.param: d.default for d in decisions}
    changes = (f"{name} {before[name]} to {value}" for name, value in values.items())
    return f"together: {', '.join(changes)}"
