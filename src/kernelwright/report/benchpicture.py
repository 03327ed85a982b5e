"""A bench in one picture: every task's speedup over eager and over torch.compile."""

from collections.abc import Sequence

from kernelwright.report import svg
from kernelwright.report.measures import times
from kernelwright.report.tables import BenchRow, Ending

WIDTH, GUTTER, ROW, TOP = 820.0, 250.0, 18.0, 44.0
STYLE = """
svg { background: #fff; font-family: system-ui, sans-serif; }
text { font-size: 11px; fill: #1b2130; } .axis { fill: #5c6678; }
.grid { stroke: #e1e5ec; } .one { stroke: #5c6678; stroke-width: 1.4; }
.faster { fill: #12855b; } .unchanged { fill: #8a94a6; } .slower, .failed { fill: #c0392f; }
.compile { fill: #b07a1e; stroke: #fff; stroke-width: 1; }
"""


def bench_picture(name: str, rows: Sequence[BenchRow]) -> str:
    """Return a standalone SVG, fastest task first; failed tasks stand last without a bar."""
    ordered = sorted(rows, key=_ratio, reverse=True)
    known = [value for row in rows for value in _known(row)] or [1.0]
    x = svg.Scale(min(0.5, *known) * 0.9, max(2.0, *known) * 1.3, GUTTER, WIDTH - 54, log=True)
    height = TOP + ROW * len(rows) + 30
    bars = [_bar(row, x, TOP + i * ROW) for i, row in enumerate(ordered)]
    legend = "bar: over eager, dot: over torch.compile (logarithmic)"
    return svg.picture(
        WIDTH,
        height,
        svg.element("style", STYLE),
        svg.label(8, 18, name, "strong"),
        svg.label(WIDTH - 8, 18, legend, "axis", "end"),
        *_axis(x, height),
        *bars,
        name="bench",
        description=f"Speedups of {len(rows)} tasks",
    )


def _known(row: BenchRow) -> list[float]:
    return [interval.ratio for interval in (row.speedup_eager, row.speedup_compile) if interval is not None]


def _ratio(row: BenchRow) -> float:
    return row.speedup_eager.ratio if row.speedup_eager is not None else 0.0


def _axis(x: svg.Scale, height: float) -> list[str]:
    parts = []
    for tick in x.ticks(8):
        parts.append(svg.line(x(tick), TOP - 8, x(tick), height - 26, "grid"))
        parts.append(svg.label(x(tick), height - 10, f"{tick:g}x", "axis", "middle"))
    return [*parts, svg.line(x(1.0), TOP - 8, x(1.0), height - 26, "one")]


def _bar(row: BenchRow, x: svg.Scale, top: float) -> str:
    parts = [svg.label(GUTTER - 8, top + 12, row.task[:38], "", "end")]
    if row.speedup_eager is None:
        parts.append(svg.label(x(1.0) + 6, top + 12, f"failed: {row.detail[:70]}", "failed"))
        return svg.element("g", *parts)
    ratio = row.speedup_eager.ratio
    start, end = sorted((x(1.0), x(ratio)))
    kind = "unchanged" if row.ending is Ending.UNCHANGED else "faster"
    kind = "slower" if row.speedup_eager.is_slower else kind
    hover = svg.title(f"{row.task}: {row.speedup_eager} over eager")
    width = max(end - start, 2.0)
    parts.append(svg.element("rect", hover, x=start, y=top + 2, width=width, height=12.0, rx=2, class_=kind))
    parts.append(svg.label(end + 8, top + 12, times(ratio), "axis"))
    if row.speedup_compile is not None:
        dot = svg.title(f"{row.task}: {row.speedup_compile} over torch.compile")
        at = x(row.speedup_compile.ratio)
        parts.append(svg.element("circle", dot, cx=at, cy=top + 8, r=4.0, class_="compile"))
    return svg.element("g", *parts)
