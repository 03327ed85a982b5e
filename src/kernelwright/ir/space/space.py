"""The space of programs of one captured workload, and its points.

The default point is what today's rules decide. Every other point names the decisions that it takes
otherwise; it lowers through ``ir/plan_lowering.py`` like any plan.
"""

import math
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias, TypeVar

from kernelwright.core.errors import LoweringError
from kernelwright.core.machine import UNKNOWN_MACHINE, Machine
from kernelwright.core.plan import Move, ParamValue, Plan
from kernelwright.ir.decisions import Decision
from kernelwright.ir.edits import FieldEdit, ScheduleEdit, Site
from kernelwright.ir.joint_edit import JointEdit
from kernelwright.ir.lowering import Lowering
from kernelwright.ir.plan_lowering import LoweredPlan, lower_cuts, rewrite
from kernelwright.ir.program import Program, Region
from kernelwright.ir.rewrites import REWRITES
from kernelwright.ir.space.fusion import fusion_decisions
from kernelwright.tasks.capture import Captured

MAX_REWRITES = 24
"""Rewrites that one point applies at most; ours, far above what any known task needs."""
OTHER_CALLS = frozenset(
    {"onednn_matmul", "convolution_as_matmul", "untransposed_convolution", "fused_attention"}
)
"""Rewrites that call a library otherwise."""
LAYOUTS = frozenset({"channels_last"})
"""Rewrites that lay tensors out otherwise."""

Choose: TypeAlias = Callable[[Decision], ParamValue]
_Applied: TypeAlias = tuple[tuple[str, str], ...]
"""Names of edits and the graph nodes that they were applied at."""
T = TypeVar("T")


@dataclass(frozen=True)
class Point:
    """The decisions that are not taken as today's rules take them: name -> value, sorted by name."""

    values: tuple[tuple[str, ParamValue], ...] = ()

    @classmethod
    def of(cls, values: Mapping[str, ParamValue]) -> "Point":
        """Make one of a mapping."""
        return cls(tuple(sorted(values.items())))

    def __str__(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.values) or "default"


@dataclass(frozen=True)
class PlannedPoint:
    """A point, what it decides, and the plan and program it means, or why it means none."""

    point: Point
    decisions: tuple[Decision, ...]
    """All that were taken on the way, defaults included."""
    plan: Plan
    lowered: LoweredPlan | None
    illegal: str | None = None
    """Why there is no program; None: there is one."""


class Points(ABC):
    """Points that are decided one decision after the other."""

    @abstractmethod
    def walk(self, choose: Choose) -> PlannedPoint:
        """Ask for every decision in turn, each after those that it depends on, and plan what is chosen."""

    @cached_property
    def _default(self) -> PlannedPoint:
        return self.plan(Point())

    def decisions(self) -> tuple[Decision, ...]:
        """Return what is decided at the default point; other values may open further decisions."""
        return self._default.decisions

    def plan(self, point: Point) -> PlannedPoint:
        """Return what a point means; never raises for a point that is illegal or unknown here."""
        wanted = dict(point.values)
        planned = self.walk(lambda decision: wanted.get(decision.name, decision.default))
        missing = sorted(set(wanted) - {d.name for d in planned.decisions})
        if planned.illegal is None and missing:
            reason = f"{missing[0]} is not decided here; a decision before it may have removed its place"
            return PlannedPoint(point, planned.decisions, planned.plan, None, reason)
        return PlannedPoint(point, planned.decisions, planned.plan, planned.lowered, planned.illegal)

    def sample(self, count: int, seed: int = 0, *, changes: float = 4.0) -> Iterator[PlannedPoint]:
        """Yield so many different points, drawn by lot; about ``changes`` decisions of each differ."""
        rng = random.Random(seed)
        share = min(0.5, changes / max(1, len(self.decisions())))
        seen: set[Point] = set()
        for _ in range(20 * count):
            if len(seen) >= count:
                return
            planned = self.walk(lambda decision: _drawn(decision, rng, share))
            if planned.point not in seen:
                seen.add(planned.point)
                yield planned


@dataclass(frozen=True)
class Space(Points):
    """All programs that may be generated for one workload on one machine, for one target."""

    captured: Captured
    lowering: Lowering
    machine: Machine = UNKNOWN_MACHINE
    skills: Mapping[str, str] = field(default_factory=dict)
    """Lowering -> the skill that plans name it by; others are named by themselves."""
    _known: dict[object, Any] = field(default_factory=dict, compare=False, repr=False)
    """What has been worked out already: graphs, cuts, and the decisions on regions."""

    def size(self) -> dict[str, float]:
        """Return factor -> log10 of its number of points, counted at the default point."""
        found: dict[str, float] = {}
        for decision in self.decisions():
            found[decision.factor] = found.get(decision.factor, 0.0) + math.log10(len(decision.legal))
        return found

    def walk(self, choose: Choose) -> PlannedPoint:
        """Ask for every decision in turn, each after those that it depends on, and plan what is chosen."""
        trail = _Trail(choose, self.skills)
        try:
            lowered = self.scheduled(trail, self._fused(trail, self._algebra(trail)))
        except LoweringError as error:
            return PlannedPoint(trail.point, tuple(trail.taken), trail.plan, None, str(error))
        return PlannedPoint(trail.point, tuple(trail.taken), trail.plan, lowered)

    def schedules(self, plan: Plan, lowered: LoweredPlan) -> "SchedulesOfPlan":
        """Return the schedules that a plan leaves to decide; the plan alone is the default point."""
        return SchedulesOfPlan(self, plan, lowered)

    # -- the phases --------------------------------------------------------------------------------

    def _algebra(self, trail: "_Trail") -> _Applied:
        """Decide on every site of every rewrite; what a rewrite opens is decided after it."""
        applied: _Applied = ()
        while len(applied) < MAX_REWRITES:
            for decision in self._sites(applied)[1]:
                if not trail.knows(decision.name) and trail.take(decision) != decision.default:
                    applied = (*applied, (decision.lowering.partition(":")[2], decision.region))
                    break
            else:
                return applied
        return applied

    def _sites(self, applied: _Applied) -> tuple[Captured, tuple[Decision, ...]]:
        """Return the graph after some rewrites, and the decisions on it."""

        def find() -> tuple[Captured, tuple[Decision, ...]]:
            captured = self.captured
            if applied:
                name, node = applied[-1]
                captured = rewrite(self._sites(applied[:-1])[0], name, node)
            found = [
                _site_decision(name, site)
                for name, rewrite in REWRITES.items()
                if name not in self.lowering.no_rewrites
                for site in rewrite.sites(captured)
            ]
            return captured, tuple(found)

        return self._once(("sites", applied), find)

    def _fused(self, trail: "_Trail", applied: _Applied) -> LoweredPlan:
        """Decide how the graph is cut into regions."""
        captured = self._sites(applied)[0]
        cuts: _Applied = ()

        def find_cuts() -> tuple[Decision, ...]:
            return fusion_decisions(captured, self.lowering)

        for decision in self._once(("cuts", applied), find_cuts):
            value = trail.take(decision)
            if value != decision.default:
                cuts = (*cuts, (decision.lowering.partition(":")[2], decision.region))
        lowered = self._once(
            ("cut", applied, cuts), lambda: lower_cuts(captured, cuts, self.lowering, self.machine)
        )
        if lowered.program.given_up:
            raise LoweringError(f"lowering gives up: {lowered.program.given_up}")
        return lowered

    def scheduled(self, trail: "_Trail", lowered: LoweredPlan) -> LoweredPlan:
        """Decide every field of every region's schedule; edits that make other regions come first."""
        program = lowered.program
        known = self.lowering.edits_for(self.machine).values()
        edits = [edit for edit in known if not isinstance(edit, JointEdit)]
        for edit in sorted(edits, key=lambda edit: isinstance(edit, FieldEdit)):
            for decision in self._schedule_decisions(edit, program):
                if trail.knows(decision.name):
                    continue
                value = trail.take(decision)
                if value != decision.default:
                    params = {} if decision.param is None else {decision.param: value}
                    program = edit.apply(program, decision.region, params)
        return replace(lowered, scheduled=program)

    def _schedule_decisions(self, edit: ScheduleEdit, program: Program) -> list[Decision]:
        if not isinstance(edit, FieldEdit):
            return [_offered(edit, site) for site in edit.sites(program)]
        regions = [step for step in program.steps if isinstance(step, Region)]
        found = [self._field_decision(edit, program, region) for region in regions]
        return [decision for decision in found if decision is not None]

    def _field_decision(self, edit: FieldEdit[Any], program: Program, region: Region) -> Decision | None:
        return self._once(("field", edit.name, region), lambda: edit.decision(program, region))

    def _once(self, key: object, find: Callable[[], T]) -> T:
        if key not in self._known:
            self._known[key] = find()
        found: T = self._known[key]
        return found


@dataclass(frozen=True)
class SchedulesOfPlan(Points):
    """Points around a plan: its graph and its cuts stay, and every schedule is decided again."""

    space: Space
    base: Plan
    lowered: LoweredPlan

    def walk(self, choose: Choose) -> PlannedPoint:
        """See Points."""
        trail = _Trail(choose, self.space.skills)

        def planned(lowered: LoweredPlan | None, illegal: str | None = None) -> PlannedPoint:
            plan = Plan(moves=(*self.base.moves, *trail.moves))
            return PlannedPoint(trail.point, tuple(trail.taken), plan, lowered, illegal)

        try:
            return planned(self.space.scheduled(trail, self.lowered))
        except LoweringError as error:
            return planned(None, str(error))


class _Trail:
    """What has been decided so far."""

    def __init__(self, choose: Choose, skills: Mapping[str, str]) -> None:
        self._choose, self._skills = choose, skills
        self.taken: list[Decision] = []
        self.moves: list[Move] = []
        self._values: dict[str, ParamValue] = {}
        self._others: dict[str, ParamValue] = {}

    @property
    def plan(self) -> Plan:
        return Plan(moves=tuple(self.moves))

    @property
    def point(self) -> Point:
        return Point.of(self._others)

    def knows(self, name: str) -> bool:
        return name in self._values

    def take(self, decision: Decision) -> ParamValue:
        """Ask, and note the move; raises LoweringError for a value that is illegal or none of its own."""
        value = self._choose(decision)
        self.taken.append(decision)
        self._values[decision.name] = value
        if value == decision.default:
            return value
        self._others[decision.name] = value
        if value not in decision.values:
            raise LoweringError(
                f"{decision.name} cannot be {value!r}; its values: {_listed(decision.values)}"
            )
        if value in decision.illegal:
            raise LoweringError(f"{decision.name}={value}: {decision.illegal[value]}")
        params = {} if decision.param is None else {decision.param: value}
        skill = self._skills.get(decision.lowering, decision.lowering)
        self.moves.append(Move(skill=skill, region=decision.region, params=params, why=decision.why))
        return value


def _listed(values: tuple[ParamValue, ...]) -> str:
    return ", ".join(map(str, values))


def _drawn(decision: Decision, rng: random.Random, share: float) -> ParamValue:
    others = [value for value in decision.legal if value != decision.default]
    return rng.choice(others) if others and rng.random() < share else decision.default


def _site_decision(rewrite: str, site: Site) -> Decision:
    factor = "library" if rewrite in OTHER_CALLS else "layout" if rewrite in LAYOUTS else "algebra"
    name = f"{factor}.{rewrite}.{site.region}"
    return Decision(name, factor, f"rewrite:{rewrite}", site.region, (False, True), False, site.why)


def _offered(edit: ScheduleEdit, site: Site) -> Decision:
    """Return the decision on an edit that knows its sites and nothing else: leave it, or apply it."""
    param, tried = next(iter(site.params.items()), (None, (True,)))
    name = f"{site.region}.{edit.name}"
    values = (False, *tried)
    return Decision(name, "structure", f"schedule:{edit.name}", site.region, values, False, site.why, param)
