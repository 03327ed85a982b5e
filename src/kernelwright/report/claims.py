"""Published kernels beside the referee's verdicts: a row a claim."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from kernelwright.core.evaluation import Evaluation, Status
from kernelwright.formats.claims import PublishedClaim
from kernelwright.report import markdown
from kernelwright.report.files import json_text
from kernelwright.report.measures import RatioInterval, speedup_over, times
from kernelwright.report.results import Results
from kernelwright.report.table import Table

_BEFORE_MEASURING = frozenset(
    {
        Status.PARSE_ERROR, Status.COMPILE_ERROR, Status.LOAD_ERROR, Status.RUNTIME_ERROR,
        Status.CRASHED, Status.TIMEOUT,
    }
)  # fmt: skip
"""They say what did not work here, and nothing of what was measured elsewhere."""
CLAIM_HEADER = ("kernel", "claimed", "verdict", "measured here", "what to make of it")


def was_judged(evaluation: Evaluation | None) -> bool:
    """True where a kernel ran here, and the referee compared what it computed or rejected it."""
    return evaluation is not None and evaluation.status not in _BEFORE_MEASURING


@dataclass(frozen=True)
class JudgedClaim:
    """One claim, and what came of it here."""

    claim: PublishedClaim
    evaluation: Evaluation | None = None
    """None: it was not judged here."""
    inspected: str = ""
    """What compilers for GPUs make of it, in a few words; empty: it needs no GPU."""
    reason: str = ""
    """Why it was not judged."""
    call: str = ""
    """How a kernel that is no Python was called, in words; empty: it has a ``ModelNew`` of its own."""

    @property
    def measured(self) -> RatioInterval | None:
        """Speedup here over what the claim names; None where it is not verified or not compared with that."""
        if self.evaluation is None or not self.evaluation.is_verified:
            return None
        return speedup_over(self.evaluation, self.claim.over)

    @property
    def is_judged(self) -> bool:
        """True where it ran, and the referee compared what it computed or rejected it."""
        return was_judged(self.evaluation)

    @property
    def is_refuted(self) -> bool:
        """True where correctness was claimed, and the referee measured otherwise or rejected the kernel."""
        return bool(
            self.claim.is_correct
            and self.is_judged
            and self.evaluation is not None
            and not self.evaluation.is_verified
        )

    @property
    def meaning(self) -> str:
        """Return what the verdict says of the claim."""
        called = f" (called as {self.call})" if self.call and self.evaluation is not None else ""
        if self.evaluation is None or not self.is_judged:
            why = self.reason if self.evaluation is None else self.evaluation.detail
            words = f"cannot be run here: {why}{called}"
            return "; ".join(filter(None, (self.inspected, words)))
        if self.is_refuted:
            return f"refuted: {self.evaluation.detail}{called}"
        if not self.evaluation.is_verified:
            return "wrong, as it says"
        if not self.claim.is_correct:
            return "claimed wrong; every check passed here"
        return self._of_speed()

    def _of_speed(self) -> str:
        claimed, measured = self.claim.speedup, self.measured
        if claimed is None:
            return "correct, as claimed"
        if measured is None:
            return f"correct; not compared with {self.claim.over} here"
        if measured.low <= claimed <= measured.high:
            return "holds here"
        machine = f"; claimed for {self.claim.hardware}" if self.claim.hardware else ""
        return f"correct; {'faster' if measured.low > claimed else 'slower'} here than claimed{machine}"


@dataclass(frozen=True, repr=False)
class ClaimsResult(Results):
    """A folder of claims, judged."""

    rows: tuple[JudgedClaim, ...]
    command: str
    environment: dict[str, Any]

    @property
    def is_success(self) -> bool:
        """True when no claim of correctness was refuted."""
        return not any(row.is_refuted for row in self.rows)

    def document(self) -> dict[str, Any]:
        """See Results."""
        rows = [
            {**asdict(row), "claim": row.claim, "evaluation": row.evaluation, "meaning": row.meaning}
            for row in self.rows
        ]
        return {"command": self.command, "environment": self.environment, "claims": rows}

    def tables(self) -> list[Table]:
        """See Results."""
        return [
            Table(CLAIM_HEADER, [_claim_cells(row) for row in self.rows], is_text=True, spare=("verdict",))
        ]

    def files(self) -> dict[str, str]:
        """See Results."""
        (table,) = self.tables()
        n_judged = sum(row.is_judged for row in self.rows)
        n_refuted = sum(row.is_refuted for row in self.rows)
        text = (
            f"# Published kernels, judged\n\n{n_judged} of {len(self.rows)} could be judged here; "
            f"{n_refuted} refuted. Speedups are of this machine. Reproduce with\n\n"
            f"{markdown.code(self.command)}\n\n"
            f"{markdown.table(table.header, table.rows)}\n"
        )
        return {"claims-judged.json": json_text(self.document()), "claims-judged.md": text}


def _claim_cells(row: JudgedClaim) -> Sequence[str]:
    claim = row.claim
    claimed = "correct" if claim.is_correct else "wrong"
    if claim.speedup is not None:
        claimed += f", {times(claim.speedup)} over {claim.over}"
    verdict = "not judged" if row.evaluation is None else row.evaluation.status.replace("_", " ")
    return claim.title, claimed, verdict, str(row.measured or ""), row.meaning
