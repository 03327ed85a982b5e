"""An immutable proposed kernel."""

from functools import cached_property

from kernelwright.core.frozen import Frozen, content_hash
from kernelwright.core.plan import Plan
from kernelwright.core.target import CPU_CPP, TargetName


class Candidate(Frozen):
    """One self-contained Python source that defines ``ModelNew``, a drop-in for ``Model``."""

    source: str
    target: TargetName = CPU_CPP
    parents: tuple[str, ...] = ()
    """Ids of the candidates this one was made from; empty for a seed."""
    plan: Plan = Plan()
    role: str = "user"
    """Who wrote it: ``generator``, ``coder``, ``debugger`` or ``user``."""

    @cached_property
    def id(self) -> str:
        """Content hash of target and source: the same text is the same candidate."""
        return content_hash(str(self.target), self.source)
