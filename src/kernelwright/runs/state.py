"""What the loop knows while it runs; policies see frozen views of it."""

from dataclasses import dataclass, field

from kernelwright.core.candidate import Candidate
from kernelwright.core.closing import ClosedParameters
from kernelwright.core.evaluation import Evaluation, Speedup
from kernelwright.core.evidence import Diagnosis
from kernelwright.core.plan import Plan
from kernelwright.core.run import Outcome
from kernelwright.memory.short_term import ShortTermMemory
from kernelwright.runs.view import Attempt, RunView


@dataclass
class LoopState:
    """Mutable, owned by one loop."""

    short_term: ShortTermMemory = field(default_factory=ShortTermMemory)
    attempts: list[Attempt] = field(default_factory=list)
    candidates: dict[str, Candidate] = field(default_factory=dict)
    evaluations: dict[str, Evaluation] = field(default_factory=dict)
    closings: dict[str, ClosedParameters] = field(default_factory=dict)
    """How open parameters were closed, by the candidate's id, open and closed alike."""
    over_base: dict[str, Speedup] = field(default_factory=dict)
    """Candidate -> how many times as fast it is as its base, where the two were timed in turn; the
    ``baseline`` is the base's id."""
    comparing_s: float = 0.0
    """What those timings took."""
    longest_s: float = 0.0
    """What the longest evaluation took, those of an interrupted process left out."""
    base: str | None = None
    exhausted: set[str] = field(default_factory=set)
    contexts: dict[tuple[str, str], Diagnosis] = field(default_factory=dict)
    """(base, move key) -> the diagnosis under which the move was chosen."""
    repairs_tried: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Failing candidate -> keys of the repairs that its chain has used up."""
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    """By move key, in the order the ideas came up."""
    aligned: dict[str, Plan] = field(default_factory=dict)
    """Candidate -> the plan it really carries out, where an Aligner has looked."""
    failed_moves: dict[str, int] = field(default_factory=dict)
    fruitless: dict[str, int] = field(default_factory=dict)
    """Mode -> steps in a row that gave no new candidate."""
    can_tune: bool = False
    """There is somebody who times schedules, and the budget has room for it."""
    tuned: set[str] = field(default_factory=set)
    """Candidates that nobody tunes any more: that was tried, or they are what came of it."""
    settled: set[str] = field(default_factory=set)
    """Those of them whose schedules cheap timings have chosen."""
    given_up: set[tuple[str, str]] = field(default_factory=set)
    """(workload, reason) of lowering that gave up, as far as it was told."""
    step: int = 0

    def view(self) -> RunView:
        """Return a frozen picture for a policy."""
        return RunView(
            attempts=tuple(self.attempts),
            base=self.base,
            exhausted=frozenset(self.exhausted),
            failed_moves=dict(self.failed_moves),
            can_tune=self.can_tune,
            tunable=frozenset(self.ranking()) - self.tuned if self.can_tune else frozenset(),
            settled=frozenset(self.settled),
            fruitless=dict(self.fruitless),
        )

    def speedup(self, candidate_id: str | None) -> float | None:
        """Return a candidate's search speedup over eager, None when it has none."""
        evaluation = self.evaluations.get(candidate_id) if candidate_id else None
        return evaluation.geomean_speedup() if evaluation else None

    def standing(self, candidate_id: str | None) -> float | None:
        """Return the speedup over eager by which candidates are compared; None where there is none.

        A candidate that was timed in turn with its base is as many times as fast as the base as was measured
        there; where the interval tells no difference, it is as fast as the base.
        """
        direct = self.over_base.get(candidate_id or "")
        base = None if direct is None else self.standing(direct.baseline)
        if direct is None or base is None:
            return self.speedup(candidate_id)
        return base if direct.verdict == "no_significant_change" else base * direct.ratio

    def ranking(self) -> list[str]:
        """Return the verified candidates, fastest first."""
        best: dict[str, float] = {}
        for attempt in self.attempts:
            if attempt.speedup is not None:
                best[attempt.candidate] = attempt.speedup
        return sorted(best, key=lambda c: -best[c])
