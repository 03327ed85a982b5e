"""Many runs, or many checks, as they happen: a line for each that ended, on a terminal what goes on now."""

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.status import Status

from kernelwright.core.checkup import Checkup
from kernelwright.core.events import Event
from kernelwright.report import checkups
from kernelwright.report.measures import duration
from kernelwright.report.progress import activity, progress_console
from kernelwright.report.story import Story
from kernelwright.report.tables import BenchRow, Ending


class _Counted:
    """Counts what has ended; the spinner only where there is a terminal. No console: says nothing."""

    def __init__(self, console: Console | None, n_all: int) -> None:
        self._console = console
        self._n_all = n_all
        self._n_done = 0
        self._name = ""
        is_live = console is not None and (console.is_terminal or console.is_jupyter)
        self._status = Status("starting", console=console) if is_live and console is not None else None

    def __enter__(self) -> Self:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status is not None:
            self._status.stop()

    def _count(self, number: int) -> str:
        return f"[{number:>{len(str(self._n_all))}}/{self._n_all}] {self._name}"

    def _begin(self, name: str) -> None:
        self._name = name
        self._n_done += 1

    def _say(self, words: str) -> None:
        if self._console is not None:
            self._console.print(f"{self._count(self._n_done)}{words}", soft_wrap=True)

    def _update(self, now: str) -> None:
        if self._status is not None:
            self._status.update(f"{self._count(self._n_done)}: {now}")


class RunsProgress(_Counted):
    """Runs, one after the other."""

    def start(self, task: str) -> None:
        """Begin a run."""
        self._begin(task)
        self._story = Story()
        self._update("starting")

    def add(self, event: Event) -> None:
        """Take in an event of the current run."""
        self._story.add(event)
        now = activity(event, self._story)
        if now is not None:
            best = self._story.best
            self._update(now + (f", best {best.speedup}" if best is not None else ""))

    def tell(self, what: str) -> None:
        """Say what the current run does, where no event does."""
        self._update(what)

    def finish(self, row: BenchRow) -> None:
        """Say how a run ended."""
        self._say(f": {describe(row)}")

    def finish_one_of(self, row: BenchRow) -> None:
        """Say how a run ended that went on beside others."""
        self._begin(row.task)
        self._update("ended")
        self.finish(row)


class ChecksProgress(_Counted):
    """Tasks that are examined, one after the other."""

    def start(self, task: str) -> None:
        """Begin a task; a line says so where nothing moves."""
        self._begin(task)
        if self._status is None:
            self._say(" ...")

    def tell(self, what: str) -> None:
        """Say what is looked at."""
        self._update(what)

    def finish(self, checkup: Checkup) -> None:
        """Say what was found, where there is more than one task."""
        if self._n_all > 1:
            self._say(f": {', '.join(filter(None, checkups.cells(checkup)[1:3]))}")


def show_runs(n_runs: int, progress: bool | None) -> RunsProgress:
    """Return what shows runs; ``progress`` None: where people look, True: always, False: never."""
    return RunsProgress(progress_console(progress), n_runs)


def show_checks(n_tasks: int, progress: bool | None) -> ChecksProgress:
    """Return what shows checks; ``progress`` as ``show_runs``."""
    return ChecksProgress(progress_console(progress), n_tasks)


WITHOUT_A_KERNEL = {
    Ending.COMPILED: "torch.compile alone: ",
    Ending.REARRANGED: "torch's calls arranged anew: ",
}


def describe(row: BenchRow) -> str:
    """Return one row in one line."""
    if row.ending is Ending.FAILED:
        return f"failed: {row.detail}"
    compiled = f", {row.speedup_compile} over torch.compile" if row.speedup_compile else ""
    spent = f" ({row.evaluations} evaluations, {duration(row.seconds)})"
    if row.ending is Ending.UNCHANGED:
        return f"nothing faster found: {row.detail}{spent}"
    by = WITHOUT_A_KERNEL.get(row.ending, "")
    return f"{by}{row.speedup_eager} over eager{compiled}{spent}"
