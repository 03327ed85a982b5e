"""A bench as it happens: a line for each finished task, and on a terminal what goes on now."""

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.status import Status

from kernelwright.cli.progress import activity
from kernelwright.core.events import Event
from kernelwright.report.measures import duration
from kernelwright.report.story import Story
from kernelwright.report.tables import BenchRow, Ending


class BenchProgress:
    """Prints to stderr; the spinner only where there is a terminal."""

    def __init__(self, console: Console, n_tasks: int) -> None:
        self._console = console
        self._n_tasks = n_tasks
        self._n_done = 0
        self._task = ""
        self._story = Story()
        self._status = Status("starting", console=console) if console.is_terminal else None

    def __enter__(self) -> Self:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status is not None:
            self._status.stop()

    def start(self, task: str) -> None:
        """Begin a task."""
        self._task, self._story = task, Story()
        self._update("starting")

    def add(self, event: Event) -> None:
        """Take in an event of the current task."""
        self._story.add(event)
        now = activity(event, self._story)
        if now is not None:
            self._update(now)

    def finish(self, row: BenchRow) -> None:
        """Say how a task ended."""
        self._n_done += 1
        count = f"[{self._n_done:>{len(str(self._n_tasks))}}/{self._n_tasks}]"
        self._console.print(f"{count} {row.task}: {describe(row)}", soft_wrap=True)

    def _update(self, now: str) -> None:
        if self._status is not None:
            best = self._story.best
            so_far = f", best {best.speedup}" if best is not None else ""
            self._status.update(f"[{self._n_done + 1}/{self._n_tasks}] {self._task}: {now}{so_far}")


def describe(row: BenchRow) -> str:
    """Return one row in one line."""
    if row.ending is Ending.FAILED:
        return f"failed: {row.detail}"
    compiled = f", {row.speedup_compile} over torch.compile" if row.speedup_compile else ""
    spent = f" ({row.evaluations} evaluations, {duration(row.seconds)})"
    if row.ending is Ending.UNCHANGED:
        return f"nothing faster found: {row.detail}{spent}"
    return f"{row.speedup_eager} over eager{compiled}{spent}"
