"""A comparison in one picture: best so far against evaluations, and the standings beneath."""

from kernelwright.report import svg
from kernelwright.report.comparison import Comparison, Standing
from kernelwright.report.measures import percent, times

WIDTH, LEFT, RIGHT, TOP, PLOT, ROW = 820.0, 54.0, 24.0, 44.0, 300.0, 20.0
AXIS = 44.0
COLUMNS = (("", 40.0, "start"), ("success", 330.0, "end"), ("fast_1", 400.0, "end"), ("fast_2", 470.0, "end"),
           ("geomean", 640.0, "end"), ("area", 806.0, "end"))  # fmt: skip
COLOURS = ("#2456c7", "#12855b", "#b07a1e", "#c0392f", "#7a3fb0", "#0f8ea0", "#8a94a6", "#4b3621")
"""One after the other; beyond these the lines are dashed and the colours begin anew. Ours."""


def comparison_picture(name: str, comparison: Comparison) -> str:
    """Return an SVG; a contestant without runs has a row and no line."""
    standings = comparison.standings
    heights = [height for standing in standings for height in standing.curve] or [1.0]
    y = svg.Scale(1.0, max(1.1, *heights) * 1.05, TOP + PLOT, TOP, log=True)
    x = svg.Scale(0.0, float(max(comparison.horizon, 1)), LEFT, WIDTH - RIGHT)
    top = TOP + PLOT + AXIS
    height = top + ROW * (len(standings) + 1) + 14
    what = f"geomean of the best so far over {len(comparison.tasks)} tasks (logarithmic)"
    return svg.picture(
        WIDTH,
        height,
        svg.label(8, 18, name, "strong"),
        svg.label(WIDTH - 8, 18, what, "axis", "end"),
        *_axes(x, y),
        *(_line(standing, i, x, y) for i, standing in enumerate(standings)),
        *_header(top + 12),
        *(_row(standing, i, top + ROW * (i + 1) + 12) for i, standing in enumerate(standings)),
        name="comparison",
        description=f"Best so far against evaluations of {len(standings)} recipes",
    )


def _axes(x: svg.Scale, y: svg.Scale) -> list[str]:
    parts = []
    for tick in y.ticks(8):
        parts.append(svg.line(LEFT, y(tick), WIDTH - RIGHT, y(tick), "grid"))
        parts.append(svg.label(LEFT - 6, y(tick) + 4, f"{tick:g}x", "axis", "end"))
    for tick in x.ticks(10):
        if tick == int(tick):
            parts.append(svg.label(x(tick), TOP + PLOT + 16, f"{tick:g}", "axis", "middle"))
    middle = (LEFT + WIDTH - RIGHT) / 2
    return [*parts, svg.label(middle, TOP + PLOT + 32, "evaluations used", "axis", "middle")]


def _line(standing: Standing, index: int, x: svg.Scale, y: svg.Scale) -> str:
    points: list[str] = []
    for i, height in enumerate(standing.curve):
        if i:
            points.append(f"{x(i):.1f},{y(standing.curve[i - 1]):.1f}")
        points.append(f"{x(i):.1f},{y(height):.1f}")
    if len(points) < 2:
        return ""
    final = svg.title(f"{standing.name}: {times(standing.curve[-1])} at the end")
    return svg.element("path", final, d="M" + " L".join(points), class_="line", **_stroke(index))


def _stroke(index: int) -> dict[str, object]:
    dash = "6 3" if index >= len(COLOURS) else None
    return {"stroke": COLOURS[index % len(COLOURS)], "stroke_dasharray": dash}


def _header(baseline: float) -> list[str]:
    labels = [svg.label(at, baseline, text, "axis", anchor) for text, at, anchor in COLUMNS]
    return [*labels, svg.line(8, baseline + 5, WIDTH - 8, baseline + 5, "rule")]


def _row(standing: Standing, index: int, baseline: float) -> str:
    key = svg.element("line", x1=12, y1=baseline - 4, x2=34, y2=baseline - 4, class_="line", **_stroke(index))
    cells = (
        standing.name[:44],
        _share(standing.success),
        _share(standing.fast_p["1"]),
        _share(standing.fast_p["2"]),
        str(standing.geomean or "not measured"),
        str(standing.area or "not measured"),
    )
    texts = [
        svg.label(at, baseline, cell, "", anchor)
        for cell, (_, at, anchor) in zip(cells, COLUMNS, strict=True)
    ]
    return svg.element("g", key, *texts)


def _share(value: float | None) -> str:
    return "not measured" if value is None else percent(value)
