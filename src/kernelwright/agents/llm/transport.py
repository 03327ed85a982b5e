"""When a failed request is sent again, and after how long. All figures are ours unless a server names one."""

import random
from dataclasses import dataclass

from kernelwright.core.model_call import CallOutcome

RETRIES = {
    CallOutcome.RATE_LIMITED: 3,
    CallOutcome.SERVER_ERROR: 3,
    CallOutcome.DISCONNECTED: 2,
    CallOutcome.TIMED_OUT: 1,
    CallOutcome.MALFORMED_REPLY: 1,
}
"""How often each failure is tried again within one request; what is missing here is final."""
MAX_TRIES = 4
"""Of one request, whatever mixture of failures it meets."""
MAX_WAIT_S = 60.0
"""Between two tries, whatever the server asks for."""
FIRST_WAIT_S = 1.0
"""Doubled from try to try, then shortened by up to a half at random."""


@dataclass(frozen=True)
class RequestFailure:
    """One try that gave no answer."""

    outcome: CallOutcome
    detail: str
    """One line; holds no key."""
    retry_after_s: float | None = None
    """What the server asked for."""


class RequestPatience:
    """Decides, for one request, whether and when to try again.

    Whether depends on the outcomes alone, so that a replayed request tries as often as the recorded one.
    """

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._met: list[CallOutcome] = []

    def wait_after(self, failure: RequestFailure) -> float | None:
        """Return the seconds to wait before the next try, None when there shall be none."""
        self._met.append(failure.outcome)
        if len(self._met) >= MAX_TRIES or self._met.count(failure.outcome) > RETRIES.get(failure.outcome, 0):
            return None
        wait = FIRST_WAIT_S * 2.0 ** (len(self._met) - 1) * self._rng.uniform(0.5, 1.0)
        if failure.retry_after_s is not None:
            wait = failure.retry_after_s
        return min(max(wait, 0.0), MAX_WAIT_S)
