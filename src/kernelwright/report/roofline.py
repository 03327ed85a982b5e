"""The roofline picture: what the machine allows, and where eager, the base and the winner stand."""

from collections.abc import Sequence
from typing import NamedTuple

from kernelwright.core.roofline import Work
from kernelwright.report import svg
from kernelwright.report.measures import amount, millis, percent

WIDTH, HEIGHT = 520.0, 300.0
CAPTION = 150.0
"""Pixels that the longest caption of a dot takes."""
LEFT, RIGHT, TOP, BOTTOM = 56.0, 14.0, 14.0, 44.0


class Ceilings(NamedTuple):
    """Measured peaks: memory in GB/s, arithmetic in GFLOP/s."""

    bandwidth_gbps: float
    fma_gflops: float


class RooflinePoint(NamedTuple):
    """One measured latency of the task, its label and CSS class."""

    label: str
    ms: float
    kind: str


CACHED = 1.1
"""A floor this much faster than memory allows was worked out with the caches' bandwidth."""


def floor_gbps(work: Work, floor_ms: float) -> float:
    """Return the bandwidth at which the task's bytes move in the floor's time, GB/s."""
    return work.min_bytes / floor_ms / 1e6


def roofline(ceilings: Ceilings, work: Work, floor_ms: float, dots: Sequence[RooflinePoint]) -> str:
    """Draw the log-log roofline with the task at its own intensity.

    All dots share the task's intensity (its flops over the bytes it must move), so height alone
    says who is faster. Work without arithmetic cannot be placed; callers pass ``flops`` > 0.
    """
    ridge = ceilings.fma_gflops / ceilings.bandwidth_gbps
    x = svg.Scale(min(work.intensity, ridge) / 6, max(work.intensity, ridge) * 6, LEFT, WIDTH - RIGHT, True)
    rates = [work.flops / (ms * 1e6) for ms in (floor_ms, *(dot.ms for dot in dots))]
    low = min(*rates, x.low * ceilings.bandwidth_gbps)
    y = svg.Scale(low / 1.5, max(ceilings.fma_gflops, *rates) * 2.2, HEIGHT - BOTTOM, TOP, True)
    roof = [
        (x(x.low), y(x.low * ceilings.bandwidth_gbps)),
        (x(ridge), y(ceilings.fma_gflops)),
        (x(x.high), y(ceilings.fma_gflops)),
    ]
    column = x(work.intensity)
    floor_y = y(rates[0])
    return svg.picture(
        WIDTH,
        HEIGHT,
        *_axes(x, y),
        svg.path(roof, "roof"),
        *_cache_roof(ceilings, work, floor_ms, x, y),
        *_ceiling_labels(ceilings, roof, column),
        svg.line(column, TOP, column, HEIGHT - BOTTOM, "reference"),
        _floor_mark(column, floor_y, floor_ms),
        *_dots(column, y, rates[1:], dots, floor_ms, floor_y),
        name="roofline",
        description="Roofline of this machine with the task's floor, eager, the base and the winner",
    )


def _axes(x: svg.Scale, y: svg.Scale) -> list[str]:
    parts = []
    for tick in y.ticks(5):
        parts.append(svg.line(LEFT, y(tick), WIDTH - RIGHT, y(tick), "grid"))
        parts.append(svg.label(LEFT - 6, y(tick) + 4, svg.short_number(tick), "axis", "end"))
    for tick in x.ticks(6):
        parts.append(svg.label(x(tick), HEIGHT - BOTTOM + 16, svg.short_number(tick), "axis", "middle"))
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(svg.label(middle, HEIGHT - 8, "operations per byte", "axis", "middle"))
    turn = f"rotate(-90 12 {(TOP + HEIGHT - BOTTOM) / 2:g})"
    name = svg.label(12, (TOP + HEIGHT - BOTTOM) / 2, "GFLOP/s", "axis", "middle")
    return [*parts, svg.element("g", name, transform=turn)]


def _cache_roof(ceilings: Ceilings, work: Work, floor_ms: float, x: svg.Scale, y: svg.Scale) -> list[str]:
    """Draw the caches' slope where the floor stands on it, from the left edge to the arithmetic roof."""
    gbps = floor_gbps(work, floor_ms)
    ridge = ceilings.fma_gflops / gbps
    if gbps <= CACHED * ceilings.bandwidth_gbps or ridge <= x.low:
        return []
    line = [(x(x.low), y(x.low * gbps)), (x(ridge), y(ceilings.fma_gflops))]
    return [svg.path(line, "roof cached")]


def _ceiling_labels(ceilings: Ceilings, roof: Sequence[tuple[float, float]], column: float) -> list[str]:
    """Name both ceilings; the slope's name keeps away from the task's column."""
    (start_x, start_y), (ridge_x, ridge_y), _ = roof
    memory, arithmetic = f"{ceilings.bandwidth_gbps:.3g} GB/s", f"{ceilings.fma_gflops:.3g} GFLOP/s"
    is_left = column < (start_x + ridge_x) / 2
    share, aside, anchor = (0.75, (10, 8), "start") if is_left else (0.3, (-8, -6), "end")
    x, y = start_x + share * (ridge_x - start_x), start_y + share * (ridge_y - start_y)
    return [
        svg.label(ridge_x + 6, ridge_y - 7, arithmetic, "axis"),
        svg.label(x + aside[0], y + aside[1], memory, "axis", anchor),
    ]


def _floor_mark(column: float, at: float, floor_ms: float) -> str:
    hover = svg.title(f"Floor: {millis(floor_ms)}")
    bar = svg.line(column - 9, at, column + 9, at, "floor-mark")
    return svg.element(
        "g", hover, bar, svg.label(column - 11, at - 5, "floor", "axis", "end"), class_="mark floor"
    )


def _dots(
    column: float,
    y: svg.Scale,
    rates: Sequence[float],
    dots: Sequence[RooflinePoint],
    floor_ms: float,
    floor_y: float,
) -> list[str]:
    """Place the dots, pushing labels down where they would touch the one above."""
    parts, last = [], floor_y - 14
    has_room = column < WIDTH - CAPTION
    offset, anchor = (13.0, "start") if has_room else (-13.0, "end")
    order = sorted(zip(rates, dots, strict=True), key=lambda pair: -pair[0])
    for rate, dot in order:
        at = y(rate)
        last = max(at + 4, last + 14)
        hover = svg.title(f"{dot.label}: {millis(dot.ms)}, {amount(rate * 1e9, 'FLOP/s')}")
        text = f"{dot.label} {percent(floor_ms / dot.ms)}"
        circle = svg.element("circle", cx=column, cy=at, r=5.5)
        caption = svg.label(column + offset, last, text, "axis strong", anchor)
        parts.append(svg.element("g", hover, circle, caption, class_=f"mark {dot.kind}"))
    return parts
