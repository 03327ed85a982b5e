"""A piece of expert knowledge: when it applies, what it does, how it is carried out."""

from typing import Literal

from pydantic import Field

from kernelwright.core.evidence import Bottleneck, FactValue
from kernelwright.core.frozen import Frozen
from kernelwright.core.plan import ParamValue

ANY_KERNEL = "kernel"
"""What a skill acts on that fits every generated kernel: it takes a measured sign to recommend it."""

Operator = Literal["==", "!=", "<", "<=", ">", ">=", "in", "known"]


class Predicate(Frozen):
    """``metric op value``; data, never code. False when the metric is unknown (except ``known``)."""

    metric: str
    op: Operator
    value: FactValue | tuple[FactValue, ...] = None


class Signal(Frozen):
    """A predicate that raises the skill's score but does not decide."""

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
    narrows: str | None = None
    """Skill whose edit it carries out with fewer values; None: its edit is its own."""
    acts_on: str | None = None
    """Kind of place that it acts on where nothing carries it out, see ``ir/acted_on.py``."""
    sources: tuple[str, ...]
    body: str
    """Guidance and a worked pattern, Markdown."""


class RankedSkill(Frozen):
    """An applicable skill with its score and the reasons in words."""

    skill: str
    score: float
    reasons: tuple[str, ...]
    expected: float | None = None
    """Speedup that the cost model or the diagnosis allows it on this task; None: nobody could tell."""
