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
from kernelwright.report.page import render
from kernelwright.report.table import Table
from kernelwright.targets.gpu.inspect.inspection import Inspection

WIDTH, GUTTER, ROW, TOP = 820.0, 250.0, 24.0, 4.0
COLOURS = ("#2456c7", "#0f8ea0", "#7a3fb0", "#12855b", "#b07a1e", "#c0392f", "#4b3621", "#8a94a6")
"""Colours of the groups in the order of MIXES, then that of the other instructions."""
NAME_CHARS = 30
LOG_LINES = 40


def render_inspection(name: str, source: str, found: Sequence[Inspection], *, date: str, command: str) -> str:
    """Return one self-contained page; escapes all text of the candidate and its compilers."""
    logs = [
        (inspection.architecture, "\n".join(inspection.log.splitlines()[-LOG_LINES:]))
        for inspection in found
        if inspection.log and not inspection.can_run
    ]
    return render(
        "inspection.html.j2",
        name=name,
        verdict=inspection_verdict(found),
        kernels=_kernel_table(found),
        legend=LEGEND.replace("`", ""),
        picture=mix_picture(found),
        groups=list(zip((*MIXES, OTHER), COLOURS, strict=True)),
        notes=note_lines(found),
        logs=logs,
        source=highlight(source),
        facts=facts_line(found),
        date=date,
        command=command,
    )


def _kernel_table(found: Sequence[Inspection]) -> Table:
    """Return a line for each kernel and architecture; how it ended stands before the figures."""
    order = (0, len(HEADER) - 1, *range(1, len(HEADER) - 1))
    rows = []
    for built in by_kernel(found):
        line = cells(built.kernel)
        rows.append((built.inspection.architecture, *(line[i] for i in order)))
    return Table(("architecture", *(HEADER[i] for i in order)), rows, numbers=NUMBERS)


def mix_picture(found: Sequence[Inspection]) -> str:
    """Draw a bar of shares for each kernel and architecture; empty if no machine code was read."""
    bars = [(built, counts) for built in by_kernel(found) if (counts := mix(built.kernel.facts))]
    if not bars:
        return ""
    parts: list[str] = []
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
