"""What a space of programs holds, as tables and as a document."""

from dataclasses import asdict, dataclass
from textwrap import shorten
from typing import Any

from kernelwright.core.plan import ParamValue
from kernelwright.report.files import json_text
from kernelwright.report.results import Results
from kernelwright.report.table import Table

REASON = 90
"""Characters of a reason in a table."""


@dataclass(frozen=True)
class SpaceDecision:
    """One decision: what it is called, what it may be, and what it is by default."""

    name: str
    factor: str
    values: tuple[ParamValue, ...]
    default: ParamValue
    why: str
    illegal: dict[str, str]
    """Value, as text -> why it cannot be taken."""


@dataclass(frozen=True)
class SpacePoint:
    """One point that was drawn: what it decides other than the default, and what it lowers to."""

    decides: dict[str, ParamValue]
    moves: tuple[str, ...]
    """The plan that carries it out."""
    candidate: str | None
    """Id of the program; None: it is none."""
    regions: int
    calls: int
    illegal: str | None
    """Why it is no program."""


@dataclass(frozen=True, repr=False)
class SpaceResult(Results):
    """The space of one task's main workload."""

    task: str
    target: str
    sizes: dict[str, float]
    """Factor -> log10 of its number of points, counted at the default point."""
    decisions: tuple[SpaceDecision, ...]
    """Those at the default point; other values may open further ones."""
    points: tuple[SpacePoint, ...] = ()

    @property
    def log10(self) -> float:
        """Log10 of the number of points, counted at the default point."""
        return sum(self.sizes.values())

    @property
    def headline(self) -> str:
        """One line: the task, its decisions, its size."""
        n_programs = len({p.candidate for p in self.points if p.candidate is not None})
        drawn = f"; {n_programs} different programs in {len(self.points)} points drawn" if self.points else ""
        n, size = len(self.decisions), f"10^{self.log10:.1f}"
        return f"{self.task} for {self.target}: {n} decisions, {size} points from the default one{drawn}"

    def document(self) -> dict[str, Any]:
        """See Results."""
        return {
            "task": self.task,
            "target": self.target,
            "log10": round(self.log10, 4),
            "factors": [
                {
                    "factor": factor,
                    "decisions": sum(d.factor == factor for d in self.decisions),
                    "log10": round(size, 4),
                }
                for factor, size in self.sizes.items()
            ],
            "decisions": [asdict(decision) for decision in self.decisions],
            "illegal": [
                {"decision": d.name, "value": value, "why": why}
                for d in self.decisions
                for value, why in d.illegal.items()
            ],
            "sample": [asdict(point) for point in self.points],
        }

    def files(self) -> dict[str, str]:
        """See Results."""
        return {"space.json": json_text(self.document())}

    def tables(self) -> list[Table]:
        """See Results."""
        sizes = [
            (factor, str(sum(d.factor == factor for d in self.decisions)), f"10^{size:.1f}")
            for factor, size in self.sizes.items()
        ]
        rows = [
            (
                d.name,
                d.factor,
                str(d.default),
                _others(d),
                shorten(d.why, REASON, placeholder=" …"),
            )
            for d in self.decisions
        ]
        found = [
            Table(("factor", "decisions", "points"), sizes),
            Table(("decision", "factor", "default", "other values", "what is there"), rows, is_text=True),
        ]
        refused: dict[tuple[str, str], list[str]] = {}
        for d in self.decisions:
            for value, why in d.illegal.items():
                refused.setdefault((d.name, why), []).append(value)
        if refused:
            lines = [(f"{name}={', '.join(values)}", why) for (name, why), values in refused.items()]
            found.append(Table(("illegal", "why"), lines, is_text=True))
        if self.points:
            drawn = [_point_row(point) for point in self.points]
            found.append(Table(("point", "program"), drawn, is_text=True))
        return found


def _others(decision: SpaceDecision) -> str:
    legal = [v for v in decision.values if v != decision.default and str(v) not in decision.illegal]
    return ", ".join(map(str, legal)) or "none"


def _point_row(point: SpacePoint) -> tuple[str, str]:
    decides = ", ".join(f"{name}={value}" for name, value in point.decides.items()) or "default"
    if point.illegal is not None:
        return decides, f"illegal: {point.illegal}"
    return decides, f"{(point.candidate or '')[:12]}: {point.regions} kernels, {point.calls} calls of torch"
