"""How strongly a machine can confine a candidate: named sets of guarantees, strongest first."""

from dataclasses import dataclass, field
from enum import StrEnum


class Tier(StrEnum):
    """docs/threat-model.md says what each tier guarantees, ``NOT_STOPPED`` what it does not stop."""

    NAMESPACES = "namespaces"
    """Each candidate has its own root directory, process table, network and user. Landlock and a filter add
    to this."""
    BUBBLEWRAP = "bubblewrap"
    """All candidates of a referee share one root directory, process table and network made by ``bwrap``. Each
    has its own Landlock rules and filter."""
    LANDLOCK = "landlock"
    """Candidates share the machine's directories, processes and network; Landlock and a filter restrict
    them."""
    LIMITS = "limits"
    """Limits only, and Landlock or a filter where the machine has one of them."""

    @property
    def strength(self) -> int:
        """Higher is stronger."""
        return len(ORDER) - ORDER.index(self)


ORDER = (Tier.NAMESPACES, Tier.BUBBLEWRAP, Tier.LANDLOCK, Tier.LIMITS)

BARE = "none"
"""Not a tier: limits and process groups alone, to measure what the other layers cost."""

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
"""What a malicious candidate can still do at each tier, in plain words."""


@dataclass(frozen=True)
class Sandbox:
    """A sandbox that was found by trying, once per launcher."""

    tier: Tier
    has_user_namespace: bool = False
    """A user namespace surrounds the others, because this process may not make them directly."""
    has_own_user: bool = False
    """The child gets a user id of its own; only root can give one."""
    landlock: int = 0
    """Version of Landlock; 0 without it."""
    has_filter: bool = False
    """System calls are filtered."""
    why_not: dict[str, str] = field(default_factory=dict)
    """Stronger tier -> one line that says why it does not work here."""

    @property
    def not_stopped(self) -> tuple[str, ...]:
        """Return what this sandbox does not stop, in plain words."""
        unfiltered: tuple[str, ...] = ("taking memory that no limit counts",)
        if self.tier not in (Tier.NAMESPACES, Tier.BUBBLEWRAP):
            unfiltered += ("using the network", "signals to your other processes and reading their memory")
        return NOT_STOPPED[self.tier] + (() if self.has_filter else unfiltered)

    @property
    def layers(self) -> tuple[str, ...]:
        """Return the layers of this sandbox, for people."""
        parts = {
            "namespaces": self.tier is Tier.NAMESPACES,
            "namespaces by bwrap": self.tier is Tier.BUBBLEWRAP,
            f"landlock ABI {self.landlock}": self.landlock > 0,
            "system call filter": self.has_filter,
            "user of its own": self.has_own_user,
            "limits": True,
        }
        return tuple(name for name, is_used in parts.items() if is_used)
