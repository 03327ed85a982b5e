"""When a candidate of the search is timed in turn with what it was made from, and for how long."""

from collections.abc import Sequence

from kernelwright.core.evaluation import Evaluation

SHARE = 0.5
"""What all these timings of a search may take, over what its evaluations have taken; our choice."""
LONGEST = 2.0
"""What one may take, over what an evaluation has taken; our choice."""


def is_unclear(base: Evaluation, candidate: Evaluation) -> bool:
    """Tell whether both are verified, and their intervals over eager overlap."""
    one, other = base.speedup_interval(), candidate.speedup_interval()
    return one is not None and other is not None and one[0] <= other[1] and other[0] <= one[1]


def comparing_seconds(evaluations_s: Sequence[float], spent_s: float, left_s: float | None) -> float | None:
    """Return what the next timing may take; None where that is less than an evaluation takes.

    Args:
        evaluations_s: what each evaluation of the search has taken.
        spent_s: what such timings have taken so far.
        left_s: what is left to the search; None: any time.
    """
    total = sum(evaluations_s)
    mean = total / len(evaluations_s) if evaluations_s else 0.0
    limits = [LONGEST * mean, SHARE * total - spent_s, *([] if left_s is None else [left_s])]
    return min(limits) if mean > 0 and min(limits) >= mean else None
