"""The results of building a candidate's kernels, as table cells, as a verdict and as Markdown."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kernelwright.core.evidence import FactValue
from kernelwright.report.markdown import bullets, code, plain, table
from kernelwright.report.verdict import Verdict
from kernelwright.targets.gpu.inspect.inspection import (
    Inspection,
    InspectionStatus,
    KernelOutcome,
    KernelReport,
)
from kernelwright.targets.gpu.inspect.meaning import notes, outcome_words

HEADER = (
    "kernel", "launches", "grid", "warps", "registers", "spills", "shared", "occupancy", "loads", "stores",
    "matrix", "code", "outcome",
)  # fmt: skip
NUMBERS = frozenset(HEADER) - {"kernel", "grid", "occupancy", "outcome"}
"""Columns of numbers."""
SPARE = ("launches", "grid", "warps", "loads", "stores", "matrix", "code")
"""Columns that a narrow terminal does without."""
LEGEND = (
    "No kernel ran: the figures come from the compiler and from the limits of the architecture. `spills`: "
    "registers of a thread that are kept in memory. `occupancy`: share of the warps that an SM or CU can "
    "hold, with the resource that limits it. `loads`, `stores`: mean width of a thread's accesses to global "
    "memory. `matrix`: instructions of the tensor cores or matrix units. `code`: all instructions, each "
    "counted once, however often it runs."
)
MIXES: Mapping[str, tuple[str, ...]] = {
    "global memory": ("aot.global_accesses",),
    "shared memory": ("aot.shared_accesses", "aot.async_copies"),
    "matrix units": ("aot.matrix_instructions",),
    "multiply-add": ("aot.fma_instructions",),
    "special functions": ("aot.special_instructions",),
    "between threads": ("aot.shuffles", "aot.atomics", "aot.barriers"),
    "branches": ("aot.branches",),
}
"""Group of instructions -> the facts that count it; ``other`` holds the remaining ones."""
OTHER = "other"


class BuiltRow(NamedTuple):
    """A kernel on one architecture."""

    inspection: Inspection
    kernel: KernelReport


def kernel_name(kernel: KernelReport) -> str:
    """Return a kernel's name with its sizes."""
    sizes = ", ".join(f"{name}={value}" for name, value in kernel.constants.items() if value.isdigit())
    name = " ".join(kernel.kernel.split())
    return f"{name}({sizes})" if sizes else name


def headline(inspection: Inspection) -> str:
    """Return one line about a candidate on one GPU."""
    place = f"{inspection.architecture} ({inspection.device})"
    if inspection.status is not InspectionStatus.INSPECTED:
        return f"{place}: {inspection.status.value.replace('_', ' ')}: {inspection.detail}"
    chosen = [kernel for kernel in inspection.kernels if not kernel.is_trial]
    bad = [kernel for kernel in chosen if not kernel.outcome.can_run]
    if bad:
        return f"{place}: {len(bad)} of {len(chosen)} kernels cannot be built or launched"
    n_spill = sum(bool(kernel.facts.get("aot.spills")) for kernel in chosen)
    words = f", {n_spill} of them with spilled registers" if n_spill else ""
    n_unknown = sum(kernel.outcome is KernelOutcome.BUILT for kernel in chosen)
    fit = f"block size not known for {n_unknown}" if n_unknown else "all can be launched"
    plural = "s" if len(chosen) > 1 else ""
    return f"{place}: {len(chosen)} kernel{plural} built, {fit}{words}"


def inspection_verdict(found: Sequence[Inspection]) -> Verdict:
    """Return the verdict over all architectures, with a line for each."""
    good = all(inspection.can_run for inspection in found)
    where = ", ".join(dict.fromkeys(inspection.architecture for inspection in found))
    is_known = all(k.outcome is not KernelOutcome.BUILT for i in found for k in i.kernels)
    words = "Every kernel can be launched on" if is_known else "Every kernel is built for"
    words = words if good else "Not every kernel can be launched on"
    return Verdict("good" if good else "bad", f"{words} {where}", tuple(map(headline, found)))


def by_kernel(found: Sequence[Inspection]) -> list[BuiltRow]:
    """Return all kernels, with the builds of one kernel for all architectures next to each other."""
    grouped: dict[tuple[object, ...], list[BuiltRow]] = {}
    for inspection in found:
        for kernel in inspection.kernels:
            key = (kernel_name(kernel), kernel.grid, kernel.is_trial, tuple(kernel.arguments.items()))
            grouped.setdefault(key, []).append(BuiltRow(inspection, kernel))
    return [built for group in grouped.values() for built in group]


def cells(kernel: KernelReport) -> tuple[str, ...]:
    """Return a kernel's cells under HEADER; empty where nothing is known."""
    facts = kernel.facts

    def cell(name: str, unit: str = "") -> str:
        value = facts.get(name)
        if value is None:
            return ""
        return f"{value:.3g}{unit}" if isinstance(value, float) else f"{value}{unit}"

    share = facts.get("aot.occupancy")
    occupancy = f"{share:.0%} ({facts.get('aot.occupancy_limit')})" if isinstance(share, float) else ""
    return (
        kernel_name(kernel),
        "trial" if kernel.is_trial else str(kernel.launches or ""),
        " x ".join(map(str, kernel.grid or ())),
        "" if kernel.num_warps is None else str(kernel.num_warps),
        cell("aot.registers"),
        cell("aot.spills"),
        cell("aot.shared_bytes", " B"),
        occupancy,
        cell("aot.load_bytes", " B"),
        cell("aot.store_bytes", " B"),
        cell("aot.matrix_instructions"),
        cell("aot.instructions"),
        outcome_words(kernel.outcome),
    )


def mix(facts: Mapping[str, FactValue]) -> dict[str, int]:
    """Return the number of instructions by group, in the order of MIXES; empty if no code was read."""
    total = facts.get("aot.instructions")
    if not isinstance(total, int) or total <= 0:
        return {}
    found = {group: sum(_count(facts, name) for name in names) for group, names in MIXES.items()}
    return {**found, OTHER: max(total - sum(found.values()), 0)}


def _count(facts: Mapping[str, FactValue], name: str) -> int:
    value = facts.get(name)
    return value if isinstance(value, int) else 0


def note_lines(found: Sequence[Inspection]) -> list[str]:
    """Return the notes, a line each, with the architectures to which they apply."""
    places: dict[str, list[str]] = {}
    for inspection in found:
        own = [f"{kernel_name(k)}: {note}" for k in inspection.kernels for note in notes(k)]
        for note in dict.fromkeys((*inspection.notes, *own)):
            places.setdefault(note, []).append(inspection.architecture)
    several = len(found) > 1
    return [f"{note} ({', '.join(at)})" if several else note for note, at in places.items()]


def facts_line(found: Sequence[Inspection]) -> str:
    """Return target, versions and sandbox in one line."""
    targets = dict.fromkeys(str(inspection.target) for inspection in found)
    parts = [f"target {', '.join(targets)} ({found[0].form})"]
    for name, version in {pair: None for i in found for pair in i.versions.items()}:
        parts.append(f"{name} {version}")
    tiers = dict.fromkeys(i.sandbox for i in found if i.sandbox is not None)
    parts += [f"sandbox {tier}" for tier in tiers]
    return "; ".join(parts)


def inspections_markdown(name: str, found: Sequence[Inspection], *, date: str, command: str) -> str:
    """Return the whole document: the verdict, a row for each kernel and architecture, mixes, notes."""
    verdict = inspection_verdict(found)
    rows = by_kernel(found)
    parts = [
        f"# {plain(name)}, built ahead of time",
        f"{date}. {plain(facts_line(found))}.",
        code(command),
        f"**{plain(verdict.headline)}.**",
        bullets(verdict.lines),
    ]
    if rows:
        shown = [(built.inspection.architecture, *cells(built.kernel)) for built in rows]
        parts += ["## Kernels", LEGEND, table(("architecture", *HEADER), shown)]
    mixed = [(built, mix(built.kernel.facts)) for built in rows]
    counted = [
        (built.inspection.architecture, kernel_name(built.kernel), *map(str, counts.values()))
        for built, counts in mixed
        if counts
    ]
    if counted:
        parts += ["## Instructions", table(("architecture", "kernel", *MIXES, OTHER), counted)]
    lines = note_lines(found)
    if lines:
        parts += ["## Notes", bullets(lines)]
    return "\n\n".join(parts) + "\n"
