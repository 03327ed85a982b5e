"""A bench as Markdown: the conditions, the summary, then a row for each task."""

import re
from collections.abc import Mapping, Sequence

from kernelwright.core.evidence import FactValue
from kernelwright.core.visible import visible_line
from kernelwright.report.judged import DeviceFacts, differences
from kernelwright.report.measures import RatioInterval, fact, millis, percent, times
from kernelwright.report.table import Table
from kernelwright.report.tables import COLLAPSED_FROM, NEAR_FLOOR, BenchRow, Summary, TaskSpread

SUMMARY_HEADER = (
    "what", "generated kernel", "torch.compile", "torch's calls", "unchanged", "failed",
    "geomean / eager", "median", "mean", "geomean / torch.compile",
    "fast_1", "fast_1.5", "fast_2", "slower than eager", "at or near the floor",
)  # fmt: skip
_MAIN = ("what", "generated kernel", "geomean / eager", "geomean / torch.compile")
"""Columns of a summary that a category has in a terminal."""
TASK_HEADER = (
    "task",
    "category",
    "ending",
    "eager",
    "delivered",
    "over eager",
    "over torch.compile",
    "floor",
    "compiler",
)
_SPARE = ("category", "eager", "delivered", "floor", "compiler")
"""Columns of a task that a narrow terminal does without."""
_ACTING = {"\\": "\\\\", "|": "\\|", "`": "\\`", "<": "&lt;", "](": "]\\("}
"""What acts in Markdown wherever it stands in a line -> how it is written so that it does not."""
FASTEST, DEVICE = "the fastest", "device"
FENCES = re.compile("`{3,}")
"""They would end a block of code."""
MIN_TASKS = 6
"""Fewer get no interval over tasks; as many pairs a comparison needs for a verdict."""


def bench_markdown(
    name: str,
    rows: Sequence[BenchRow],
    summaries: Sequence[Summary],
    *,
    date: str,
    command: str,
    environment: Mapping[str, FactValue],
    devices: DeviceFacts | None = None,
    picture: str | None = None,
    is_quick: bool = False,
) -> str:
    """Return the whole document.

    Args:
        date: when the bench was run, for reading.
        command: how to run it again.
        environment: processor, versions, threads.
        devices: of each device that judged, where several did.
        picture: file name of the picture beside the document.
        is_quick: the figures are the search's own.
    """
    parts = [
        f"# {plain(name)}",
        f"{date}. {facts_line(environment)}.",
        *devices_part(devices),
        code(command),
        bench_reading(is_quick=is_quick).replace("fast_p", "`fast_p`"),
        "## Summary",
        table(*summary_table(rows, summaries)[:2]),
    ]
    if picture is not None:
        parts.append(f"![Speedups by task]({picture})")
    for group, members in by_group(rows).items():
        parts += [f"## Tasks: {plain(group)}", table(*task_table(rows, members)[:2])]
        failed, stuck = failed_notes(members), compiler_notes(members)
        parts += [f"Failed:\n\n{bullets(failed)}"] if failed else []
        parts += [f"The compiler:\n\n{bullets(stuck)}"] if stuck else []
        missing = missing_notes(members)
        parts += [f"Baselines without a figure:\n\n{bullets(missing)}"] if missing else []
    return "\n\n".join(parts) + "\n"


def bench_reading(*, is_quick: bool) -> str:
    """Say how the figures of a bench are to be read."""
    how = " during the search" if is_quick else "; the winner was measured again in fresh processes"
    return (
        f"Speedups are ratios of medians measured alternately{how}. Only a generated kernel is a success. In "
        "geomeans an unchanged module counts at 1.00x, and one that torch.compile or another arrangement of "
        "torch's calls made faster at its own figure. Algebra collapses a task where rewrites of the graph "
        f"leave at most {percent(1 / COLLAPSED_FROM)} of the arithmetic of its products and convolutions. "
        "Geomeans have a 95 % bootstrap interval over tasks where there are at least "
        f"{MIN_TASKS}: of fewer, resampling says "
        "nothing. fast_p is the share of all tasks that are right and more than p times as fast as eager. At "
        f"or near the floor means at least {percent(NEAR_FLOOR)} of the speed that the roofline floor allows."
    )


def by_group(rows: Sequence[BenchRow]) -> dict[str, list[BenchRow]]:
    """Return the rows of each group, in order of first appearance."""
    return {name: [row for row in rows if row.group == name] for name in dict.fromkeys(r.group for r in rows)}


def summary_table(rows: Sequence[BenchRow], summaries: Sequence[Summary]) -> Table:
    """Return the sums; where there are further baselines, with a column for each and one for the fastest."""
    further = _further(rows)
    header: list[str] = [*SUMMARY_HEADER, *(f"geomean / {name}" for name in further)]
    cells = [
        [*summary_cells(s), *(_spread(s.best if name == FASTEST else s.over.get(name)) for name in further)]
        for s in summaries
    ]
    if any(s.n_collapsed for s in summaries):
        header += ["algebra collapses", "geomean / eager without these"]
        for line, s in zip(cells, summaries, strict=True):
            line += [str(s.n_collapsed), _spread(s.plain if s.n_collapsed else s.eager)]
    if any(s.n_apart for s in summaries):
        header.append("networks taken apart")
        for line, s in zip(cells, summaries, strict=True):
            line.append(f"{s.n_apart_faster} of {s.n_apart} with a kernel" if s.n_apart else "")
    return Table(header, cells)


def total_tables(rows: Sequence[BenchRow], summaries: Sequence[Summary]) -> list[Table]:
    """Return the sums as a terminal has room for them: all of each group, the main ones of each category."""
    n_groups = len(by_group(rows))
    groups = summary_table(rows, summaries[:n_groups]).turned()
    named = [dict(zip(SUMMARY_HEADER, summary_cells(s), strict=True)) for s in summaries[n_groups:]]
    return [groups, Table(_MAIN, [[cells[name] for name in _MAIN] for cells in named])] if named else [groups]


def task_table(rows: Sequence[BenchRow], members: Sequence[BenchRow]) -> Table:
    """Return a line for each of the members.

    Where there are further baselines, there is a column for each of those of all rows, and one for the
    fastest.
    """
    further = _further(rows)
    over = tuple(f"over {name}" for name in further)
    cells = [(*row_cells(row), *(_over(row, name) for name in further)) for row in members]
    figures = {*TASK_HEADER[3:8], *over}
    if len({row.device for row in rows} - {""}) < 2:
        return Table((*TASK_HEADER, *over), cells, numbers=figures, spare=_SPARE)
    placed = [(*line, row.device) for line, row in zip(cells, members, strict=True)]
    return Table((*TASK_HEADER, *over, DEVICE), placed, numbers=figures, spare=(*_SPARE, DEVICE))


def failed_notes(rows: Sequence[BenchRow]) -> list[str]:
    """Return a line for each task that failed."""
    return [f"{row.task}: {row.detail}" for row in rows if not row.is_success]


def missing_notes(rows: Sequence[BenchRow]) -> list[str]:
    """Return a line for each baseline of a task that could not be made or computes something else."""
    return [f"{row.task}: {name}: {why}" for row in rows for name, why in row.missing.items()]


def compiler_notes(rows: Sequence[BenchRow]) -> list[str]:
    """Return a line for each task on which something kept the compiler from its work."""
    return [f"{row.task}: {row.compiler}" for row in rows if row.compiler]


def _further(rows: Sequence[BenchRow]) -> list[str]:
    """Return further baselines of any row, then the fastest of each row, which has a column beside them."""
    names = sorted({name for row in rows for name in row.speedups})
    return [*names, FASTEST] if names else []


class Marked(str):
    """Text that is Markdown already; all other text is somebody's words."""

    __slots__ = ()


def plain(text: str) -> str:
    """Return somebody's words as one line that Markdown shows as it is: no tag, link, code, cell or line."""
    shown = visible_line(text)
    for acting, harmless in _ACTING.items():
        shown = shown.replace(acting, harmless)
    return shown


def code(command: str) -> str:
    """Return a block with a command."""
    return f"```\n{FENCES.sub('``', visible_line(command))}\n```"


def facts_line(environment: Mapping[str, FactValue]) -> str:
    """Return what is known of the machine."""
    return "; ".join(plain(f"{key} {fact(value)}") for key, value in environment.items() if value is not None)


def devices_part(devices: DeviceFacts | None) -> list[str]:
    """Return the table of the devices that judged, in a list; empty for one alone."""
    found = differences(devices or {})
    return [] if found is None else [table(*found[:2])]


def bullets(lines: Sequence[str]) -> str:
    """Return a list of somebody's lines."""
    return "\n".join(f"- {plain(line)}" for line in lines)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; cells are somebody's words unless they are ``Marked``."""
    lines = [header, [Marked("---")] * len(header), *rows]
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines)


def _cell(text: str) -> str:
    return text if isinstance(text, Marked) else plain(text)


def summary_cells(summary: Summary) -> tuple[str, ...]:
    """Return a summary's cells under SUMMARY_HEADER."""
    eager = summary.eager
    near = f"{summary.n_near_floor} of {summary.n_with_floor}" if summary.n_with_floor else "unknown"
    return (
        summary.name,
        f"{summary.n_faster} of {summary.n_tasks}",
        str(summary.n_compiled),
        str(summary.n_rearranged),
        str(summary.n_unchanged),
        str(summary.n_tasks - summary.n_success),
        _spread(eager),
        times(eager.median) if eager else "",
        times(eager.mean) if eager else "",
        _compiled(summary),
        *(percent(summary.fast_p[p]) for p in ("1", "1.5", "2")),
        str(summary.n_slower),
        near,
    )


def row_cells(row: BenchRow) -> tuple[str, ...]:
    """Return a row's cells under TASK_HEADER."""
    return (
        row.task,
        row.category,
        row.ending,
        "" if row.eager_ms is None else millis(row.eager_ms),
        "" if row.delivered_ms is None else millis(row.delivered_ms),
        _interval(row.speedup_eager),
        _interval(row.speedup_compile),
        "" if row.floor_fraction is None else percent(row.floor_fraction),
        _compiler(row),
    )


def _compiler(row: BenchRow) -> str:
    """Say in a word or two whether the compiler did its work; the reason stands below the table."""
    if not row.compiler:
        return "ok" if row.is_success else ""
    return "not captured" if row.compiler.startswith("not captured") else "gave up"


def _spread(value: TaskSpread | None) -> str:
    if value is None:
        return ""
    if value.n < MIN_TASKS:
        return times(value.geomean)
    return f"{times(value.geomean)} [{value.low:.2f}, {value.high:.2f}]"


def _compiled(summary: Summary) -> str:
    text = _spread(summary.compiled)
    n_measured = summary.compiled.n if summary.compiled else 0
    missing = summary.n_success - n_measured
    return f"{text} ({missing} not measured)".strip() if missing else text


def _over(row: BenchRow, name: str) -> str:
    if name != FASTEST:
        return _interval(row.speedups.get(name))
    found = row.over_best
    return "" if found is None else f"{_interval(found[1])} {found[0]}"


def _interval(value: RatioInterval | None) -> str:
    if value is None:
        return ""
    return times(value.ratio) if value.low == value.high else str(value)
