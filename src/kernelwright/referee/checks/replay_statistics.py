"""What the passes of a replay say: is a candidate slower, or later, where it cannot know its inputs?

Pure functions over seconds. What is compared is the parent's clock, as in timing: processor time also counts
threads that wait for work, which a kernel may have many of, and which hide what the others do. Beside the
timed calls, which lie some seconds back, both must be more. How much slower a busy machine has become the
reference says.
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
"""A call on unseen values may take this many times what one on known values takes."""
TIMED_FACTOR = 2.0
"""A call in a pass may take this many times a timed one and what the reference loses to colder caches."""
MOST_SLOWDOWN = 3.0
"""The machine may have become slower by this much, when the reference has."""
SLACK_S = 500e-6
"""Of every pass: reading the command, answering, waking up."""
LATE_SHARE = 0.5
"""An output whose first copy takes longer than the second by this share of a call was made on reading."""


@dataclass(frozen=True)
class PassSize:
    """How large one pass may be."""

    calls: int
    bytes: int
    """Of its inputs, and of its outputs, where two calls fit."""


ON_THE_PROCESSOR = PassSize(24, 48 << 20)
ON_A_GPU = PassSize(512, 256 << 20)
"""In the slack of a pass a GPU does the work of many calls: more of them share it there, as far as drawing
their inputs does not take seconds. Ours, not tried on one."""


@dataclass(frozen=True)
class Timed:
    """Seconds a call, from the timing before the replay."""

    seconds: float
    cpu_s: float
    """Of processor time, all threads."""
    eager_s: float | None
    """The reference's, in between; None when it was not timed."""


@dataclass(frozen=True)
class Pass:
    """Seconds a call, but for ``late``."""

    known: float
    unseen: float
    unseen_cpu: float
    """Of processor time, the same."""
    reference: float
    """The reference's, on unseen values."""
    warm: float
    """The reference's, on the inputs that were timed."""
    late: float
    """What reading an output took longer for the first time than for the second."""
    near_known: float
    near_unseen: float
    """On known and on unseen values that lie where those lay that were timed."""


def is_over(passes: Sequence[Pass], timed: Timed, calls: int) -> bool:
    """Tell whether there are passes enough to conclude from."""
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
    """Return what is wrong in a pass of so many calls, in words, or None."""
    slack = SLACK_S / calls
    if seen.late > LATE_SHARE * seen.unseen + SLACK_S:
        return (
            f"reading an output took {_ms(seen.late)} more for the first time: it was not complete when "
            "the call returned"
        )
    if seen.unseen > UNSEEN_FACTOR * seen.known + slack:
        return f"{_ms(seen.unseen)} a call on inputs that it has never seen, {_ms(seen.known)} on known ones"
    if seen.near_unseen > UNSEEN_FACTOR * seen.near_known + slack:
        return (
            f"{_ms(seen.near_unseen)} a call on inputs that it has never seen, {_ms(seen.near_known)} on "
            "known ones, at the places that were timed"
        )
    colder = max(seen.reference - seen.warm, 0.0)
    slowdown = _slowdown(seen, timed)
    is_slow, is_busy = (
        took > TIMED_FACTOR * (slowdown * before + colder) + slack
        for took, before in ((seen.unseen, timed.seconds), (seen.unseen_cpu, timed.cpu_s))
    )
    if is_slow and is_busy:
        return f"{_ms(seen.unseen)} a call when every output is kept, {_ms(timed.seconds)} when it was timed"
    return None


def _slowdown(seen: Pass, timed: Timed) -> float:
    """Say how much slower the machine is now than while it was timed, as the reference tells."""
    if not timed.eager_s:
        return 1.0
    return min(max(seen.warm / timed.eager_s, 1.0), MOST_SLOWDOWN)


def _ranked(passes: Sequence[Pass], rank: int) -> Pass:
    """Return of every figure the one of a rank, the least being 1."""
    return Pass(*(sorted(figures)[rank - 1] for figures in zip(*map(astuple, passes), strict=True)))


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"
