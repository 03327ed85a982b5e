"""Edits that carry skills out: each has a name, finds its sites and changes a graph or program.

Three phases, in this order whatever the order of a plan's moves: *rewrites* change the captured graph,
*fusion* edits change how it is cut into regions, *schedule* edits change how one region is carried out.
A skill names its edit as ``rewrite:NAME``, ``fusion:NAME`` or ``schedule:NAME``.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, Protocol, TypeVar

from kernelwright.core.errors import LoweringError
from kernelwright.core.plan import ParamValue
from kernelwright.ir.decisions import Decision
from kernelwright.ir.program import Program, Region, Schedule
from kernelwright.ir.regions import find_region, replace_region
from kernelwright.tasks.capture import Captured


@dataclass(frozen=True)
class Site:
    """One place where an edit applies."""

    region: str
    """Graph node (rewrites, fusion) or region name (schedules)."""
    why: str
    """One sentence with numbers: what is there and what the edit would save."""
    gain: float = 1.0
    """Analytic guess of old over new latency of the whole program, at least 1.0; orders the sites."""
    params: Mapping[str, tuple[ParamValue, ...]] = field(default_factory=dict)
    """Parameter values worth trying here, best guess first; empty: the edit has none."""


@dataclass(frozen=True)
class FusionOptions:
    """How a graph is cut into regions."""

    enabled: bool = True
    """False: every operator stays a Call (the library seed)."""
    materialise: frozenset[str] = frozenset()
    """Graph nodes whose value is written to memory although it could be inlined."""
    inline: frozenset[str] = frozenset()
    """Graph nodes computed again by each reader although the default would write them to memory."""
    as_calls: frozenset[str] = frozenset()
    """Graph nodes that stay Calls although code could be generated."""
    apart: frozenset[str] = frozenset()
    """Graph nodes whose stages start a region of their own instead of joining an earlier one."""
    own: frozenset[str] = frozenset()
    """Matrix products and convolutions that code is generated for instead of calling the library."""


class Rewrite(Protocol):
    """Algebra on the captured graph. Never changes the result beyond rounding, for any input."""

    name: str

    def sites(self, captured: Captured) -> tuple[Site, ...]:
        """Return where it applies, most promising first."""
        ...

    def apply(self, captured: Captured, region: str) -> Captured:
        """Return a rewritten copy; raises LoweringError where it does not apply."""
        ...


class FusionEdit(Protocol):
    """A change of FusionOptions."""

    name: str

    def sites(self, captured: Captured, options: FusionOptions) -> tuple[Site, ...]:
        """Return where it applies."""
        ...

    def apply(self, options: FusionOptions, region: str) -> FusionOptions:
        """Return the changed options."""
        ...


class ScheduleEdit(Protocol):
    """A change of one region's schedule."""

    @property
    def name(self) -> str:
        """What skills call it: ``schedule:NAME``."""
        ...

    def sites(self, program: Program) -> tuple[Site, ...]:
        """Return where it applies and which parameter values are worth trying."""
        ...

    def apply(self, program: Program, region: str, params: Mapping[str, ParamValue]) -> Program:
        """Return the changed program; raises LoweringError for an unknown region or value."""
        ...


F = TypeVar("F")


@dataclass(frozen=True)
class Found:
    """What an edit could do to one region."""

    why: str
    gain: float
    """Guess of old over new latency of the region alone."""
    values: tuple[ParamValue, ...]
    """Worth trying, best guess first; empty: none."""


@dataclass(frozen=True)
class Dimension(Generic[F]):
    """What a field of schedules may be: the one place that search, skills and the space have it from."""

    factor: str
    """What the space counts it under."""
    values: tuple[ParamValue, ...]
    """In the order to try them; empty: the region has its own."""
    matters: Callable[[F], str | None]
    """What there is to decide in a region, in numbers; None: every value is the same program there."""
    refuse: Callable[[F, ParamValue], str | None] = lambda facts, value: None
    """Why a value cannot be taken in a region; None: it can."""
    own: Callable[[F], tuple[ParamValue, ...]] | None = None
    """A region's own values, e.g. its axes."""
    open: ParamValue | None = None
    """The value that an open field stands for."""

    def at(self, facts: F) -> tuple[ParamValue, ...]:
        """Return the values in a region, those that are refused included."""
        return self.values if self.own is None else self.own(facts)

    def others(self, facts: F, current: ParamValue | None) -> tuple[ParamValue, ...]:
        """Return the legal values in a region but for the current one."""
        now = self.open if current is None else current
        return tuple(v for v in self.at(facts) if v != now and self.refuse(facts, v) is None)


class ScheduleFields(ABC, Generic[F]):
    """The fields of one language's schedules, on one machine: what an edit needs to set one of them.

    ``F`` is what its finders read of a region.
    """

    @abstractmethod
    def facts(self, region: Region, program: Program) -> F:
        """Return what finders read."""

    @abstractmethod
    def given(self, region: Region) -> Schedule:
        """Return the region's schedule, of the language's own type."""

    @abstractmethod
    def complete(self, region: Region) -> Schedule:
        """Return the region's schedule with every open field decided."""

    @abstractmethod
    def takes(self, region: Region, field: str, value: ParamValue) -> bool:
        """Tell whether a field can have a value."""

    def gain(self, found: Found, facts: F) -> float:
        """Return the guessed gain of the whole program."""
        return found.gain

    def check(self, edit: str, region: Region) -> None:
        """Raise LoweringError where the fields of a changed schedule do not go together."""


@dataclass(frozen=True)
class FieldEdit(Generic[F]):
    """Sets one field of a region's schedule; fields that depended on the old value are decided anew."""

    name: str
    field: str
    """Field of the schedule, and the name of the parameter."""
    find: Callable[[F], Found | None]
    fields: ScheduleFields[F]
    resets: tuple[str, ...] = ()
    dimension: Dimension[F] | None = None
    """What the field may be; None: what ``find`` thinks of."""
    factor: str = "schedules"
    """What the space counts it under, where no dimension says."""
    open: ParamValue | None = None
    """The value that an open field stands for, where no dimension says."""

    def sites(self, program: Program) -> tuple[Site, ...]:
        """Return the regions where another value could change something, most promising first."""
        found: list[Site] = []
        for step in program.steps:
            if not isinstance(step, Region):
                continue
            facts = self.fields.facts(step, program)
            match = self.find(facts)
            if match is not None and match.values:
                gain = self.fields.gain(match, facts)
                found.append(Site(step.name, match.why, gain, {self.field: match.values}))
        return tuple(sorted(found, key=lambda site: -site.gain))

    def decision(self, program: Program, region: Region) -> Decision | None:
        """Return what the field leaves to decide in a region; None: every value is the same program there."""
        facts, own = self.fields.facts(region, program), self.dimension
        current = getattr(self.fields.complete(region), self.field)
        if own is None:
            found = self.find(facts)
            why, values, refused = (None, (), {}) if found is None else (found.why, found.values, {})
            current = self.open if current is None else current
        else:
            why = own.matters(facts)
            values = () if why is None else own.at(facts)
            refused = {v: reason for v in values if v != current and (reason := own.refuse(facts, v))}
            current = own.open if current is None else current
        if why is None or current is None:
            return None
        values = values if current in values else (current, *values)
        return Decision(
            name=f"{region.name}.{self.field}",
            factor=self.factor if own is None else own.factor,
            lowering=f"schedule:{self.name}",
            region=region.name,
            values=values,
            default=current,
            why=why,
            param=self.field,
            illegal=refused,
        )

    def apply(self, program: Program, region: str, params: Mapping[str, ParamValue]) -> Program:
        """Return the program with that region's field set; LoweringError when it cannot be."""
        old = find_region(program, region)
        if self.field not in params:
            raise LoweringError(f"{self.name}: parameter {self.field!r} is missing")
        value = params[self.field]
        if not self.fields.takes(old, self.field, value):
            raise LoweringError(f"{self.name}: {self.field} cannot be {value!r} in region {old.name}")
        changes: dict[str, object] = {**dict.fromkeys(self.resets), self.field: value}
        schedule = replace(self.fields.given(old), **changes)
        changed = replace(old, schedule=schedule)
        self.fields.check(self.name, changed)
        return replace_region(program, replace(changed, schedule=self.fields.complete(changed)))
