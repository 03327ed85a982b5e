"""A bench in one picture: every task's speedup over eager and over torch.compile."""

from collections.abc import Sequence

from kernelwright.report import svg
from kernelwright.report.measures import RatioInterval, times
from kernelwright.report.tables import BenchRow

WIDTH, GUTTER, FIGURES, ROW, TOP = 820.0, 210.0, 150.0, 20.0, 52.0
"""Pixels: the whole, names of tasks on the left, figures on the right, a task, the head."""


def bench_picture(name: str, rows: Sequence[BenchRow]) -> str:
    """Return an SVG, fastest task first; failed tasks stand last without a bar. The axis holds every
    interval whole, and figures stand in columns of their own."""
    ordered = sorted(rows, key=_ratio, reverse=True)
    ends = [end for row in rows for interval in _known(row) for end in interval if end > 0]
    x = svg.Scale(min(0.5, *ends, 0.5) * 0.9, max(2.0, *ends, 2.0) * 1.1, GUTTER, WIDTH - FIGURES, log=True)
    height = TOP + ROW * len(rows) + 30
    return svg.picture(
        WIDTH,
        height,
        svg.label(8, 18, name, "strong"),
        *_head(),
        *_axis(x, height),
        *(_bar(row, x, TOP + i * ROW) for i, row in enumerate(ordered)),
        name="bench",
        description=f"Speedups of {len(rows)} tasks",
    )


def _known(row: BenchRow) -> list[RatioInterval]:
    return [interval for interval in (row.speedup_eager, row.speedup_compile) if interval is not None]


def _ratio(row: BenchRow) -> float:
    return row.speedup_eager.ratio if row.speedup_eager is not None else 0.0


def _columns() -> tuple[float, float]:
    """Return the right ends of the two columns of figures."""
    return WIDTH - FIGURES / 2 + 4, WIDTH - 8


def _head() -> list[str]:
    eager, compiled = _columns()
    return [
        svg.label(GUTTER, 34, "bar: over eager, dot: over torch.compile, lines: 95 % intervals", "axis"),
        svg.label(eager, 34, "eager", "axis", "end"),
        svg.label(compiled, 34, "compile", "axis", "end"),
    ]


def _axis(x: svg.Scale, height: float) -> list[str]:
    parts = []
    for tick in x.ticks(8):
        parts.append(svg.line(x(tick), TOP - 8, x(tick), height - 26, "grid"))
        parts.append(svg.label(x(tick), height - 10, f"{tick:g}x", "axis", "middle"))
    return [*parts, svg.line(x(1.0), TOP - 8, x(1.0), height - 26, "one")]


def _bar(row: BenchRow, x: svg.Scale, top: float) -> str:
    parts = [svg.label(GUTTER - 8, top + 13, _short(row.task), "", "end")]
    if row.speedup_eager is None:
        parts.append(svg.label(x(1.0) + 6, top + 13, f"failed: {row.detail[:56]}", "failed"))
        return svg.element("g", *parts)
    eager, compiled = _columns()
    ratio = row.speedup_eager.ratio
    start, end = sorted((x(1.0), x(ratio)))
    kind = "faster" if row.speedup_eager.is_faster else "unchanged"
    kind = "slower" if row.speedup_eager.is_slower else kind
    hover = svg.title(f"{row.task}: {row.speedup_eager} over eager")
    width = max(end - start, 2.0)
    parts.append(svg.element("rect", hover, x=start, y=top + 2, width=width, height=10.0, rx=2, class_=kind))
    parts.append(_whisker(row.speedup_eager, x, top + 7, "strip"))
    parts.append(svg.label(eager, top + 13, times(ratio), "axis", "end"))
    if row.speedup_compile is not None:
        dot = svg.title(f"{row.task}: {row.speedup_compile} over torch.compile")
        at = x(row.speedup_compile.ratio)
        parts.append(_whisker(row.speedup_compile, x, top + 15, "over-compile whisker"))
        parts.append(svg.element("circle", dot, cx=at, cy=top + 15, r=3.5, class_="over-compile"))
        parts.append(svg.label(compiled, top + 13, times(row.speedup_compile.ratio), "axis", "end"))
    return svg.element("g", *parts)


def _short(task: str) -> str:
    return task if len(task) <= 32 else task[:31] + "…"


def _whisker(interval: RatioInterval, x: svg.Scale, y: float, kind: str) -> str:
    """Draw an interval; nothing where it is a point."""
    if interval.low == interval.high:
        return ""
    return svg.line(x(interval.low), y, x(interval.high), y, kind)
