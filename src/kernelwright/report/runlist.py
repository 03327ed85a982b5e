"""The runs of a store, each in a few words."""

from collections.abc import Iterator, Sequence
from typing import Any, overload

from kernelwright.core.frozen import Frozen
from kernelwright.core.run import RunState
from kernelwright.report.measures import speedup_over
from kernelwright.report.story import Story, tell
from kernelwright.report.table import Table, html_table
from kernelwright.store.base import RunRecord, Store

HEADER = ("run", "task", "recipe", "state", "created", "result")


INTERRUPTED = "interrupted"
"""A run that has not ended and that no process is at work on: it can be resumed."""


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
        return Table(HEADER, rows, is_text=True)

    def __repr__(self) -> str:
        lines = (f"{line.run_id}  {line.task}  {line.state}  {line.result}" for line in self)
        return "\n".join(lines) or "<no runs>"

    def _repr_html_(self) -> str:
        return html_table(self.table())


def list_runs(store: Store, *, experiment: str | None = None, limit: int | None = None) -> RunList:
    """Return the newest runs of a store, only the experiment's when one is named."""
    records = list(store.iter_runs(experiment))[::-1][:limit]
    lines = []
    for record in records:
        story = tell(stored.event for stored in store.iter_events(record.run_id))
        known: dict[str, Any] = {
            "run_id": record.run_id,
            "task": record.spec.task.name,
            "recipe": record.spec.recipe,
            "experiment": record.spec.experiment,
            "state": standing(store, record),
            "created_at": f"{record.created_at:%Y-%m-%d %H:%M}",
            "result": result_text(story, record.failure),
        }
        lines.append(RunLine(**known))
    return RunList(lines)


def standing(store: Store, record: RunRecord) -> str:
    """Return a run's state as people see it: one that nobody is at work on any more is interrupted."""
    if record.state is RunState.RUNNING and store.lease_of(record.run_id) is None:
        return INTERRUPTED
    return record.state.value


def result_text(story: Story, failure: str | None) -> str:
    """Return a run's result in a few words."""
    if failure is not None:
        return failure
    if story.finished is None:
        best = story.best
        return f"not ended; best {best.speedup}" if best is not None else "not ended"
    if story.finished.winner is None or story.finished.evaluation is None:
        return "nothing faster found"
    speedup = speedup_over(story.finished.evaluation, "eager")
    return f"{speedup} over eager" if speedup is not None else "not verified"
