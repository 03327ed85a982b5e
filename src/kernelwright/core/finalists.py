"""What is known of candidates of a run that were timed in turn with each other."""

from kernelwright.core.evaluation import Speedup
from kernelwright.core.frozen import Frozen


class Alternation(Frozen):
    """Candidates that were timed in turn with each other, in several sets of fresh processes.

    Nothing is verified here: whoever is delivered gets a final evaluation of its own.
    """

    order: tuple[str, ...]
    """Their ids, fastest first."""
    leads: tuple[Speedup, ...] = ()
    """How many times as fast the first is as each of the others, in order; ``baseline`` is the other's id."""
    left_out: tuple[tuple[str, str], ...] = ()
    """Ids of those that failed while they were timed, and why."""
    seconds: float = 0.0
    """What the measurement took."""

    def lead_over(self, candidate_id: str) -> Speedup | None:
        """Return how many times as fast the first is as another one; None for the first itself."""
        return next((lead for lead in self.leads if lead.baseline == candidate_id), None)

    def speedup(self, candidate_id: str, over: str) -> Speedup | None:
        """Return how many times as fast a candidate is as another, where one of the two was the fastest."""
        if self.order[0] == candidate_id:
            return self.lead_over(over)
        known = self.lead_over(candidate_id) if self.order[0] == over else None
        if known is None:
            return None
        return Speedup(baseline=over, ratio=1 / known.ratio, low=1 / known.high, high=1 / known.low)
