"""What only clocks show, or a kill, counts only if several processes, one after the other, show it."""

import time
from collections import Counter
from collections.abc import Callable
from typing import TypeVar

from kernelwright.core.evaluation import Status
from kernelwright.referee.session.candidate_process import Failure
from kernelwright.referee.session.dossier import Dossier

CONFIRMED_AFTER_S = (0.2, 1.0)
"""A failure that only clocks show must be found again in further processes, started after these pauses. Two
threads that share a core, because another process holds the second core, make every call five times as long
for seconds. A candidate that cheats is found in every process. Where the threads of the process in which it
was found hardly waited for a core there was no such other process, and so there is no pause."""
ONCE = (Status.TIMEOUT, Status.CRASHED)
"""What one further process shows, too, counts: it takes a whole time limit, or memory that was short."""
QUIET_SHARE = 0.04
"""Threads that waited for a core in a smaller share of their time than this were not disturbed."""

NEW_VALUES = "its times are multiplied by "
"""What a finding begins with that is no reason to reject."""

T = TypeVar("T")


def attempt(run: Callable[[], object]) -> Failure | None:
    """Run checks; return the first that fails, without its frames, which hold the memory of all processes."""
    try:
        run()
    except Failure as failure:
        failure.__cause__ = failure.__context__ = failure.__traceback__ = None
        return failure
    return None


class Confirmation:
    """Judges again, in other processes, until enough of them have shown what only clocks show."""

    def __init__(self, dossier: Dossier) -> None:
        self._dossier = dossier
        self._seen: Counter[str] = Counter()
        """Kind of what only clocks show -> processes that have shown it so far."""
        self.waited_share = 1.0
        """Of the last worker's threads; see ``waited_share`` in ``timing/pinning.py``."""

    def confirmed(self, judge: Callable[[], T]) -> T:
        """Return what ``judge`` returns; it starts new processes every time it is called."""
        self._seen.clear()
        while True:
            try:
                return judge()
            except Failure as failure:
                kind = _kind_of(failure)
                is_enough = self._seen[kind] > 0 if failure.status in ONCE else self.is_seen_enough(kind)
                if not failure.is_by_clock or is_enough:
                    raise
                pause_s = CONFIRMED_AFTER_S[self._seen[kind]]
                self._seen[kind] += 1
                self._dossier.note(f"counts only if found again in other processes: {failure.detail}")
            if self.waited_share >= QUIET_SHARE:
                time.sleep(pause_s)

    def is_seen_enough(self, kind: str) -> bool:
        """True where all processes but the present one have shown such a finding."""
        return self._seen[kind] >= len(CONFIRMED_AFTER_S)


def _kind_of(failure: Failure) -> str:
    """Return in a word what kind of finding it is: a busy machine may cause one of each."""
    return NEW_VALUES if failure.detail.startswith(NEW_VALUES) else str(failure.check)
