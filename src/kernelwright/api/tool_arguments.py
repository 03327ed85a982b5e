"""What a model says when it asks for something: frozen arguments, whose JSON schemas the model sees."""

from dataclasses import dataclass, field

from kernelwright.core.plan import ParamValue


@dataclass(frozen=True)
class CompileKernel:
    """A whole file, as an answer would have it."""

    source: str


@dataclass(frozen=True)
class TryKernel:
    """A whole file, as an answer would have it, and sizes to try it at."""

    source: str
    sizes: dict[str, int] = field(default_factory=dict)
    """Whole numbers that the task's file assigns at its top level, and smaller ones; empty: its own."""


@dataclass(frozen=True)
class ProfileBase:
    """Nothing: the base is known."""


@dataclass(frozen=True)
class ShowLoop:
    """Which innermost loop of the base: 1 is the one that computes most with vectors."""

    number: int = 1


@dataclass(frozen=True)
class ReadSkill:
    """A skill's name."""

    name: str


@dataclass(frozen=True)
class PlannedMove:
    """A move of the expert's."""

    skill: str
    region: str | None = None
    params: dict[str, ParamValue] = field(default_factory=dict)


@dataclass(frozen=True)
class ExpertPlan:
    """Moves in order, from the reference on; none: the expert's default."""

    moves: tuple[PlannedMove, ...] = ()
