"""How long a client keeps trying."""

from collections.abc import Callable
from dataclasses import dataclass

FIRST_DELAY_S = 0.5
LONGEST_DELAY_S = 60.0
SHORTEST_DELAY_S = 0.1


@dataclass(frozen=True)
class Patience:
    """Seconds that a client spends on waiting before it gives up; every default is ours."""

    lost_s: float = 60.0
    """Per request, while the service cannot be reached or answers with 5xx."""
    busy_s: float = 3600.0
    """Per request, while the service says that its queue is full."""
    evaluation_s: float = 7200.0
    """For one verdict, the wait in the queue included."""
    poll_s: float = 25.0
    """One long poll."""


class Delays:
    """The pauses between the tries of one request: each twice the last, or as long as the service says."""

    def __init__(self, total_s: float, sleep: Callable[[float], None]) -> None:
        self._left_s, self._sleep = total_s, sleep
        self._next_s = FIRST_DELAY_S

    def pause(self, retry_after: str | None = None) -> bool:
        """Sleep before the next try; returns False at once when that would take too long in all."""
        delay = _seconds(retry_after)
        if delay is None:
            delay, self._next_s = self._next_s, min(2 * self._next_s, LONGEST_DELAY_S)
        delay = min(max(delay, SHORTEST_DELAY_S), LONGEST_DELAY_S)
        if delay > self._left_s:
            return False
        self._left_s -= delay
        self._sleep(delay)
        return True


def _seconds(retry_after: str | None) -> float | None:
    """Read the header's number of seconds; a date, or nonsense, counts as not given."""
    if retry_after is None or not retry_after.isascii() or not retry_after.isdigit():
        return None
    return float(retry_after[:6])
