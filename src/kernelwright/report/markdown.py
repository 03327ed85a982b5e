"""A bench as Markdown: the conditions, the summary, then a row for each task."""

from collections.abc import Mapping, Sequence

from kernelwright.core.evidence import FactValue
from kernelwright.report.measures import RatioInterval, fact, millis, percent, times
from kernelwright.report.tables import NEAR_FLOOR, BenchRow, Summary, TaskSpread

SUMMARY_HEADER = (
    "what", "success", "faster", "geomean / eager", "median", "mean", "geomean / torch.compile",
    "fast_1", "fast_1.5", "fast_2", "slower than eager", "at or near the floor",
)  # fmt: skip
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
    picture: str | None = None,
    is_quick: bool = False,
) -> str:
    """Return the whole document.

    Args:
        date: when the bench was run, for reading.
        command: how to run it again.
        environment: processor, versions, threads.
        picture: file name of the picture beside the document.
        is_quick: the figures are the search's own.
    """
    how = " during the search" if is_quick else "; the winner was measured again in fresh processes"
    further = sorted({name for row in rows for name in row.speedups})
    over = tuple(f"geomean / {name}" for name in further)
    facts = "; ".join(f"{key} {fact(value)}" for key, value in environment.items() if value is not None)
    parts = [
        f"# {name}",
        f"{date}. {facts}.",
        f"```\n{command}\n```",
        f"Speedups are ratios of medians measured alternately{how}. An unchanged module counts as a success "
        "at 1.00x. Geomeans have a 95 % bootstrap interval over tasks where there are at least "
        f"{MIN_TASKS}: of fewer, resampling says nothing. `fast_p` is the share of all tasks that are right "
        "and more than p times as fast as eager. At or near the floor means at least "
        f"{percent(NEAR_FLOOR)} of the speed that the roofline floor allows.",
        "## Summary",
        table(
            (*SUMMARY_HEADER, *over),
            [(*summary_cells(s), *(_spread(s.over.get(name)) for name in further)) for s in summaries],
        ),
    ]
    if picture is not None:
        parts.append(f"![Speedups by task]({picture})")
    for group in dict.fromkeys(row.group for row in rows):
        members = [row for row in rows if row.group == group]
        cells = [
            (*row_cells(row), *(_interval(row.speedups.get(name)) for name in further)) for row in members
        ]
        header = (*TASK_HEADER, *(f"over {name}" for name in further))
        parts += [f"## Tasks: {group}", table(header, cells)]
        failed = [f"- {row.task}: {row.detail}" for row in members if not row.is_success]
        parts += ["Failed:\n\n" + "\n".join(failed)] if failed else []
        stuck = [f"- {row.task}: {row.compiler}" for row in members if row.compiler]
        parts += ["The compiler:\n\n" + "\n".join(stuck)] if stuck else []
    return "\n\n".join(parts) + "\n"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; pipes in cells are escaped."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines)


def summary_cells(summary: Summary) -> tuple[str, ...]:
    """Return a summary's cells under SUMMARY_HEADER."""
    eager = summary.eager
    near = f"{summary.n_near_floor} of {summary.n_with_floor}" if summary.n_with_floor else "unknown"
    return (
        summary.name,
        f"{summary.n_success} of {summary.n_tasks}",
        str(summary.n_faster),
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


def _interval(value: RatioInterval | None) -> str:
    if value is None:
        return ""
    return times(value.ratio) if value.low == value.high else str(value)
