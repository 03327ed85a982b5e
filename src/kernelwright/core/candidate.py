"""An immutable proposed kernel."""

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field

from kernelwright.core.frozen import Frozen, content_hash, encodable
from kernelwright.core.plan import Plan
from kernelwright.core.source import normalise
from kernelwright.core.target import CPU_CPP, TargetName

COMPILER = "compiler"
"""Role of a candidate that stands for torch.compile of the task's module as it is; that is then delivered."""


def _storable(source: str) -> str:
    """Return a source that can be stored, and that Python refuses where Python refuses the given one."""
    stored = encodable(source)
    return source if stored == source else f"{stored}\n\N{REPLACEMENT CHARACTER}"


class Candidate(Frozen):
    """One self-contained Python source that defines ``ModelNew``, a drop-in for ``Model``."""

    source: Annotated[str, AfterValidator(_storable)]
    """As it was written, with comments and docstrings; people and models read this text. What no store takes
    is replaced, and such a source ends in a line that no parser takes either."""
    target: TargetName = CPU_CPP
    parents: tuple[str, ...] = ()
    """Ids of the candidates this one was made from; empty for a seed."""
    plan: Plan = Plan()
    role: str = "user"
    """Who wrote it: ``generator``, ``coder``, ``debugger``, ``user``, or ``reference`` for a copy of that;
    or ``compiler``, see ``COMPILER``."""
    call: str = ""
    """Key of the model's answer that it stood in; several may stand in one. Empty where no model wrote it."""
    given_up: dict[str, str] = Field(default_factory=dict, exclude=True, repr=False)
    """Workload -> why the compiler generated nothing for it, so that all of it runs through torch. Not stored
    with the candidate; the run's events hold it."""

    @cached_property
    def program(self) -> str:
        """The text that the referee runs: the source without comments, docstrings and layout."""
        return normalise(self.source)

    @cached_property
    def id(self) -> str:
        """Content hash of target and program: candidates with the same program have the same id."""
        return content_hash(str(self.target), self.program)

    def known_as(self, id: str) -> Self:
        """Return this candidate under another id, one that an older version of Kernelwright gave it."""
        named = self.model_copy()
        named.__dict__["id"] = id  # where cached_property looks first
        return named

    def without_source(self, plan: Plan) -> Self:
        """Return this candidate with its id and another plan but no source, for where code is hidden."""
        return self.model_copy(update={"source": "", "plan": plan}).known_as(self.id)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with some fields changed; another source or target makes it another candidate."""
        copied = super().model_copy(update=update, deep=deep)
        if update and not {"source", "target"}.isdisjoint(update):
            for derived in ("program", "id"):
                copied.__dict__.pop(derived, None)
        return copied
