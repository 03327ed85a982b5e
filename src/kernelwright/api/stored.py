"""Answers that the store has already: the same question, asked on the same machine of the same referee."""

from collections.abc import Iterator

from kernelwright.core.events import CandidateEvaluated, RunFinished
from kernelwright.core.run import RunSpec, RunState
from kernelwright.core.task import Task
from kernelwright.referee.version import REFEREE_VERSION
from kernelwright.store.base import RunRecord, Store

_OTHERWISE = frozenset(
    {"task", "ledger_until", "archive_until", "findings", "machine", "environment", "request", "folder"}
)
"""Fields of a spec that are compared otherwise, or say what the store knew when the run began."""
DECIDING = tuple(name for name in RunSpec.model_fields if name not in _OTHERWISE)
_OF_NO_ACCOUNT = frozenset({"task", "store", "output", "report", "open_report", "again", "blocks"})
"""Fields of a request that leave the question as it is: where things go, and what the spec says already."""


def stored_answer(store: Store, spec: RunSpec) -> RunRecord | None:
    """Return the newest finished run that asked the same, None where there is none.

    A live module's is found by what it computes: with other weights it is the same question.
    """
    ended = (record for record in _alike(store, spec) if record.state is RunState.FINISHED)
    return next((record for record in ended if _is_of_this_referee(store, record)), None)


def unfinished_run(store: Store, spec: RunSpec) -> RunRecord | None:
    """Return the newest run that asked the same of the very same task and was interrupted."""
    left = (
        record
        for record in _alike(store, spec)
        if record.state is RunState.RUNNING
        and record.spec.task.id == spec.task.id
        and store.lease_of(record.run_id) is None
    )
    return next(left, None)


def _alike(store: Store, spec: RunSpec) -> Iterator[RunRecord]:
    """Yield the runs that asked the same, newest first."""
    for record in store.alike_runs(spec):
        known = record.spec
        if (
            known.task.name == spec.task.name
            and all(getattr(known, name) == getattr(spec, name) for name in DECIDING)
            and _asked(known) == _asked(spec)
            and is_same_task(known.task, spec.task)
            and known.machine.without_measures() == spec.machine.without_measures()
        ):
            yield record


def is_same_task(one: Task, other: Task) -> bool:
    """Say whether a kernel for one task is a kernel for the other."""
    if one.id == other.id:
        return True
    contracts = [
        (task.likeness, task.mode, task.tolerance, task.workloads, task.dynamic) for task in (one, other)
    ]
    return one.likeness is not None and contracts[0] == contracts[1]


def _asked(spec: RunSpec) -> dict[str, object]:
    request = spec.request
    fields = () if request is None else type(request).model_fields
    return {name: getattr(request, name) for name in fields if name not in _OF_NO_ACCOUNT}


def _is_of_this_referee(store: Store, record: RunRecord) -> bool:
    """True where every verdict is of the referee's present version, and the run came to an end by itself."""
    end = store.last_events([record.run_id], "run_finished").get(record.run_id)
    if not isinstance(end, RunFinished) or (end.winner is not None and end.evaluation is None):
        return False
    if end.evaluation is not None and end.evaluation.referee != REFEREE_VERSION:
        return False
    verdicts = store.iter_events(record.run_id, kinds=["candidate_evaluated"])
    found = (stored.event for stored in verdicts if isinstance(stored.event, CandidateEvaluated))
    return all(event.evaluation.referee == REFEREE_VERSION for event in found)
