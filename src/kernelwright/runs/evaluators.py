"""Who judges a run's candidates: everything that stands around an evaluator, put together in one order."""

from dataclasses import dataclass

from kernelwright.runs.evaluator import Evaluator
from kernelwright.runs.inspecting import InspectingEvaluator, Inspector, Profiler
from kernelwright.runs.quick import Quick
from kernelwright.runs.recording import RecordedEvaluator, Recording


@dataclass(frozen=True)
class Around:
    """What is wanted around whoever judges."""

    is_quick: bool = False
    """Final verdicts are the search's own."""
    inspect: Inspector | None = None
    """Asked before a candidate is judged: what it refuses is not judged."""
    profile: Profiler | None = None
    """Asked after, of the fastest so far; only where there is an inspector."""
    recording: Recording | None = None
    """Asked first of all; it keeps what is measured."""
    is_served: bool = True
    """False: the recording only listens."""
    is_measured: bool = True
    """False: what the recording lacks is an error, and nobody measures."""


JUST_THE_REFEREE = Around()


def compose(base: Evaluator | None, around: Around) -> Evaluator:
    """Return the evaluator of a run.

    From the inside out: ``base`` judges (the referee here or one elsewhere; None where only a recording is
    asked), quick, inspecting with profiling, recording. So what is recorded needs no compiler and no profiler
    again, and what a compiler refuses never reaches the referee.
    """
    judge = base
    if judge is not None and around.is_quick:
        judge = Quick(judge)
    if judge is not None and around.inspect is not None:
        judge = InspectingEvaluator(judge, around.inspect, around.profile)
    if around.recording is not None:
        return RecordedEvaluator(judge, around.recording, is_served=around.is_served)
    if judge is None:
        raise ValueError("without an evaluator there must be a recording")
    return judge
