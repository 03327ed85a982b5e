"""The run's event log: written as things happen, read back when a run is resumed."""

import logging
from collections.abc import Callable, Collection, Iterator, Sequence

from kernelwright.core.candidate import Candidate
from kernelwright.core.closing import ClosedParameters
from kernelwright.core.evaluation import Evaluation
from kernelwright.core.events import (
    CandidateEvaluated,
    ComparedWithBase,
    Event,
    FinalistsTimed,
    ModelProfiled,
    ParametersClosed,
    RunFinished,
    RunInterrupted,
)
from kernelwright.core.finalists import Alternation
from kernelwright.core.learned import ArchivedPlan
from kernelwright.core.run import Outcome
from kernelwright.store.base import Store

_log = logging.getLogger(__name__)

Listener = Callable[[Event], None]


class Journal:
    """Appends events. In a resumed run it first replays the recorded events.

    The loop is deterministic given the evaluations, so a resumed run repeats its steps and finds every
    finished evaluation here instead of measuring again. An event of the same kind and candidate as the
    recorded one at the same place is not written twice. From the first difference on, the old tail is left
    behind.
    """

    def __init__(self, store: Store, run_id: str, listener: Listener) -> None:
        self.run_id = run_id
        self._store = store
        self._listener = listener
        stored = (stored.event for stored in store.iter_events(run_id))
        beside = (RunInterrupted, ModelProfiled)  # what the loop does not repeat
        self._recorded = [event for event in stored if not isinstance(event, beside)]
        self._cursor = 0
        self._alternation = next((e for e in self._recorded if isinstance(e, FinalistsTimed)), None)
        self._comparisons = {
            (event.candidate, event.base): event.alternation
            for event in self._recorded
            if isinstance(event, ComparedWithBase)
        }
        self._closings = {
            event.closing.written: event.closing
            for event in self._recorded
            if isinstance(event, ParametersClosed)
        }
        self._evaluations = {
            (event.candidate, event.evaluation.is_final): event.evaluation
            for event in self._recorded
            if isinstance(event, CandidateEvaluated)
        }

    @property
    def is_replaying(self) -> bool:
        """True while recorded events lie ahead."""
        return self._cursor < len(self._recorded)

    def emit(self, event: Event) -> None:
        """Record an event and tell the listener."""
        if self.is_replaying and _what(self._recorded[self._cursor]) == _what(event):
            self._cursor += 1
        else:
            self._cursor = len(self._recorded)
            self._store.append_event(self.run_id, event)
        self._tell(event)

    def close(self, finished: RunFinished, outcomes: Sequence[Outcome], plan: ArchivedPlan | None) -> None:
        """Record the closing event and what the run leaves to others at once, then tell the listener."""
        self._store.close_run(self.run_id, finished, outcomes, plan)
        self._tell(finished)

    def _tell(self, event: Event) -> None:
        _log.info("%s", event.kind, extra={"fields": {"run": self.run_id, **_in_short(event)}})
        self._listener(event)

    def add_candidate(self, candidate: Candidate) -> None:
        """Keep a candidate's source; adding it again is harmless."""
        self._store.add_candidate(self.run_id, candidate)

    def recorded_evaluation(self, candidate_id: str, *, is_final: bool) -> Evaluation | None:
        """Return the evaluation an interrupted run had finished, None when it has to be made."""
        return self._evaluations.get((candidate_id, is_final))

    def recorded_alternation(self, candidates: Collection[str]) -> Alternation | None:
        """Return how an interrupted run had timed these finalists, None when it is to be measured."""
        known = None if self._alternation is None else self._alternation.alternation
        if known is None:
            return None
        timed = {*known.order, *(name for name, _ in known.left_out)}
        return known if timed == set(candidates) else None

    def recorded_comparison(self, candidate: str, base: str) -> Alternation | None:
        """Return how an interrupted run had timed a candidate in turn with its base, None when it had not."""
        return self._comparisons.get((candidate, base))

    def recorded_closing(self, written: str) -> ClosedParameters | None:
        """Return how an interrupted run had closed an open candidate, None when it is to be done."""
        return self._closings.get(written)

    def recorded_seconds(self) -> float:
        """Return the seconds that finished measurements had taken before a resume."""
        timed = 0.0 if self._alternation is None else self._alternation.alternation.seconds
        timed += sum(closing.seconds for closing in self._closings.values())
        timed += sum(timing.seconds for timing in self._comparisons.values())
        return timed + sum(sum(e.phases_s.values()) for e in self._evaluations.values())

    def finished(self) -> RunFinished | None:
        """Return the closing event of a run that had ended, None otherwise."""
        return next((e for e in self._recorded if isinstance(e, RunFinished)), None)

    def events(self) -> Iterator[Event]:
        """Iterate what was recorded before this process took over."""
        return iter(self._recorded)


def _in_short(event: Event) -> dict[str, object]:
    """Return what a line of a log says of an event."""
    names = ("step", "mode", "candidate", "winner", "speedup", "reason")
    found = {name: getattr(event, name, None) for name in names}
    evaluation = getattr(event, "evaluation", None)
    if isinstance(evaluation, Evaluation):
        found |= {"status": str(evaluation.status), "speedup": evaluation.geomean_speedup()}
    return {name: value for name, value in found.items() if value is not None}


def _what(event: Event) -> tuple[str, str | None]:
    """Return an event's kind and the candidate it is about."""
    return event.kind, getattr(event, "candidate", None)
