"""The runs of a store, each in a few words."""

from collections.abc import Iterator, Sequence
from typing import overload

from kernelwright.core.events import IncumbentImproved, RunFinished
from kernelwright.core.frozen import Frozen
from kernelwright.core.run import RunState
from kernelwright.report.measures import RatioInterval, speedup_over
from kernelwright.report.story import tell
from kernelwright.report.table import Table, html_table
from kernelwright.store.base import RunRecord, Store

HEADER = ("run", "task", "recipe", "state", "created", "result")


INTERRUPTED = "interrupted"
"""A run that has not ended and that no process is at work on: it can be resumed."""
_END, _IMPROVED = "run_finished", "incumbent_improved"
_STEPS = ("step_started", "candidate_evaluated")


class RunLine(Frozen):
    """One run."""

    run_id: str
    task: str
    recipe: str
    experiment: str | None
    state: str
    """As ``standing`` says it."""
    created_at: str
    """UTC, to the minute."""
    result: str
    """In a few words."""


class RunList(Sequence[RunLine]):
    """Runs, newest first."""

    def __init__(self, lines: Sequence[RunLine]) -> None:
        self._lines = tuple(lines)

    @overload
    def __getitem__(self, index: int) -> RunLine: ...
    @overload
    def __getitem__(self, index: slice) -> "RunList": ...
    def __getitem__(self, index: int | slice) -> "RunLine | RunList":
        """Return one run, or some of them."""
        return RunList(self._lines[index]) if isinstance(index, slice) else self._lines[index]

    def __len__(self) -> int:
        return len(self._lines)

    def __iter__(self) -> Iterator[RunLine]:
        return iter(self._lines)

    def table(self) -> Table:
        """Return the runs as a table."""
        rows = [
            (line.run_id, line.task, line.recipe, line.state, line.created_at, line.result) for line in self
        ]
        return Table(HEADER, rows, is_text=True, spare=("recipe", "created"))

    def __repr__(self) -> str:
        lines = (f"{line.run_id}  {line.task}  {line.state}  {line.result}" for line in self)
        return "\n".join(lines) or "<no runs>"

    def _repr_html_(self) -> str:
        return html_table(self.table())


def list_runs(store: Store, *, experiment: str | None = None, limit: int | None = None) -> RunList:
    """Return the newest runs of a store, only the experiment's when one is named."""
    records = store.newest_runs(limit, experiment=experiment)
    ids = [record.run_id for record in records]
    ends, live = store.last_events(ids, _END), store.leases_of(ids)
    lines = []
    for record in records:
        end = ends.get(record.run_id)
        is_left = record.state is RunState.RUNNING and record.run_id not in live
        line = RunLine(
            run_id=record.run_id,
            task=record.spec.task.name,
            recipe=record.spec.recipe,
            experiment=record.spec.experiment,
            state=INTERRUPTED if is_left else record.state.value,
            created_at=f"{record.created_at:%Y-%m-%d %H:%M}",
            result=_result(store, record, end if isinstance(end, RunFinished) else None),
        )
        lines.append(line)
    return RunList(lines)


def standing(store: Store, record: RunRecord) -> str:
    """Return a run's state as people see it: one that nobody is at work on any more is interrupted."""
    if record.state is RunState.RUNNING and store.lease_of(record.run_id) is None:
        return INTERRUPTED
    return record.state.value


def _result(store: Store, record: RunRecord, finished: RunFinished | None) -> str:
    """Return a run's result in a few words."""
    if record.failure is not None:
        return record.failure
    if finished is None:
        best = _best_so_far(store, record.run_id)
        return f"not ended; best {best}" if best is not None else "not ended"
    if finished.winner is None or finished.evaluation is None:
        return "nothing faster found"
    speedup = speedup_over(finished.evaluation, "eager")
    return f"{speedup} over eager" if speedup is not None else "not verified"


def _best_so_far(store: Store, run_id: str) -> RatioInterval | None:
    """Return the speedup of the best candidate of a run that has not ended, None where there is none."""
    best = store.last_events([run_id], _IMPROVED).get(run_id)
    if isinstance(best, IncumbentImproved):
        evaluation = store.find_evaluation(run_id, best.candidate)
        return None if evaluation is None else speedup_over(evaluation, "eager")
    step = tell(stored.event for stored in store.iter_events(run_id, kinds=_STEPS)).best
    return None if step is None else step.speedup
