"""The view of a run that a policy gets."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from kernelwright.core.evaluation import Stage
from kernelwright.core.events import StepMode


@dataclass(frozen=True)
class Attempt:
    """One evaluated candidate."""

    step: int
    mode: StepMode
    candidate: str
    base: str | None
    """Candidate it was made from: its parent in the tree; None for a root or a seed."""
    is_verified: bool
    speedup: float | None
    """Geometric mean over the workloads against eager; None when not verified. Timed in turn with its base,
    the base's figure times that ratio."""
    floor_fraction: float | None
    """Floor over latency of the worst workload; None when unknown."""
    reference: str | None = None
    """Second parent; None when there is none."""
    stage: Stage | None = None
    """Furthest stage the referee entered with it; None when unknown."""


@dataclass(frozen=True)
class RunView:
    """A frozen picture of the run between two steps."""

    attempts: tuple[Attempt, ...] = ()
    base: str | None = None
    """Candidate that the next plan starts from; None until a seed is verified."""
    exhausted: frozenset[str] = frozenset()
    """Candidates for which the planner had no move, or the debugger no repair, left."""
    failed_moves: Mapping[str, int] = field(default_factory=dict)
    """Candidate -> number of plans on it that gave no candidate."""
    can_tune: bool = False
    """Cheap timings can choose schedules in this run."""
    tunable: frozenset[str] = frozenset()
    """Verified candidates whose schedules may be tuned, and have not been."""
    settled: frozenset[str] = frozenset()
    """Candidates whose schedules cheap timings have chosen."""
    fruitless: Mapping[str, int] = field(default_factory=dict)
    """Mode -> steps of that mode in a row, up to now, that gave no new candidate."""

    def attempt(self, candidate: str) -> Attempt | None:
        """Return the first attempt with that candidate."""
        return next((a for a in self.attempts if a.candidate == candidate), None)

    @property
    def incumbent(self) -> Attempt | None:
        """The fastest verified attempt so far, the earliest on ties."""
        return next(iter(self.leaders(1)), None)

    def leaders(self, count: int) -> tuple[Attempt, ...]:
        """Return the fastest verified attempts, fastest first, the earliest on ties."""
        verified = [a for a in self.attempts if a.speedup is not None]
        return tuple(sorted(verified, key=lambda a: -(a.speedup or 0.0))[:count])

    def children(self, candidate: str) -> tuple[Attempt, ...]:
        """Return the attempts made from a candidate, in order."""
        return tuple(a for a in self.attempts if a.base == candidate)

    def siblings(self, candidate: str) -> tuple[Attempt, ...]:
        """Return the other attempts made from the same candidate, in order."""
        own = self.attempt(candidate)
        if own is None or own.base is None:
            return ()
        return tuple(a for a in self.children(own.base) if a.candidate != candidate)

    def nephews(self, candidate: str) -> tuple[Attempt, ...]:
        """Return the children of a candidate's siblings, in order."""
        return tuple(a for s in self.siblings(candidate) for a in self.children(s.candidate))

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

    mode: StepMode
    base: str | None = None
    """Candidate to start from, to cross or to repair."""
    reference: str | None = None
    """Second parent."""
    count: int = 1
    """Candidates wanted of this step."""
    needed: float | None = None
    """Times as fast that a move must promise to make the base; None: whatever it promises."""
    leaves_schedules: bool = False
    """No candidate is wanted that differs by a schedule alone: cheap timings choose among those."""
    reason: str = ""
    """Why the search stops; empty otherwise."""


class SearchPolicy(Protocol):
    """Chooses what to work on next. Pure and seeded: the same view gives the same answer."""

    def select(self, view: RunView) -> Selection:
        """Return the next selection."""
        ...

    def accepts_as_base(self, base_speedup: float | None, new_speedup: float) -> bool:
        """Say whether a verified candidate becomes the base; ``base_speedup`` None: there is none."""
        ...


def stop(reason: str) -> Selection:
    """Return the selection that ends the search."""
    return Selection(mode="stop", reason=reason)
