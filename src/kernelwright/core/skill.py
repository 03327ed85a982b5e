"""A piece of expert knowledge: when it applies, what it does, how it is carried out."""

from typing import Literal

from pydantic import Field

from kernelwright.core.evidence import Bottleneck, FactValue
from kernelwright.core.frozen import Frozen
from kernelwright.core.plan import ParamValue

Operator = Literal["==", "!=", "<", "<=", ">", ">=", "in", "known"]


class Predicate(Frozen):
    """``metric op value``; data, never code. False when the metric is unknown (except ``known``)."""

    metric: str
    op: Operator
    value: FactValue | tuple[FactValue, ...] = None


class Signal(Frozen):
    """A predicate that speaks for the skill without deciding."""

    when: Predicate
    weight: float = 1.0


class Expectation(Frozen):
    """What the skill should change, to be compared with what it did."""

    metric: str
    direction: Literal["up", "down"]
    factor: float
    """Typical size as a ratio, e.g. 1.3: thirty per cent."""


class Skill(Frozen):
    """One file of long-term memory (SKILL.md convention: YAML front matter, Markdown body)."""

    name: str
    """Kebab case; also the file's name."""
    summary: str
    targets: tuple[str, ...]
    bottlenecks: tuple[Bottleneck, ...]
    structures: tuple[str, ...] = ()
    """Values of ``graph.structure`` it fits; empty: any."""
    requires: tuple[Predicate, ...] = ()
    """All must hold."""
    signals: tuple[Signal, ...] = ()
    forbids: tuple[Predicate, ...] = ()
    """None may hold."""
    expects: tuple[Expectation, ...] = ()
    params: dict[str, tuple[ParamValue, ...]] = Field(default_factory=dict)
    """Search space: parameter -> values in the order to try them."""
    lowering: str | None = None
    """``rewrite:NAME``, ``fusion:NAME`` or ``schedule:NAME`` that carries it out; None: guidance only."""
    sources: tuple[str, ...]
    body: str
    """Guidance and a worked pattern, Markdown."""


class RankedSkill(Frozen):
    """A skill that applies, how strongly, and the reasons a person can read."""

    skill: str
    score: float
    reasons: tuple[str, ...]
