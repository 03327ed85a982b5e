"""The speedup curve and the latency bars of one run."""

from collections.abc import Sequence
from typing import NamedTuple

from kernelwright.report import svg
from kernelwright.report.measures import millis
from kernelwright.report.story import StoryStep

WIDTH = 520.0
LEFT, RIGHT, TOP, BOTTOM = 44.0, 14.0, 14.0, 40.0


class Bar(NamedTuple):
    """One latency: whose, how long, its CSS class, and a word beside the figure."""

    label: str
    ms: float
    kind: str
    note: str = ""


def speedup_curve(
    steps: Sequence[StoryStep],
    compile_ratio: float | None,
    finals: Sequence[StoryStep] = (),
    height: float = 280.0,
) -> str:
    """Draw each evaluation's speedup over eager and the best so far.

    ``compile_ratio`` is torch.compile's own speedup over eager, drawn as a line to beat. Candidates
    that were not verified have no speedup; they stand as crosses in a strip under the plot. Final
    measurements follow the search's evaluations. The axis holds every interval whole.
    """
    shown = [*steps, *finals]
    ends = [end for step in shown if step.speedup is not None for end in step.speedup if end > 0]
    known = [1.0, *ends, *([compile_ratio] if compile_ratio else [])]
    use_log = max(known) / min(known) > 8
    low, high = (min(known) * 0.8, max(known) * 1.25) if use_log else (0.0, max(known) * 1.12)
    strip = height - BOTTOM - 10
    y = svg.Scale(low, high, strip - 16, TOP, log=use_log)
    x = svg.Scale(0.5, len(shown) + 0.5, LEFT, WIDTH - RIGHT)
    marks = [_point(step, _named(step, i), x(i), y, strip) for i, step in enumerate(shown, 1)]
    references = [_reference(1.0, "eager", y)]
    if compile_ratio and abs(compile_ratio - 1.0) > 0.01 * max(known):
        references.append(_reference(compile_ratio, "torch.compile", y))
    return svg.picture(
        WIDTH,
        height,
        *_y_axis(y),
        *_x_axis(x, len(steps), len(finals), height),
        *references,
        svg.path(_best_line(steps, x, y), "best-line"),
        *marks,
        name="curve",
        description="Speedup over eager of every evaluated candidate, and the best so far",
    )


def _y_axis(y: svg.Scale) -> list[str]:
    parts = []
    for tick in y.ticks(5):
        parts.append(svg.line(LEFT, y(tick), WIDTH - RIGHT, y(tick), "grid"))
        parts.append(svg.label(LEFT - 6, y(tick) + 4, f"{tick:g}x", "axis", "end"))
    return parts


def _x_axis(x: svg.Scale, n: int, n_finals: int, height: float) -> list[str]:
    stride = max(1, -(-n // 12))
    numbers = [svg.label(x(i), height - 22, str(i), "axis", "middle") for i in range(1, n + 1, stride)]
    numbers += [svg.label(x(n + (n_finals + 1) / 2), height - 22, "final", "axis strong", "middle")] * (
        n_finals > 0
    )
    middle = (LEFT + WIDTH - RIGHT) / 2
    return [*numbers, svg.label(middle, height - 6, "evaluation", "axis", "middle")]


def _reference(ratio: float, name: str, y: svg.Scale) -> str:
    text = svg.label(WIDTH - RIGHT, y(ratio) - 4, name, "axis", "end")
    return svg.line(LEFT, y(ratio), WIDTH - RIGHT, y(ratio), "reference") + text


def _best_line(steps: Sequence[StoryStep], x: svg.Scale, y: svg.Scale) -> list[tuple[float, float]]:
    points: list[tuple[float, float]] = []
    best = 0.0
    for i, step in enumerate(steps, 1):
        ratio = step.speedup.ratio if step.speedup is not None else 0.0
        if points:
            points.append((x(i), y(best)))
        if ratio > best:
            best = ratio
            points.append((x(i), y(best)))
    if points:
        points.append((x(len(steps) + 0.5), y(best)))
    return points


def _named(step: StoryStep, number: int) -> str:
    where = "Final" if step.mode == "final" else f"Evaluation {number}"
    return f"{where}, {step.title}"


def _point(step: StoryStep, name: str, at: float, y: svg.Scale, strip: float) -> str:
    if step.speedup is None:
        hover = svg.title(f"{name}: {step.outcome}. {step.explanation}")
        cross = f"M{at - 4:.1f},{strip - 4:.1f} l8,8 m0,-8 l-8,8"
        return svg.element("g", hover, svg.element("path", d=cross, class_="cross"), class_="mark failed")
    ratio, low, high = step.speedup
    hover = svg.title(f"{name}: {step.speedup} over eager")
    whisker = svg.line(at, y(low), at, y(high), "whisker")
    kind = "mark improved" if step.improved_to is not None else "mark verified"
    if step.mode == "final":
        kind = "mark final"
    return svg.element("g", hover, whisker, svg.element("circle", cx=at, cy=y(ratio), r=4.5), class_=kind)


def latency_bars(bars: Sequence[Bar]) -> str:
    """Draw latencies as horizontal bars on one scale from zero, labelled with the figure."""
    row, gutter = 30.0, 124.0
    x = svg.Scale(0.0, max(bar.ms for bar in bars), 0.0, WIDTH - gutter - 180.0)
    parts = []
    for i, bar in enumerate(bars):
        top = TOP + i * row
        width = max(x(bar.ms), 1.5)
        parts.append(svg.label(gutter - 8, top + 15, bar.label, "axis strong", "end"))
        hover = svg.title(f"{bar.label}: {millis(bar.ms)}")
        parts.append(
            svg.element(
                "rect", hover, x=gutter, y=top, width=width, height=21.0, rx=3, class_=f"bar {bar.kind}"
            )
        )
        note = millis(bar.ms) + (f"  ({bar.note})" if bar.note else "")
        parts.append(svg.label(gutter + width + 7, top + 15, note, "axis"))
    return svg.picture(
        WIDTH,
        TOP + row * len(bars) + 4,
        *parts,
        name="bars",
        description="Latency of eager, torch.compile and the winner, beside the roofline floor",
    )
