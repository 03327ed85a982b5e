"""What the gate needs to know of the ledger."""

from typing import Protocol

from kernelwright.core.frozen import Frozen


class SkillStats(Frozen):
    """What was measured of one skill in one context."""

    tries: int = 0
    """Ideas that were carried to their end, repairs included."""
    wins: int = 0
    """Those that were verified and faster than their base."""
    mean_log_speedup: float = 0.0
    """Mean natural log of base over new latency, of the verified ones; slow-downs are negative."""
    spread: float = 0.0
    """Sample standard deviation of the same; 0 below two."""
    mean_gain: float = 0.0
    """Mean over all tries of the log-speedup where positive, 0 for the others: a base is only ever
    replaced by something faster, so this is what a try is worth."""
    context: str = "none"
    """How far it had to back off, e.g. ``reduction/compute``, ``any/compute`` or ``any/any``;
    with a remark where outcomes of another Coder than the run's own count."""


class LedgerView(Protocol):
    """Read access to measured outcomes."""

    def stats(self, skill: str, structure: str, bottleneck: str) -> SkillStats:
        """Return what was measured in the closest context that has enough tries."""
        ...

    def factor(self, skill: str, structure: str, bottleneck: str) -> float:
        """Return what admitted findings multiply the skill's score by; 1 when they say nothing."""
        ...


class EmptyLedger:
    """A ledger that has seen nothing."""

    def stats(self, skill: str, structure: str, bottleneck: str) -> SkillStats:
        """Return no tries."""
        return SkillStats()

    def factor(self, skill: str, structure: str, bottleneck: str) -> float:
        """Return 1."""
        return 1.0
