"""Composes the evaluator of a run: all wrappers around the inner evaluator, in one fixed order."""

from dataclasses import dataclass

from kernelwright.core.closing import Closer
from kernelwright.runs.closing import ClosingEvaluator
from kernelwright.runs.evaluator import Evaluator
from kernelwright.runs.explaining import Explainer, ExplainingEvaluator
from kernelwright.runs.inspecting import InspectingEvaluator, Inspector, Profiler
from kernelwright.runs.quick import Quick
from kernelwright.runs.recording import RecordedEvaluator, Recording
from kernelwright.runs.steady import Steady


@dataclass(frozen=True)
class Around:
    """The wrappers that a run wants around its evaluator."""

    is_quick: bool = False
    """Use the verdicts of the search as final ones."""
    close: Closer | None = None
    """Closes what candidates leave open; without it the defaults stand."""
    explain: Explainer | None = None
    """Says where the outputs of a candidate with wrong numbers are wrong."""
    inspect: Inspector | None = None
    """Inspects every candidate first; a candidate that it refuses is not judged."""
    profile: Profiler | None = None
    """Profiles the fastest candidate so far after its evaluation; used only with an inspector."""
    recording: Recording | None = None
    """Looked up first; it also keeps new measurements."""
    is_served: bool = True
    """False: the recording is only written, never read."""
    is_measured: bool = True
    """False: nothing is measured, and a missing measurement is an error."""


JUST_THE_REFEREE = Around()


def compose(base: Evaluator | None, around: Around) -> Evaluator:
    """Return the evaluator of a run.

    From the inside out: ``base`` judges (the referee here or one elsewhere; None where only a recording is
    asked), steady, closing, explaining, quick, inspecting with profiling, recording. So what is recorded
    needs no compiler and no profiler again, and what a compiler refuses never reaches the referee.
    """
    judge: Evaluator | None = None if base is None else Steady(base)
    if judge is not None and around.close is not None:
        judge = ClosingEvaluator(judge, around.close)
    if judge is not None and around.explain is not None:
        judge = ExplainingEvaluator(judge, around.explain)
    if judge is not None and around.is_quick:
        judge = Quick(judge)
    if judge is not None and around.inspect is not None:
        judge = InspectingEvaluator(judge, around.inspect, around.profile)
    if around.recording is not None:
        return RecordedEvaluator(judge, around.recording, is_served=around.is_served)
    if judge is None:
        raise ValueError("without an evaluator there must be a recording")
    return judge
