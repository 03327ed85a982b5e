"""A run as it happens: a live table on a terminal, plain lines anywhere else."""

import math
import sys
import time
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console, ConsoleRenderable, Group, JustifyMethod
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from kernelwright.core.budget import Budget
from kernelwright.core.events import (
    CandidateEvaluated,
    CandidateWritten,
    ComparedWithBase,
    Diagnosed,
    Event,
    FinalistsTimed,
    LoweringGaveUp,
    MoveChosen,
    ParametersClosed,
    RunFinished,
    RunStarted,
    StepStarted,
    TaskPrepared,
)
from kernelwright.report.console import PlainConsole, is_muted, make_console
from kernelwright.report.measures import duration, geomean, millis, times
from kernelwright.report.story import Story, StoryStep

COLUMNS = ("step", "result", "best", "move", "")
MOVE_WIDTH = 44
LEAST_NOTE = 16
"""Columns below which a note is left out."""
PADDING = 2


class Progress(Protocol):
    """Shows events; a context in which they come."""

    def add(self, event: Event) -> None:
        """Show one event."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def progress_console(progress: bool | None) -> Console | None:
    """Return where progress goes: stderr, or a notebook's cell; None: nowhere.

    ``progress``: True: always; False: never; None: where somebody looks, a terminal or a notebook.
    """
    if progress is False:
        return None
    notebook = PlainConsole()
    if notebook.is_jupyter:
        return notebook
    is_shown = (progress or sys.stderr.isatty()) and not is_muted()
    return make_console(is_stderr=True) if is_shown else None


def show_run(task_name: str, budget: Budget | None = None, progress: bool | None = None) -> Progress:
    """Return what shows a run: live on a terminal and in a notebook, plain lines elsewhere.

    Args:
        task_name: the headline.
        budget: what the run may spend; None: it is not known.
        progress: see ``progress_console``.
    """
    console = progress_console(progress)
    if console is None:
        return SilentProgress()
    if console.is_terminal or console.is_jupyter:
        return LiveProgress(console, task_name, budget)
    return PlainProgress(console, task_name)


def prepared_line(event: TaskPrepared) -> str:
    """Say what is known of the task before the search."""
    eager = geomean(event.baselines_ms.values())
    parts = [] if eager is None else [f"eager {millis(eager)}"]
    floors = [floor for floor in event.floors if floor is not None]
    if floors:
        bound = "/".join(dict.fromkeys(floor.bound_by for floor in floors))
        floor_ms = geomean(floor.ms for floor in floors)
        parts.append(f"floor {millis(floor_ms or 0.0)} ({bound})")
    if event.capture_error:
        parts.append(f"not captured: {event.capture_error}")
    return ", ".join(parts)


def given_up_line(event: LoweringGaveUp) -> str:
    """Say where the compiler gave up, and why."""
    return f"the compiler gave up on workload {event.workload}: {event.reason}"


def activity(event: Event, story: Story) -> str | None:
    """Say what happens after this event; None where nothing changes."""
    if isinstance(event, RunStarted):
        return "running the reference, capturing its graph"
    if isinstance(event, TaskPrepared):
        return "writing seeds"
    if isinstance(event, StepStarted):
        return "measuring the winner again" if event.mode == "final" else f"step {event.step}: {event.mode}"
    if isinstance(event, Diagnosed):
        bottleneck = event.diagnosis.bottleneck.replace("_", " ")
        return f"{bottleneck}: choosing among {len(event.ranked)} skills"
    if isinstance(event, MoveChosen):
        return f"writing {event.move.skill}"
    if isinstance(event, CandidateWritten):
        return f"building, verifying, timing {story.steps[-1].title}"
    return "thinking" if isinstance(event, CandidateEvaluated) else None


def notes(step: StoryStep) -> str:
    """Return what else is worth a word: best so far, moves passed over, why it failed."""
    words = []
    if step.improved_to is not None:
        words.append("best so far")
    if step.chosen is not None and step.chosen.skipped:
        words.append(f"{len(step.chosen.skipped)} already tried")
    if step.explanation:
        words.append(step.explanation)
    return "; ".join(words)


class SilentProgress:
    """Shows nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def add(self, event: Event) -> None:
        """Show nothing of it."""


class PlainProgress:
    """One line for each thing that ended; no control codes."""

    def __init__(self, console: Console, task_name: str) -> None:
        self._console = console
        self._name = task_name
        self._story = Story()
        self._shown: StoryStep | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._flush()

    def add(self, event: Event) -> None:
        """Print a line when a step has ended; its words are complete only when the next one begins."""
        if isinstance(event, StepStarted | RunFinished | FinalistsTimed | MoveChosen | CandidateWritten):
            self._flush()
        self._story.add(event)
        if isinstance(event, TaskPrepared):
            self._print(f"{self._name}: {prepared_line(event)}")
        elif isinstance(event, LoweringGaveUp):
            self._print(f"{self._name}: {given_up_line(event)}")
        elif isinstance(event, ParametersClosed):
            self._print(f"tuning: {event.closing.headline}")
        elif isinstance(event, ComparedWithBase) and event.speedup is not None:
            self._print(f"timed in turn: {event.candidate[:8]} is {event.speedup.against(event.base[:8])}")
        elif isinstance(event, FinalistsTimed):
            self._print(f"finalists: {event.reason}")
        elif isinstance(event, RunFinished):
            self._print(f"search ended: {event.reason}")

    def _flush(self) -> None:
        last = self._story.steps[-1] if self._story.steps else None
        if last is None or last is self._shown or last.evaluation is None:
            return
        self._shown = last
        result = str(last.speedup) if last.speedup is not None else last.outcome
        extra = notes(last)
        self._print(
            f"{last.number:>3} {last.mode:<8} {last.title}: {result}" + (f" ({extra})" if extra else "")
        )

    def _print(self, text: str) -> None:
        self._console.print(" ".join(text.split("\n")), soft_wrap=True, markup=False, highlight=False)


class LiveProgress:
    """Header, table of steps and what is going on, redrawn in place."""

    def __init__(self, console: Console, task_name: str, budget: Budget | None = None) -> None:
        self._console = console
        self._name = task_name
        self._budget = budget or Budget()
        self._story = Story()
        self._spinner = Spinner("dots")
        self._activity = "starting"
        self._started = self._since = time.monotonic()
        self._searching_since: float | None = None
        self._live = Live(
            console=console, get_renderable=self.render, refresh_per_second=8, vertical_overflow="crop"
        )

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.__exit__(kind, error, trace)

    def add(self, event: Event) -> None:
        """Take an event in; the next redraw shows it."""
        self._story.add(event)
        if self._searching_since is None and isinstance(event, StepStarted):
            self._searching_since = time.monotonic()
        now = activity(event, self._story)
        if now is not None:
            self._activity, self._since = now, time.monotonic()

    def render(self) -> ConsoleRenderable:
        """Return the whole display."""
        parts: list[ConsoleRenderable] = [self._header()]
        parts += [Text(given_up_line(told), style="yellow") for told in self._story.given_up]
        if self._story.evaluated:
            parts.append(self._table())
        if self._story.finished is None:
            parts.append(self._status())
        return Group(*parts)

    def _header(self) -> Text:
        line = Text(self._name, style="bold")
        if self._story.prepared is not None:
            line.append(f"  {prepared_line(self._story.prepared)}", style="dim")
        return line

    def _table(self) -> Table:
        """Return the steps; where there is no room, notes go first, then the ends of moves."""
        room = max(self._console.height - 6, 5)
        rows = self._rows()[-room:]
        widths = [
            max(map(len, column)) for column in zip(COLUMNS, *(cells for cells, _ in rows), strict=True)
        ]
        left = self._console.width - sum(width + PADDING for width in widths[:3]) - PADDING
        move = min(widths[3], MOVE_WIDTH, left)
        note = left - move - PADDING
        table = Table(box=None, padding=(0, PADDING, 0, 0), header_style="dim")
        for name, width in zip(COLUMNS, (*widths[:3], move, note), strict=True):
            if name or note >= LEAST_NOTE:
                justify: JustifyMethod = "right" if name == "step" else "left"
                table.add_column(name, no_wrap=True, max_width=width, justify=justify)
        for cells, style in rows:
            table.add_row(*cells[: len(table.columns)], style=style)
        return table

    def _rows(self) -> list[tuple[tuple[str, ...], str]]:
        rows: list[tuple[tuple[str, ...], str]] = []
        best = 0.0
        for step in self._story.steps:
            if step.failed is not None:
                continue
            speedup = step.speedup
            best = max(best, speedup.ratio) if speedup is not None and step.mode != "final" else best
            shown = str(speedup) if speedup is not None else step.outcome
            cells = (str(step.number), shown, times(best) if best else "", step.title, notes(step))
            rows.append((cells, _style(step)))
        return rows

    def _status(self) -> Table:
        now = time.monotonic()
        grid = Table.grid(padding=(0, 1))
        done = len([step for step in self._story.evaluated if step.mode != "final"])
        granted = "" if self._budget.evaluations is None else f" of {self._budget.evaluations}"
        words = f"{self._activity}  {duration(now - self._since)}"
        left = self._left(done, now)
        total = f"{done}{granted} evaluations, {duration(now - self._started)} in all{left}"
        grid.add_row(self._spinner, Text(words, style="cyan"))
        grid.add_row("", Text(total, style="dim"))
        return grid

    def _left(self, done: int, now: float) -> str:
        """Say how long the run may still take: at the search's pace so far, or by the seconds granted."""
        if self._story.steps and self._story.steps[-1].mode == "final":
            return ", the final is under way"
        evaluations, seconds = self._budget.evaluations, self._budget.seconds
        told, pace_s = "", math.inf
        if evaluations is not None and self._searching_since is not None and done:
            pace_s = (now - self._searching_since) / done * max(evaluations - done, 0)
            told = f", about {duration(pace_s)} left before the final"
        granted_s = math.inf if seconds is None else max(seconds - (now - self._started), 0.0)
        return told if pace_s <= granted_s else f", at most {duration(granted_s)} left with the final"


def _style(step: StoryStep) -> str:
    if step.improved_to is not None or step.mode == "final":
        return "green"
    if step.evaluation is None:
        return "cyan"
    return "" if step.speedup is not None else "red dim"
