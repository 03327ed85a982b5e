"""What the figures of a kernel mean, in words; we chose the thresholds."""

from kernelwright.core.evidence import FactValue
from kernelwright.skills.diagnosis import LOW_OCCUPANCY, NARROW_BYTES
from kernelwright.targets.gpu.inspect.inspection import KernelOutcome, KernelReport

WIDEST_BYTES = 16
FULL_WAVE = 1.0


def notes(report: KernelReport) -> tuple[str, ...]:
    """Return one line for each weakness of a kernel, the gravest first."""
    if not report.outcome.can_run:
        return (report.detail,)
    found = [_spills(report.facts), _occupancy(report.facts), _width(report), _waves(report)]
    return tuple(note for note in (report.detail, *found) if note)


def outcome_words(outcome: KernelOutcome) -> str:
    """Return an outcome in words."""
    return outcome.value.replace("_", " ")


def _spills(facts: dict[str, FactValue]) -> str:
    spills = facts.get("aot.spills")
    if not spills:
        return ""
    return f"{spills} registers are spilled to memory; smaller tiles, more warps or shorter live ranges help"


def _occupancy(facts: dict[str, FactValue]) -> str:
    share, limit = facts.get("aot.occupancy"), facts.get("aot.occupancy_limit")
    if not isinstance(share, float) or share >= LOW_OCCUPANCY:
        return ""
    ends = {
        "registers": f"{facts.get('aot.registers')} registers per thread",
        "shared": f"{facts.get('aot.shared_bytes')} bytes of shared memory per block",
        "warps": f"{facts.get('aot.block_threads')} threads per block",
        "blocks": f"blocks of only {facts.get('aot.block_threads')} threads",
    }
    cause = ends.get(str(limit), limit)
    return f"at most {share:.0%} of the possible warps are resident, limited by {cause}"


def _width(report: KernelReport) -> str:
    parts = []
    for what, name in (("loads", "aot.load_bytes"), ("stores", "aot.store_bytes")):
        width = report.facts.get(name)
        if isinstance(width, float) and width < NARROW_BYTES:
            parts.append(f"{what} of {width:.3g} bytes per thread")
    if not parts:
        return ""
    why = f"; alignment not known: {', '.join(report.unaligned)}" if report.unaligned else ""
    return f"{' and '.join(parts)} on average, where {WIDEST_BYTES} are possible{why}"


def _waves(report: KernelReport) -> str:
    full = report.facts.get("gpu.waves")
    if not isinstance(full, float) or full >= FULL_WAVE or report.grid is None:
        return ""
    programs = 1
    for size in report.grid:
        programs *= size
    units = report.facts.get("gpu.units")
    return f"the grid of {programs} blocks is {full:.0%} of what the {units} units can run at once"
