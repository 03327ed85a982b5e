"""Compares the passes of a replay: is a candidate slower, or its output late, on inputs it cannot know?

Pure functions over seconds. They compare times by the parent's clock, as timing does. Processor time is less
useful: it also counts threads that spin while they wait for work, and these can hide what the others do. The
timed calls lie some seconds back, so a pass counts as slower than they were only when its time and its
processor time are both more. The reference, called in every pass, shows how much slower a busy machine has
become.
"""

from collections.abc import Sequence
from dataclasses import astuple, dataclass

LEAST_PASSES, MOST_PASSES = 3, 8
"""Fewest passes, and most passes while the smallest value of every figure finds a problem. An interruption
only makes a figure larger, so an interruption during known values cannot acquit a candidate."""
UNANIMOUS = 4
"""Passes after which no more are needed, when every one of them shows a problem."""
MOST_FINE, RANK = 2, 3
"""After ``MOST_PASSES``, at most ``MOST_FINE`` passes may show no problem, and the figures of rank ``RANK``
(1 is the smallest) must show the problem too. On a very busy machine the few undisturbed passes may all have
been on known values, and an honest candidate must not be rejected for that."""
UNSEEN_FACTOR = 1.5
"""A call on unseen values may take this many times as long as a call on known values."""
TIMED_FACTOR = 2.0
"""A call in a pass may take this many times the sum of a timed call (scaled by the machine's slowdown) and
the time that the reference loses to colder caches."""
MOST_SLOWDOWN = 3.0
"""Largest slowdown of the machine that is granted, as the reference shows it."""
SLACK_S = 500e-6
"""Seconds granted to every pass for reading the command, answering and waking up."""
LATE_SHARE = 0.5
"""If the first copy of an output takes longer than the second by more than this share of a call (and the
slack), the output was computed when it was read and not in the call."""


@dataclass(frozen=True)
class PassSize:
    """How large one pass may be."""

    calls: int
    """Most calls."""
    bytes: int
    """Most bytes of its inputs, and of its outputs. A pass has two calls even where these need more."""


ON_THE_PROCESSOR = PassSize(24, 48 << 20)
ON_A_GPU = PassSize(512, 256 << 20)
"""A GPU does the work of many calls within the slack of a pass, so a pass has more calls there: as many as
can have their inputs drawn without taking seconds. Our choice, not tried on a GPU."""


@dataclass(frozen=True)
class Timed:
    """Seconds per call, from the timing before the replay."""

    seconds: float
    """The candidate's, by the parent's clock."""
    cpu_s: float
    """The candidate's processor time, all threads."""
    eager_s: float | None
    """The reference's, timed in between; None when it was not timed."""


@dataclass(frozen=True)
class Pass:
    """What one pass measured, in seconds per call except for ``late``."""

    known: float
    """The candidate's, on values that it has seen."""
    unseen: float
    """The candidate's, on values that it cannot have seen."""
    unseen_cpu: float
    """Processor time of the same calls."""
    reference: float
    """The reference's, on unseen values."""
    warm: float
    """The reference's, on the inputs that were timed."""
    late: float
    """Seconds by which the first reading of an output took longer than the second."""
    near_known: float
    """The candidate's, on known values at the addresses that were timed."""
    near_unseen: float
    """The candidate's, on unseen values at the addresses that were timed."""


def is_over(passes: Sequence[Pass], timed: Timed, calls: int) -> bool:
    """Return whether the passes so far are enough to conclude."""
    if len(passes) < LEAST_PASSES:
        return False
    return (
        len(passes) == MOST_PASSES or conclude(passes, timed, calls) is None or _agree(passes, timed, calls)
    )


def conclude(passes: Sequence[Pass], timed: Timed, calls: int) -> str | None:
    """Return what is wrong with a candidate after its passes, or None."""
    found = problem_of(_ranked(passes, 1), timed, calls)
    if found is None or len(passes) < MOST_PASSES:
        return found
    n_fine = sum(problem_of(seen, timed, calls) is None for seen in passes)
    return None if n_fine > MOST_FINE else problem_of(_ranked(passes, RANK), timed, calls)


def _agree(passes: Sequence[Pass], timed: Timed, calls: int) -> bool:
    return len(passes) >= UNANIMOUS and all(problem_of(seen, timed, calls) for seen in passes)


def problem_of(seen: Pass, timed: Timed, calls: int) -> str | None:
    """Return one line about what is wrong in a pass of ``calls`` calls, or None."""
    slack = SLACK_S / calls
    if seen.late > LATE_SHARE * seen.unseen + SLACK_S:
        return (
            f"reading an output took {_ms(seen.late)} longer the first time than the second: the output was "
            "not complete when the call returned"
        )
    if seen.unseen > UNSEEN_FACTOR * seen.known + slack:
        return (
            f"a call takes {_ms(seen.unseen)} on inputs that the candidate has never seen, "
            f"{_ms(seen.known)} on known ones"
        )
    if seen.near_unseen > UNSEEN_FACTOR * seen.near_known + slack:
        return (
            f"a call takes {_ms(seen.near_unseen)} on inputs that the candidate has never seen, "
            f"{_ms(seen.near_known)} on known ones, both at the addresses that were timed"
        )
    colder = max(seen.reference - seen.warm, 0.0)
    slowdown = _slowdown(seen, timed)
    is_slow, is_busy = (
        took > TIMED_FACTOR * (slowdown * before + colder) + slack
        for took, before in ((seen.unseen, timed.seconds), (seen.unseen_cpu, timed.cpu_s))
    )
    if is_slow and is_busy:
        return (
            f"a call takes {_ms(seen.unseen)} when every output is kept, "
            f"{_ms(timed.seconds)} when it was timed"
        )
    return None


def _slowdown(seen: Pass, timed: Timed) -> float:
    """Return how much slower the machine is now than during timing, judged by the reference."""
    if not timed.eager_s:
        return 1.0
    return min(max(seen.warm / timed.eager_s, 1.0), MOST_SLOWDOWN)


def _ranked(passes: Sequence[Pass], rank: int) -> Pass:
    """Return a pass made of the values of one rank, figure by figure; rank 1 is the smallest."""
    return Pass(*(sorted(figures)[rank - 1] for figures in zip(*map(astuple, passes), strict=True)))


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"
