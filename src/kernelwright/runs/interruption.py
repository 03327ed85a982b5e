"""An interrupted run: the best candidate that it can deliver, and its mark in the store."""

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass

from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import StoreError
from kernelwright.core.evaluation import Evaluation
from kernelwright.core.events import CandidateEvaluated, Event, RunInterrupted
from kernelwright.store.base import Store


@dataclass(frozen=True)
class BestSoFar:
    """The fastest candidate that can be delivered before its run has ended."""

    candidate: Candidate
    evaluation: Evaluation
    """The final verdict where it was made already, else the search's own."""


def best_so_far(store: Store, run_id: str) -> BestSoFar | None:
    """Return the best verified candidate of a run that has not ended; None when nothing is faster yet.

    A candidate that did not hold in a final measurement is not among them.

    Raises:
        StoreError: there is no such run, or the store cannot be read.
    """
    evaluation = _best(stored.event for stored in store.iter_events(run_id))
    if evaluation is None:
        return None
    return BestSoFar(store.get_candidate(evaluation.candidate_id, run_id), evaluation)


def mark_interrupted(store: Store, run_id: str) -> None:
    """Record that the run was interrupted; a store that cannot be written to then is left as it is."""
    with contextlib.suppress(StoreError):
        best = best_so_far(store, run_id)
        store.append_event(run_id, RunInterrupted(best=best.candidate.id if best else None))


def _best(events: Iterable[Event]) -> Evaluation | None:
    made = [event.evaluation for event in events if isinstance(event, CandidateEvaluated)]
    final = {evaluation.candidate_id: evaluation for evaluation in made if evaluation.is_final}
    known = {**{evaluation.candidate_id: evaluation for evaluation in made}, **final}
    good = [evaluation for evaluation in known.values() if evaluation.is_faster]
    return max(good, key=lambda e: (e.is_final, e.geomean_speedup() or 0.0), default=None)
