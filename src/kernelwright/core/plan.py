"""The semantic genome: which skills to apply, with which parameters, and why."""

from typing import TypeAlias

from pydantic import Field

from kernelwright.core.frozen import Frozen, content_hash

ParamValue: TypeAlias = bool | int | float | str
"""A move's parameter value."""


class Move(Frozen):
    """One application of one skill."""

    skill: str
    """Name of the skill; its ``lowering`` says what the expert team does with it."""
    region: str | None = None
    """Name of the region or graph node it applies to; None: everywhere it applies."""
    params: dict[str, ParamValue] = Field(default_factory=dict)
    why: str = ""
    """Evidence in one sentence, numbers included."""
    expects: str = ""
    """Expected effect in words, e.g. ``latency -30 %``."""
    text: str = ""
    """What to change, step by step, for a Coder that reads; empty where the lowering says it all."""

    @property
    def key(self) -> str:
        """Identity for short-term memory: what is done, not why."""
        params = ",".join(f"{name}={value}" for name, value in sorted(self.params.items()))
        written = f"#{content_hash(self.text)[:8]}" if self.text else ""
        return f"{self.skill}[{self.region or '*'}]({params}){written}"


class Plan(Frozen):
    """Ordered moves, applied from the reference on."""

    moves: tuple[Move, ...] = ()

    @property
    def id(self) -> str:
        """Content hash of the moves' keys, order included."""
        return content_hash(*(move.key for move in self.moves))

    def then(self, move: Move) -> "Plan":
        """Return this plan with one move more."""
        return Plan(moves=(*self.moves, move))
