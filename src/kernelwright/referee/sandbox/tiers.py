"""How well a candidate is confined here: named sets of guarantees, strongest first."""

from dataclasses import dataclass, field
from enum import StrEnum


class Tier(StrEnum):
    """What holds at each is in docs/threat-model.md; what does not is in ``NOT_STOPPED``."""

    NAMESPACES = "namespaces"
    """A root directory, process table, network and user of its own; Landlock and a filter on top."""
    BUBBLEWRAP = "bubblewrap"
    """A root directory, process table and network, made by ``bwrap`` for all candidates of a referee;
    Landlock and a filter for each."""
    LANDLOCK = "landlock"
    """The machine's own directories, processes and network, with Landlock and a filter in between."""
    LIMITS = "limits"
    """Limits only, with whatever else the machine allows."""

    @property
    def strength(self) -> int:
        """Higher is stronger."""
        return len(ORDER) - ORDER.index(self)


ORDER = (Tier.NAMESPACES, Tier.BUBBLEWRAP, Tier.LANDLOCK, Tier.LIMITS)

BARE = "none"
"""Not a tier: limits and process groups alone, to measure what the rest costs."""

NOT_STOPPED: dict[Tier, tuple[str, ...]] = {
    Tier.NAMESPACES: ("a hole in the operating system's kernel",),
    Tier.BUBBLEWRAP: (
        "a hole in the operating system's kernel",
        "asking which other candidates' processes and files exist",
        "filling disk or memory for half a second before it is noticed",
    ),
    Tier.LANDLOCK: (
        "a hole in the operating system's kernel",
        "asking which processes and files exist",
        "filling disk or memory for half a second before it is noticed",
    ),
    Tier.LIMITS: (
        "a hole in the operating system's kernel",
        "reading files that you can read",
        "changing and deleting files that you can change",
        "filling disk or memory for half a second before it is noticed",
    ),
}
"""In plain words, what a candidate that means harm can still do at a tier."""


@dataclass(frozen=True)
class Sandbox:
    """What was chosen by trying, once per launcher."""

    tier: Tier
    has_user_namespace: bool = False
    """The namespaces lie in one of ours, because we have no right to make them directly."""
    has_own_user: bool = False
    """The child gets a user id that nobody else has; only root can give one."""
    landlock: int = 0
    """Version; 0 without."""
    has_filter: bool = False
    """System calls are filtered."""
    why_not: dict[str, str] = field(default_factory=dict)
    """Stronger tier -> why it cannot be had here, one line."""

    @property
    def not_stopped(self) -> tuple[str, ...]:
        """Return what this sandbox does not stop, in plain words."""
        unfiltered: tuple[str, ...] = ("taking memory that no limit counts",)
        if self.tier not in (Tier.NAMESPACES, Tier.BUBBLEWRAP):
            unfiltered += ("using the network", "signals to your other processes and reading their memory")
        return NOT_STOPPED[self.tier] + (() if self.has_filter else unfiltered)

    @property
    def layers(self) -> tuple[str, ...]:
        """Return what it is made of."""
        parts = {
            "namespaces": self.tier is Tier.NAMESPACES,
            "namespaces by bwrap": self.tier is Tier.BUBBLEWRAP,
            f"landlock ABI {self.landlock}": self.landlock > 0,
            "system call filter": self.has_filter,
            "user of its own": self.has_own_user,
            "limits": True,
        }
        return tuple(name for name, is_used in parts.items() if is_used)
