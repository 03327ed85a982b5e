"""The results of a bench and of a comparison, as one HTML page each."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kernelwright.core.evidence import FactValue
from kernelwright.report import comparisontext, markdown
from kernelwright.report.benchpicture import bench_picture
from kernelwright.report.comparison import Comparison, Conditions
from kernelwright.report.comparisonpicture import comparison_picture
from kernelwright.report.judged import DeviceFacts, differences
from kernelwright.report.page import render
from kernelwright.report.sections import fact_rows
from kernelwright.report.table import Table
from kernelwright.report.tables import BenchRow, Summary


class PagePart(NamedTuple):
    """One section of a page; only the picture is markup."""

    title: str
    tables: Sequence[Table] = ()
    picture: str = ""
    reading: str = ""
    """How the figures are to be read."""
    notes: Sequence[str] = ()


def bench_page(
    title: str,
    rows: Sequence[BenchRow],
    summaries: Sequence[Summary],
    *,
    left: Sequence[str],
    date: str,
    command: str,
    environment: Mapping[str, FactValue],
    devices: DeviceFacts | None = None,
    is_quick: bool,
) -> str:
    """Return the page of one recipe over many tasks; ``left`` names the tasks without a row."""
    done = [row for row in rows if row.is_success]
    faster = sum(row.ending == "faster" for row in rows)
    lines = [f"{len(done)} of {len(rows)} runs ended verified or left the module unchanged."]
    lines += [f"Not begun: {', '.join(left)}."] if left else []
    parts = [
        PagePart(
            "Summary",
            [markdown.summary_table(rows, summaries)],
            reading=markdown.bench_reading(is_quick=is_quick),
        ),
        PagePart("Speedups by task", picture=bench_picture(title, rows)) if rows else None,
        *_task_parts(rows),
    ]
    return _results_page(
        "bench", title, f"{faster} of {len(rows)} tasks are faster", lines, parts, date, command, environment,
        devices,
    )  # fmt: skip


def _task_parts(rows: Sequence[BenchRow]) -> list[PagePart]:
    parts = []
    for group, members in markdown.by_group(rows).items():
        notes = [f"Failed: {note}" for note in markdown.failed_notes(members)]
        notes += [f"The compiler: {note}" for note in markdown.compiler_notes(members)]
        notes += [f"Without a figure: {note}" for note in markdown.missing_notes(members)]
        parts.append(PagePart(f"Tasks: {group}", [markdown.task_table(rows, members)], notes=notes))
    return parts


def comparison_page(
    title: str,
    comparison: Comparison,
    conditions: Conditions,
    *,
    date: str,
    command: str,
    environment: Mapping[str, FactValue],
    devices: DeviceFacts | None = None,
) -> str:
    """Return the page of recipes side by side."""
    text, standings = comparisontext, comparison.standings
    pairs = [text.pair_cells(pair) for pair in comparison.pairs]
    parts = [
        PagePart(
            "Standings",
            [Table(text.STANDING_HEADER, [text.standing_cells(standing) for standing in standings])],
            comparison_picture(title, comparison),
            text.reading(comparison),
        ),
        PagePart("Pairs", [_pair_table(pairs)], reading=text.pair_reading()) if pairs else None,
        PagePart("Costs", [Table(text.COST_HEADER, [text.cost_cells(standing) for standing in standings])]),
        PagePart("Tasks", [text.task_table(comparison)], notes=text.failed_notes(comparison)),
    ]
    lines = [text.conditions_text(conditions), text.counted(comparison)]
    headline = f"{len(standings)} recipes on {len(comparison.tasks)} tasks"
    return _results_page("comparison", title, headline, lines, parts, date, command, environment, devices)


def _pair_table(cells: Sequence[tuple[str, ...]]) -> Table:
    header = comparisontext.PAIR_HEADER
    return Table(header, cells, numbers=header[2:5])


def _results_page(
    kind: str,
    title: str,
    headline: str,
    lines: Sequence[str],
    parts: Sequence[PagePart | None],
    date: str,
    command: str,
    environment: Mapping[str, FactValue],
    devices: DeviceFacts | None,
) -> str:
    return render(
        "results.html.j2",
        kind=kind,
        title=title,
        headline=headline,
        lines=lines,
        parts=[part for part in parts if part is not None],
        date=date,
        command=command,
        environment=fact_rows(dict(environment)),
        devices=differences(devices or {}),
    )
