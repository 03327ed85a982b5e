"""What the figures of a kernel mean, in words; thresholds are ours and say so."""

from kernelwright.core.evidence import FactValue
from kernelwright.targets.gpu.inspect.inspection import KernelOutcome, KernelReport

LOW_OCCUPANCY = 0.5
"""Below this, waiting for memory is hard to hide behind other warps."""
NARROW_BYTES = 8.0
"""Below this mean width, twice as many requests are made as need be."""
WIDEST_BYTES = 16
FULL_WAVE = 1.0


def notes(report: KernelReport) -> tuple[str, ...]:
    """Return one line for each thing worth knowing of a kernel, the gravest first; none where all is well."""
    if not report.outcome.can_run:
        return (report.detail,)
    found = [_spills(report.facts), _occupancy(report.facts), _width(report), _waves(report)]
    return tuple(note for note in (report.detail, *found) if note)


def outcome_words(outcome: KernelOutcome) -> str:
    """Return an outcome as a person says it."""
    return outcome.value.replace("_", " ")


def _spills(facts: dict[str, FactValue]) -> str:
    spills = facts.get("aot.spills")
    if not spills:
        return ""
    return f"{spills} registers live in memory: smaller tiles, more warps or shorter live ranges avoid it"


def _occupancy(facts: dict[str, FactValue]) -> str:
    share, limit = facts.get("aot.occupancy"), facts.get("aot.occupancy_limit")
    if not isinstance(share, float) or share >= LOW_OCCUPANCY:
        return ""
    ends = {
        "registers": f"{facts.get('aot.registers')} registers a thread",
        "shared": f"{facts.get('aot.shared_bytes')} bytes of shared memory a block",
        "warps": f"{facts.get('aot.block_threads')} threads a block",
        "blocks": f"blocks of only {facts.get('aot.block_threads')} threads",
    }
    return f"at most {share:.0%} of the warps are resident: {ends.get(str(limit), limit)} end it"


def _width(report: KernelReport) -> str:
    parts = []
    for what, name in (("loads", "aot.load_bytes"), ("stores", "aot.store_bytes")):
        width = report.facts.get(name)
        if isinstance(width, float) and width < NARROW_BYTES:
            parts.append(f"{what} of {width:.3g} bytes a thread")
    if not parts:
        return ""
    why = f"; not known to be aligned: {', '.join(report.unaligned)}" if report.unaligned else ""
    return f"{' and '.join(parts)} on average, {WIDEST_BYTES} is the widest{why}"


def _waves(report: KernelReport) -> str:
    full = report.facts.get("gpu.waves")
    if not isinstance(full, float) or full >= FULL_WAVE or report.grid is None:
        return ""
    programs = 1
    for size in report.grid:
        programs *= size
    units = report.facts.get("gpu.units")
    return f"the grid of {programs} fills {full:.0%} of the places for programs on {units} units"
