"""What an audit came to: its verdicts as a table, as audit.json and as the page of cheats."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernelwright.core.frozen import content_hash
from kernelwright.corpus.audit import SpecimenResult
from kernelwright.corpus.specimen import Specimen
from kernelwright.corpus.tables import markdown, summary
from kernelwright.report.files import json_text
from kernelwright.report.measures import duration
from kernelwright.report.results import Results
from kernelwright.report.table import Table

DETAIL_CHARS = 100
AUDIT = "audit.json"


@dataclass(frozen=True, repr=False)
class AuditResult(Results):
    """How specimens ended; in the order of kind, family and name."""

    findings: tuple[SpecimenResult, ...]
    settings: Mapping[str, object]
    """What a later audit must share to go on with this one."""
    n_specimens: int

    @property
    def is_success(self) -> bool:
        """True when every specimen that was judged ended as it must."""
        return all(finding.is_as_expected for finding in self.findings)

    @property
    def summary(self) -> str:
        """The counts in one sentence."""
        return summary(self.findings)

    def document(self) -> dict[str, Any]:
        """See Results."""
        return {
            "ok": self.is_success,
            "settings": self.settings,
            "left": self.n_specimens - len(self.findings),
            "findings": [_record(finding) for finding in self.findings],
        }

    def files(self) -> dict[str, str]:
        """See Results."""
        return {AUDIT: json_text(self.document()), "cheats.md": markdown(self.findings)}

    def tables(self) -> list[Table]:
        """See Results."""
        header = ("family", "specimen", "verdict", "found by", "expected")
        styles = [_style(finding) for finding in self.findings]
        return [Table(header, [_cells(finding) for finding in self.findings], styles, is_text=True)]

    def __repr__(self) -> str:
        return f"<AuditResult: {self.summary}>"


def _style(finding: SpecimenResult) -> str:
    if not finding.is_judged:
        return "dim"
    return "" if finding.is_as_expected else "bold red"


def _cells(finding: SpecimenResult) -> tuple[str, ...]:
    specimen = finding.specimen
    verdict = finding.outcome.replace("_", " ") + ("" if finding.is_as_expected else "  not as expected")
    return str(specimen.family), specimen.name, verdict, finding.check or "", _expected(finding)


def _expected(finding: SpecimenResult) -> str:
    specimen = finding.specimen
    by = f" by {' or '.join(specimen.check)}" if specimen.check else ""
    return " or ".join(specimen.expect) + by


def _record(finding: SpecimenResult) -> Mapping[str, object]:
    specimen = finding.specimen
    return {
        **finding.model_dump(mode="json", exclude={"specimen"}),
        "as_expected": finding.is_as_expected,
        "source": content_hash(specimen.source),
        **specimen.model_dump(mode="json", include={"name", "kind", "family", "title", "mechanism"}),
        "expected": {"outcome": list(specimen.expect), "check": list(specimen.check)},
    }


def known_findings(
    document: Mapping[str, Any], specimens: Sequence[Specimen], *, is_cpu: bool
) -> list[SpecimenResult]:
    """Return what an earlier audit has judged of these specimens as they are now.

    Raises:
        ValueError, KeyError, TypeError: it is no audit's document.
    """
    earlier = {record["name"]: record for record in document["findings"]}
    found = []
    for specimen in specimens:
        record = earlier.get(specimen.name, {})
        if record.get("source") == content_hash(specimen.source):
            own = specimen if is_cpu else specimen.on_device()
            kept = {key: record[key] for key in SpecimenResult.model_fields if key != "specimen"}
            found.append(SpecimenResult.model_validate({**kept, "specimen": own}, strict=False))
    return [finding for finding in found if finding.is_judged]


def describe(finding: SpecimenResult) -> str:
    """Return one finding in one line."""
    specimen = finding.specimen
    if not finding.is_judged:
        return f"{specimen.name}: {finding.outcome}" + (f": {finding.detail}" if finding.detail else "")
    how = finding.outcome.replace("_", " ") + (f" by {finding.check}" if finding.check else "")
    if finding.speedup is not None:
        how += f", {finding.speedup:.2f}x eager"
    if finding.control:
        how += f"; an honest kernel after it: {finding.control}"
    if finding.left:
        how += f"; it left {', '.join(finding.left)}"
    mark = "" if finding.is_as_expected else "NOT AS EXPECTED: "
    expected = "" if finding.is_as_expected else f" (must be {_expected(finding)})"
    detail = f": {finding.detail[:DETAIL_CHARS]}" if finding.detail else ""
    if finding.naive is not None:
        detail += f"; naively: {finding.naive.words}"
    return f"{mark}{specimen.name}: {how}{expected}{detail} ({duration(finding.seconds)})"
