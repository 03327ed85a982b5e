"""What a policy may know of a run."""

from dataclasses import dataclass
from typing import Literal, Protocol


@dataclass(frozen=True)
class Attempt:
    """One evaluated candidate."""

    step: int
    mode: Literal["seed", "optimize", "repair"]
    candidate: str
    base: str | None
    """Candidate it was made from; None for a seed."""
    is_verified: bool
    speedup: float | None
    """Geometric mean over the workloads against eager; None when not verified."""
    floor_fraction: float | None
    """Worst workload's; None when unknown."""


@dataclass(frozen=True)
class RunView:
    """A frozen picture of the run between two steps."""

    attempts: tuple[Attempt, ...] = ()
    base: str | None = None
    """Candidate that the next plan starts from; None until a seed is verified."""
    exhausted: frozenset[str] = frozenset()
    """Candidates for which the planner had no move, or the debugger no repair, left."""

    def attempt(self, candidate: str) -> Attempt | None:
        """Return the first attempt with that candidate."""
        return next((a for a in self.attempts if a.candidate == candidate), None)

    @property
    def incumbent(self) -> Attempt | None:
        """The fastest verified attempt so far, the earliest on ties."""
        verified = [a for a in self.attempts if a.speedup is not None]
        return max(verified, key=lambda a: (a.speedup or 0.0, -a.step), default=None)

    @property
    def open_chain(self) -> tuple[Attempt, ...]:
        """The failing attempts at the end that hang together by repair, oldest first."""
        chain: list[Attempt] = []
        for attempt in reversed(self.attempts):
            if attempt.is_verified:
                break
            chain.insert(0, attempt)
            if attempt.mode != "repair":
                break
        return tuple(chain)


@dataclass(frozen=True)
class Selection:
    """What to do next."""

    mode: Literal["seed", "optimize", "repair", "stop"]
    base: str | None = None
    """Candidate to start from (optimize) or to repair."""
    reason: str = ""
    """Why the search stops; empty otherwise."""


class SearchPolicy(Protocol):
    """Chooses what to work on next. Pure: the same view gives the same answer."""

    def select(self, view: RunView) -> Selection:
        """Return the next selection."""
        ...

    def accepts_as_base(self, base_speedup: float | None, new_speedup: float) -> bool:
        """Say whether a verified candidate becomes the base; ``base_speedup`` None: there is none."""
        ...
