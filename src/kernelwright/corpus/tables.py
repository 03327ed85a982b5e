"""What an audit found, as a table in Markdown (docs/cheats.md is one)."""

from collections.abc import Sequence

from kernelwright.corpus.audit import LISTED, SpecimenResult
from kernelwright.corpus.families import FAMILIES
from kernelwright.corpus.specimen import Kind
from kernelwright.referee.version import REFEREE_VERSION

HEAD = """# Cheats and hostile programs

`kernelwright audit --out FOLDER` writes this page. With `--list` the page says how each specimen must end,
and no specimen is judged. Every line is a file in `src/kernelwright/corpus`.
"""
COLUMNS = ("family", "specimen", "what it does", "verdict", "found by", "why it cannot win")
NAIVE = "a naive harness"


def markdown(findings: Sequence[SpecimenResult]) -> str:
    """Return the page: one table of cheats, one of hostile programs, and what was not as expected."""
    parts = [HEAD, summary(findings) + "\n"]
    for kind, title in ((Kind.CHEAT, "Cheats"), (Kind.HOSTILE, "Hostile programs")):
        chosen = [finding for finding in findings if finding.specimen.kind is kind]
        if chosen:
            parts += [f"## {title}\n", _table(chosen)]
    return "\n".join(parts)


def summary(findings: Sequence[SpecimenResult]) -> str:
    """Return the counts in one sentence."""
    judged = [finding for finding in findings if finding.is_judged]
    good = sum(finding.is_as_expected for finding in judged)
    families = len({finding.specimen.family for finding in judged})
    rest = len(findings) - len(judged)
    waiting = f"; {rest} need a device or a stronger sandbox" if rest else ""
    if not judged:
        return f"{len(findings)} specimens, none judged."
    return (
        f"{len(judged)} specimens of {families} of the {len(FAMILIES)} families judged, "
        f"{good} ended as they must{waiting}. Referee version {REFEREE_VERSION}."
    )


def _table(findings: Sequence[SpecimenResult]) -> str:
    is_naive = any(finding.naive is not None for finding in findings)
    columns = (*COLUMNS, NAIVE) if is_naive else COLUMNS
    lines = ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    for finding in findings:
        specimen = finding.specimen
        family = f"{specimen.family} {FAMILIES[specimen.family]}"
        said = (finding.naive.words if finding.naive else "-",) if is_naive else ()
        cells = (
            family, f"`{specimen.name}`", specimen.title, *_ending(finding), specimen.mechanism, *said,
        )  # fmt: skip
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _ending(finding: SpecimenResult) -> tuple[str, str]:
    """Return verdict and check; of what was not judged, those that it must end with."""
    specimen = finding.specimen
    if finding.is_judged:
        mark = "" if finding.is_as_expected else " (**not as expected**)"
        pair = finding.outcome + mark, finding.check or ""
    else:
        waits = "" if finding.outcome == LISTED else f" ({finding.outcome})"
        pair = " or ".join(specimen.expect) + waits, " or ".join(specimen.check)
    return pair[0].replace("_", " "), pair[1].replace("_", " ")
