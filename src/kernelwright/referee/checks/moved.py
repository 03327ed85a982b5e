"""Judges calls that certainly began after weights had changed in the middle of their series."""

from collections.abc import Callable

from kernelwright.core.evaluation import Check, Status
from kernelwright.referee.checks.verify import matches
from kernelwright.referee.session.candidate_process import Failure
from kernelwright.referee.session.input_samples import InputSample
from kernelwright.referee.session.moved_weights import MovedWeights
from kernelwright.referee.session.reference_process import ReferenceProcess
from kernelwright.referee.session.shared_memory import TensorMemory

KEPT = "a timed call did not use its weights: they had changed while the calls before it went on"


def check_moved(
    reference: ReferenceProcess,
    moved: MovedWeights,
    draw: InputSample,
    results: TensorMemory,
    check: Callable[[InputSample, TensorMemory], None],
) -> None:
    """Compare outputs with those on the weights after the change; raises Failure.

    Args:
        reference: of the candidate.
        moved: the change.
        draw: the sample before it.
        results: outputs of a call after it.
        check: compares outputs with a sample, as of any timed call; raises Failure.
    """
    after = moved.after(draw)
    assert after is not None
    try:
        with moved.applied():
            check(after, results)
    except Failure as failure:
        if matches(reference, draw, results):
            raise Failure(Status.REJECTED, KEPT, check=Check.WEIGHTS) from failure
        raise
