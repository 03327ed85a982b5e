"""Somebody's KernelBench run, judged: a row a kernel, and ``fast_p`` by their harness and by the referee."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from kernelwright.core.evaluation import Evaluation
from kernelwright.formats.kernelbench import BenchClaim, GenerationId, fast_p
from kernelwright.report import markdown
from kernelwright.report.claims import was_judged
from kernelwright.report.files import json_text
from kernelwright.report.measures import speedup_over, times
from kernelwright.report.results import Results
from kernelwright.report.table import Table

THRESHOLDS = (0.0, 0.5, 0.8, 1.0, 1.5, 2.0)
"""Values of p that KernelBench reports."""
HEADER = ("problem", "sample", "claimed", "verdict", "over eager", "where they differ")
FAST_HEADER = ("fast_p", "theirs", "ours")


@dataclass(frozen=True)
class JudgedGeneration:
    """One kernel of a run: what was claimed, and what the referee says."""

    key: GenerationId
    task: str
    sizes: dict[str, Any]
    """Globals that were reduced; empty: the problem as it is."""
    evaluation: Evaluation | None
    """None: it could not be judged here."""
    reason: str = ""
    """Why it could not be judged."""
    claim: BenchClaim | None = None
    claimed_speedup: float | None = None
    """Their reference's time over the kernel's; None where one of them is not known."""
    is_known: bool = True
    """False: the levels have no such problem."""

    @property
    def ratio(self) -> float | None:
        """Our speedup over eager; None where it is not verified."""
        if self.evaluation is None or not self.evaluation.is_verified:
            return None
        return self.evaluation.geomean_speedup()

    @property
    def is_judged(self) -> bool:
        """True where it ran here: what does not, as one for another device, says nothing of its claim."""
        return was_judged(self.evaluation)

    @property
    def is_refuted(self) -> bool:
        """True where correctness was claimed, and the referee measured otherwise or rejected the kernel."""
        if self.claim is None or self.evaluation is None:
            return False
        return self.claim.correctness and self.is_judged and not self.evaluation.is_verified

    @property
    def difference(self) -> str:
        """Where claim and verdict differ, and why; empty where they agree or nothing was claimed."""
        if self.evaluation is None:
            return self.reason
        if not self.is_judged:
            return f"not judged here: {self.evaluation.detail}"
        if self.claim is None:
            return ""
        if self.is_refuted:
            found = self.evaluation.check or self.evaluation.status
            return f"claimed correct; {found}: {self.evaluation.detail}"
        if not self.claim.correctness and self.evaluation.is_verified:
            return "claimed wrong; every check passed here"
        speedup = speedup_over(self.evaluation, "eager")
        if (
            self.claimed_speedup is None
            or speedup is None
            or speedup.low <= self.claimed_speedup <= speedup.high
        ):
            return ""
        return f"claimed {times(self.claimed_speedup)}, another machine and another way to time"


@dataclass(frozen=True, repr=False)
class SubmissionResult(Results):
    """A run, judged."""

    rows: tuple[JudgedGeneration, ...]
    n_problems: int
    """Of the levels that the run is about; those without a kernel count as not fast. Where a part of the run
    was judged, the problems of that part."""
    command: str
    environment: dict[str, Any]

    @property
    def is_success(self) -> bool:
        """True when no claim of correctness was refuted."""
        return not any(row.is_refuted for row in self.rows)

    @property
    def n_not_judged(self) -> int:
        """Kernels that could not be judged here."""
        return sum(not row.is_judged for row in self.rows)

    @property
    def n_problems_here(self) -> int:
        """Problems without those of which no kernel could be judged here: our shares are of these."""
        judged = {row.key[:2] for row in self.rows if row.is_judged}
        return self.n_problems - len({row.key[:2] for row in self.rows if row.is_known} - judged)

    def fast_p(self) -> list[tuple[float, float | None, float]]:
        """Return p, theirs and ours; theirs is None where results or reference times are missing."""
        ours = {row.key: row.ratio for row in self.rows if row.is_judged}
        claims = {row.key: self._claimed(row) for row in self.rows if row.claim is not None}
        known = bool(claims) and not any(
            row.claim.correctness and row.claimed_speedup is None
            for row in self.rows
            if row.claim is not None
        )
        return [
            (p, fast_p(claims, self.n_problems, p) if known else None, fast_p(ours, self.n_problems_here, p))
            for p in THRESHOLDS
        ]

    @staticmethod
    def _claimed(row: JudgedGeneration) -> float | None:
        return row.claimed_speedup if row.claim is not None and row.claim.correctness else None

    def document(self) -> dict[str, Any]:
        """See Results."""
        return {
            "command": self.command,
            "environment": self.environment,
            "problems": self.n_problems,
            "problems_here": self.n_problems_here,
            "not_judged": self.n_not_judged,
            "fast_p": [{"p": p, "theirs": theirs, "ours": ours} for p, theirs, ours in self.fast_p()],
            "kernels": [
                {**asdict(row), "key": row.key._asdict(), "evaluation": row.evaluation, "claim": row.claim,
                 "difference": row.difference}
                for row in self.rows
            ],
        }  # fmt: skip

    def tables(self) -> list[Table]:
        """See Results."""
        return [
            Table(HEADER, [_cells(row) for row in self.rows], is_text=True),
            Table(
                FAST_HEADER, [(f"{p:g}", _share(theirs), _share(ours)) for p, theirs, ours in self.fast_p()]
            ),
        ]

    def files(self) -> dict[str, str]:
        """See Results."""
        kernels, fast = self.tables()
        text = (
            f"# A KernelBench run, judged\n\n{markdown.table(fast.header, fast.rows)}\n\n"
            "The share of problems whose kernel is right and more than p times as fast as eager. Theirs, of "
            f"{self.n_problems} problems, are claims from another machine. Ours are of "
            f"{self.n_problems_here}; a problem of which no kernel could be judged here counts neither way. "
            f"Not judged here: {self.n_not_judged} of {len(self.rows)} kernels. Reproduce with"
            f"\n\n{markdown.code(self.command)}\n\n{markdown.table(kernels.header, kernels.rows)}\n"
        )
        return {"submission.json": json_text(self.document()), "submission.md": text}


def _share(value: float | None) -> str:
    return "not known" if value is None else f"{value:.3f}"


def _cells(row: JudgedGeneration) -> Sequence[str]:
    claim = row.claim
    claimed = "" if claim is None else "correct" if claim.correctness else "wrong"
    if row.claimed_speedup is not None:
        claimed += f", {times(row.claimed_speedup)}"
    verdict = "not judged" if row.evaluation is None else row.evaluation.status.replace("_", " ")
    speedup = speedup_over(row.evaluation, "eager") if row.evaluation is not None else None
    return (
        f"level {row.key.level}, {row.task}",
        str(row.key.sample),
        claimed,
        verdict,
        "" if speedup is None else str(speedup),
        row.difference,
    )
