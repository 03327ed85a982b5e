"""What skills lower to: named edits that find where they apply and carry themselves out.

Three phases, in this order whatever the order of a plan's moves: *rewrites* change the captured graph,
*fusion* edits change how it is cut into regions, *schedule* edits change how one region is carried out.
A skill names its edit as ``rewrite:NAME``, ``fusion:NAME`` or ``schedule:NAME``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from kernelwright.core.plan import ParamValue
from kernelwright.ir.program import Program
from kernelwright.tasks.capture import Captured


@dataclass(frozen=True)
class Gpu:
    """What schedules may know of the device they are for."""

    device: str = "cuda"
    """Kind: ``cuda`` or ``hip``."""
    units: int | None = None
    """SMs or CUs of the model; None: not known, any of its kind."""
    fp32_flops: float | None = None
    """Float32 operations a second at best, as exact as float32; None: not known."""
    bandwidth: float | None = None
    """Bytes a second of its memory; None: not known."""


ANY_GPU = Gpu()
"""An NVIDIA GPU of no particular model; also the value for CPU targets, which do not read it."""


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

    name: str

    def sites(self, program: Program) -> tuple[Site, ...]:
        """Return where it applies and which parameter values are worth trying."""
        ...

    def apply(self, program: Program, region: str, params: Mapping[str, ParamValue]) -> Program:
        """Return the changed program; raises LoweringError for an unknown region or value."""
        ...
