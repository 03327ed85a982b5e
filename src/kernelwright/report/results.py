"""What an experiment of many runs came to: as tables to read, as a document, as files."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kernelwright.core.checkup import Checkup, EarlierCheck
from kernelwright.core.evaluation import Evaluation
from kernelwright.core.evidence import FactValue
from kernelwright.report import checkups, comparisontext, markdown, svg
from kernelwright.report.benchpicture import bench_picture
from kernelwright.report.comparison import Comparison, Conditions
from kernelwright.report.comparisonpicture import comparison_picture
from kernelwright.report.files import json_text, write_text
from kernelwright.report.judged import DeviceFacts
from kernelwright.report.measures import millis, speedup_over
from kernelwright.report.played import Played
from kernelwright.report.table import Table, html_table
from kernelwright.report.tables import BenchRow, Summary, summaries

STYLES = {"unusable": "bold red", "doubtful": "yellow", "fine": "green"}


class Results(ABC):
    """What all results can do; they are shown as tables in a notebook."""

    @abstractmethod
    def document(self) -> dict[str, Any]:
        """Return everything, ready to be written as JSON."""

    @abstractmethod
    def files(self) -> dict[str, str]:
        """Return the text of every file by its name."""

    @abstractmethod
    def tables(self) -> list[Table]:
        """Return the tables that a reader sees first."""

    def save(self, folder: str | Path) -> list[Path]:
        """Write the files into a folder and return where they are; raises UserError when that fails."""
        return [write_text(Path(folder) / name, text) for name, text in self.files().items()]

    def _repr_html_(self) -> str:
        return "".join(map(html_table, self.tables()))


def date_now() -> str:
    """Return the date and the time as results say them."""
    return f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"


@dataclass(frozen=True, repr=False)
class BenchResult(Results):
    """One recipe over many tasks."""

    title: str
    rows: tuple[BenchRow, ...]
    left: tuple[str, ...]
    """Names of tasks without a row."""
    command: str
    """Asks for the same again."""
    environment: Mapping[str, FactValue]
    is_quick: bool = False
    """Delivered by the search's own verdicts."""
    devices: DeviceFacts = field(default_factory=dict)
    """Of each device that judged; ``environment`` is what is known of all alike."""
    conditions: Mapping[str, Any] = field(default_factory=dict)
    """Under which every row was measured; rows that are taken over must have the same."""
    date: str = field(default_factory=date_now)

    @property
    def is_success(self) -> bool:
        """True when every task that was begun ended verified or unchanged."""
        return all(row.is_success for row in self.rows)

    @property
    def summaries(self) -> list[Summary]:
        """Sums over the rows."""
        return summaries(self.rows)

    def document(self) -> dict[str, Any]:
        """See Results."""
        return {
            "name": self.title,
            "date": self.date,
            "command": self.command,
            "environment": self.environment,
            "devices": self.devices,
            "conditions": self.conditions,
            "is_quick": self.is_quick,
            "summaries": self.summaries,
            "rows": self.rows,
            "left": self.left,
        }

    def files(self) -> dict[str, str]:
        """See Results."""
        text = markdown.bench_markdown(
            self.title,
            self.rows,
            self.summaries,
            date=self.date,
            command=self.command,
            environment=self.environment,
            devices=self.devices,
            picture="results.svg",
            is_quick=self.is_quick,
        )
        # lazy: load Jinja2
        from kernelwright.report.page import asset
        from kernelwright.report.resultspage import bench_page

        return {
            "results.json": json_text(self.document()),
            "results.md": text,
            "results.html": bench_page(
                self.title,
                self.rows,
                self.summaries,
                left=self.left,
                date=self.date,
                command=self.command,
                environment=self.environment,
                devices=self.devices,
                is_quick=self.is_quick,
            ),
            "results.svg": svg.standalone(bench_picture(self.title, self.rows), asset("chart.css")),
        }

    def tables(self) -> list[Table]:
        """See Results."""
        return [
            markdown.task_table(self.rows, self.rows),
            *markdown.total_tables(self.rows, self.summaries),
        ]

    def __repr__(self) -> str:
        faster = sum(row.ending == "faster" for row in self.rows)
        return f"<BenchResult {self.title!r}: {len(self.rows)} tasks, {faster} faster, {len(self.left)} left>"


@dataclass(frozen=True, repr=False)
class ComparisonResult(Results):
    """Recipes side by side."""

    title: str
    played: tuple[Played, ...]
    comparison: Comparison
    conditions: Conditions
    command: str
    """Asks for the same again."""
    environment: Mapping[str, FactValue]
    devices: DeviceFacts = field(default_factory=dict)
    """See BenchResult."""
    date: str = field(default_factory=date_now)

    @property
    def is_success(self) -> bool:
        """True when every run ended verified or unchanged."""
        return all(run.is_success for run in self.played)

    def document(self) -> dict[str, Any]:
        """See Results."""
        return {
            "name": self.title,
            "date": self.date,
            "command": self.command,
            "environment": self.environment,
            "devices": self.devices,
            "conditions": self.conditions,
            "comparison": self.comparison,
            "runs": self.played,
        }

    def files(self) -> dict[str, str]:
        """See Results."""
        text = comparisontext.comparison_markdown(
            self.title,
            self.comparison,
            self.conditions,
            date=self.date,
            command=self.command,
            environment=self.environment,
            devices=self.devices,
            picture="comparison.svg",
        )
        # lazy: load Jinja2
        from kernelwright.report.page import asset
        from kernelwright.report.resultspage import comparison_page

        return {
            "comparison.json": json_text(self.document()),
            "comparison.md": text,
            "comparison.html": comparison_page(
                self.title,
                self.comparison,
                self.conditions,
                date=self.date,
                command=self.command,
                environment=self.environment,
                devices=self.devices,
            ),
            "comparison.svg": svg.standalone(
                comparison_picture(self.title, self.comparison), asset("chart.css")
            ),
        }

    def tables(self) -> list[Table]:
        """See Results."""
        text, standings, pairs = comparisontext, self.comparison.standings, self.comparison.pairs
        stand, cost = map(text.standing_cells, standings), map(text.cost_cells, standings)
        tables = (
            Table(text.STANDING_HEADER, list(stand), spare=("fast_1", "fast_1.5", "fast_2", "median")),
            Table(text.COST_HEADER, list(cost), spare=("runs", "tokens a run")),
            Table(text.PAIR_HEADER, list(map(text.pair_cells, pairs)), spare=("areas",)),
        )
        return [table for table in tables if table.rows]

    def __repr__(self) -> str:
        names = ", ".join(standing.name for standing in self.comparison.standings)
        return f"<ComparisonResult {self.title!r}: {len(self.played)} runs of {names}>"


@dataclass(frozen=True, repr=False)
class CheckResult(Results):
    """What is wrong with tasks."""

    checkups: tuple[Checkup, ...]
    command: str
    """Asks for the same again."""
    environment: Mapping[str, FactValue]
    date: str = field(default_factory=date_now)
    earlier: tuple[EarlierCheck, ...] = ()
    """Where the results come from that were taken over; all others are of ``date`` and ``environment``."""

    @property
    def is_success(self) -> bool:
        """True when nothing is worse than a note."""
        return all(checkup.is_trustworthy for checkup in self.checkups)

    def document(self) -> dict[str, Any]:
        """See Results."""
        return {
            "command": self.command,
            "date": self.date,
            "environment": self.environment,
            "earlier": self.earlier,
            "tasks": self.checkups,
        }

    def files(self) -> dict[str, str]:
        """See Results."""
        text = checkups.checkups_markdown(
            "Tasks checked",
            self.checkups,
            date=self.date,
            command=self.command,
            environment=self.environment,
            earlier=self.earlier,
        )
        return {"results.json": json_text(self.document()), "results.md": text}

    def tables(self) -> list[Table]:
        """See Results."""
        lines = [checkups.cells(checkup) for checkup in self.checkups]
        return [Table(checkups.HEADER, lines, [STYLES[line[1]] for line in lines], is_text=True)]

    def __repr__(self) -> str:
        return f"<CheckResult: {checkups.counts_line(self.checkups)}>"


@dataclass(frozen=True, repr=False)
class KernelComparison(Results):
    """Several kernels for one task, judged in one session, in the order they were given."""

    task: str
    names: tuple[str, ...]
    evaluations: tuple[Evaluation, ...]

    @property
    def best(self) -> str | None:
        """The name of the fastest verified kernel; None when there is none."""
        known = zip(self.names, self.evaluations, strict=True)
        timed = {name: speedup for name, e in known if (speedup := e.geomean_speedup()) is not None}
        return max(timed, key=lambda name: timed[name]) if timed else None

    @property
    def is_success(self) -> bool:
        """True when every kernel is verified."""
        return all(evaluation.is_verified for evaluation in self.evaluations)

    def document(self) -> dict[str, Any]:
        """See Results."""
        known = zip(self.names, self.evaluations, strict=True)
        kernels = [{"kernel": name, "evaluation": evaluation} for name, evaluation in known]
        return {"task": self.task, "best": self.best, "kernels": kernels}

    def files(self) -> dict[str, str]:
        """See Results."""
        return {"kernels.json": json_text(self.document())}

    def tables(self) -> list[Table]:
        """See Results."""
        known = zip(self.names, self.evaluations, strict=True)
        return [Table(("kernel", "verdict", "latency", "over eager"), [_cells(*one) for one in known])]

    def __repr__(self) -> str:
        return f"<KernelComparison {self.task!r}: {len(self.names)} kernels, best {self.best}>"


def _cells(name: str, evaluation: Evaluation) -> tuple[str, ...]:
    """Return one kernel's row."""
    speedup = speedup_over(evaluation, "eager")
    latency = millis(evaluation.told[0].candidate.median_ms) if evaluation.told else ""
    verdict = evaluation.status.replace("_", " ") + (f" by {evaluation.check}" if evaluation.check else "")
    return name, verdict, latency, str(speedup) if speedup else ""
