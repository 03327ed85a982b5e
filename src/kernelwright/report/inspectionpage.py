"""The results of building a candidate's kernels, as one HTML page with a picture of the instructions."""

from collections.abc import Sequence

from kernelwright.report import svg
from kernelwright.report.highlight import highlight
from kernelwright.report.inspections import (
    HEADER,
    LEGEND,
    MIXES,
    NUMBERS,
    OTHER,
    by_kernel,
    cells,
    facts_line,
    inspection_verdict,
    kernel_name,
    mix,
    note_lines,
)
from kernelwright.report.page import asset, templates
from kernelwright.targets.gpu.inspect.inspection import Inspection

WIDTH, GUTTER, ROW, TOP = 820.0, 250.0, 24.0, 34.0
COLOURS = ("#2456c7", "#0f8ea0", "#7a3fb0", "#12855b", "#b07a1e", "#c0392f", "#4b3621", "#8a94a6")
"""Colours of the groups in the order of MIXES, then that of the other instructions."""
NAME_CHARS = 30
LOG_LINES = 40


def render_inspection(name: str, source: str, found: Sequence[Inspection], *, date: str, command: str) -> str:
    """Return one self-contained page; escapes all text of the candidate and its compilers."""
    rows = [(built.inspection.architecture, cells(built.kernel)) for built in by_kernel(found)]
    logs = [
        (inspection.architecture, "\n".join(inspection.log.splitlines()[-LOG_LINES:]))
        for inspection in found
        if inspection.log and not inspection.can_run
    ]
    return (
        templates()
        .get_template("inspection.html.j2")
        .render(
            name=name,
            verdict=inspection_verdict(found),
            header=HEADER,
            numbers=NUMBERS,
            legend=LEGEND.replace("`", ""),
            rows=rows,
            picture=mix_picture(found),
            notes=note_lines(found),
            logs=logs,
            source=highlight(source),
            facts=facts_line(found),
            date=date,
            command=command,
            stylesheet=asset("report.css"),
        )
    )


def mix_picture(found: Sequence[Inspection]) -> str:
    """Draw a bar of shares for each kernel and architecture; empty if no machine code was read."""
    bars = [(built, counts) for built in by_kernel(found) if (counts := mix(built.kernel.facts))]
    if not bars:
        return ""
    parts = _legend()
    for i, (built, counts) in enumerate(bars):
        what = f"{kernel_name(built.kernel)[:NAME_CHARS]}, {built.inspection.architecture}"
        parts += _bar(what, counts, TOP + i * ROW)
    return svg.picture(
        WIDTH,
        TOP + ROW * len(bars) + 6,
        *parts,
        name="mix",
        description=f"Shares of instructions of {len(bars)} kernels by kind",
    )


def _legend() -> list[str]:
    parts, at = [], 8.0
    for group, colour in zip((*MIXES, OTHER), COLOURS, strict=True):
        parts.append(svg.element("rect", x=at, y=4.0, width=11.0, height=11.0, rx=2, fill=colour))
        parts.append(svg.label(at + 15, 14, group, "axis"))
        at += 27 + 6.2 * len(group)
    return parts


def _bar(what: str, counts: dict[str, int], top: float) -> list[str]:
    total = sum(counts.values())
    x = svg.Scale(0.0, float(total), GUTTER, WIDTH - 60)
    parts, before = [svg.label(GUTTER - 8, top + 13, what, "", "end")], 0
    for (group, count), colour in zip(counts.items(), COLOURS, strict=True):
        if count:
            hover = svg.title(f"{what}: {group}, {count} of {total} instructions")
            width = x(float(before + count)) - x(float(before))
            parts.append(
                svg.element("rect", hover, x=x(float(before)), y=top, width=width, height=18.0, fill=colour)
            )
        before += count
    parts.append(svg.label(WIDTH - 52, top + 13, str(total), "axis"))
    return parts
