"""Which of the designed experiments are run, and in what order.

Source: GPU Kernel Scientist (arXiv 2506.20807), after the notes in third-party summaries: of five rated
experiments three distinct ones are run, the most innovative one, the one that may gain most, and the one
that is sure to gain most.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar


class Rated(Protocol):
    """An experiment with the Designer's own ratings."""

    @property
    def gain_low(self) -> float:
        """Least expected gain, as a fraction of the latency."""
        ...

    @property
    def gain_high(self) -> float:
        """Largest expected gain, as a fraction of the latency."""
        ...

    @property
    def innovation(self) -> float:
        """0 (routine) to 1 (never seen)."""
        ...


RatedT = TypeVar("RatedT", bound=Rated)

CRITERIA: tuple[Callable[[Rated], float], ...] = (
    lambda rated: rated.innovation,
    lambda rated: rated.gain_high,
    lambda rated: rated.gain_low,
)
"""The published order of the three picks."""


def running_order(experiments: Sequence[RatedT]) -> tuple[RatedT, ...]:
    """Return all experiments in the order in which to run them; the first three are the published pick.

    The criteria take turns, each picking the highest rated of what is left, the one proposed first on
    ties. What follows the first three stands in for experiments that cannot be carried out (ours).
    """
    left = list(experiments)
    ordered: list[RatedT] = []
    while left:
        criterion = CRITERIA[len(ordered) % len(CRITERIA)]
        best = max(range(len(left)), key=lambda position: criterion(left[position]))
        ordered.append(left.pop(best))
    return tuple(ordered)
