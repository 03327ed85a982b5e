"""What tuning came to: the closed source, what was learned of the parameters, the referee's verdict."""

from dataclasses import asdict, dataclass, field
from typing import Any

from kernelwright.core.evaluation import Evaluation
from kernelwright.core.plan import ParamValue
from kernelwright.core.target import TargetName
from kernelwright.formats.kernel_tuner import (
    NO_PROGRAM,
    OPEN_NAME,
    PointTimes,
    TunedSpace,
    write_results,
    write_space,
)
from kernelwright.report.files import json_text
from kernelwright.report.results import Results
from kernelwright.report.table import Table

T4_NAME = "tuned.t4.json"
"""Of the file with every point in the format T4."""


@dataclass(frozen=True)
class TunedPoint:
    """One point that was tried, whatever came of it."""

    values: dict[str, ParamValue]
    """Parameters, or decisions of the space that are not taken by default."""
    ratio: float | None
    """Its time over the default's by the cheap timings; None: it was not timed."""
    low: float | None
    """Of the ratio, 95 %, with ``high``; None: one call alone was timed, and was too slow to go on."""
    high: float | None
    times_ms: tuple[float, ...]
    """Of a call, in turn with the default."""
    why: str | None
    """Why it was not built, or did not run; None: it did."""


@dataclass(frozen=True, repr=False)
class TuneResult(Results):
    """The best point of one tuning run."""

    task: str
    source: str
    """Closed; with the defaults where nothing was faster."""
    values: dict[str, ParamValue]
    """Of the best point: parameters, or decisions of the space that are not taken by default."""
    ratio: float
    """Its time over the default's, by the cheap timings: below 1 is faster. The referee has the verdict."""
    points: tuple[TunedPoint, ...]
    """All that were tried, in order; the first is the default."""
    parameters: dict[str, tuple[ParamValue, ...]]
    """What was open: name -> values, the default first."""
    target: TargetName
    seconds: float
    """For building and timing all of them: what they are charged."""
    is_exhausted: bool
    """Every point that could be drawn was tried."""
    surface: tuple[str, ...]
    """What was learned of each parameter, widest spread first."""
    open_source: str
    """The kernel as it was given; of a space of programs, the task."""
    illegal: tuple[dict[str, ParamValue], ...] = ()
    """Points that were drawn and are no program."""
    evaluation: Evaluation | None = field(default=None)
    """The referee's verdict on the source."""

    @property
    def n_points(self) -> int:
        """Points that were tried, the default included."""
        return len(self.points)

    @property
    def n_failed(self) -> int:
        """Points that did not build, run or agree roughly with the reference."""
        return sum(point.why is not None for point in self.points)

    @property
    def is_success(self) -> bool:
        """True when the referee has verified the source."""
        return self.evaluation is not None and self.evaluation.is_verified

    @property
    def headline(self) -> str:
        """One line: points, seconds, the best of them."""
        chosen = ", ".join(f"{name}={value}" for name, value in self.values.items()) or "the defaults"
        rate = 60 * self.n_points / max(self.seconds, 1e-9)
        failed = f", {self.n_failed} of them failed" if self.n_failed else ""
        return (
            f"{self.task}: {self.n_points} points in {self.seconds:.0f} s ({rate:.0f} a minute{failed}); "
            f"best: {chosen}, {1 / self.ratio:.2f} times the default's speed by cheap timings"
        )

    def document(self) -> dict[str, Any]:
        """See Results."""
        return {
            "task": self.task,
            "values": self.values,
            "ratio": self.ratio,
            "points": self.n_points,
            "failed": self.n_failed,
            "seconds": self.seconds,
            "is_exhausted": self.is_exhausted,
            "surface": list(self.surface),
            "parameters": {name: list(values) for name, values in self.parameters.items()},
            "tried": [asdict(point) for point in self.points],
            "illegal": list(self.illegal),
            "source": self.source,
            "evaluation": self.evaluation,
        }

    def files(self) -> dict[str, str]:
        """See Results."""
        space = self._space()
        return {
            "tuned.json": json_text(self.document()),
            "tuned.py": self.source,
            OPEN_NAME: self.open_source,
            "tuned.t1.json": json_text(write_space(space)),
            T4_NAME: json_text(write_results(space)),
        }

    def _space(self) -> TunedSpace:
        tried = (PointTimes(p.values, p.times_ms, p.why, p.ratio) for p in self.points)
        illegal = (PointTimes(values, (), NO_PROGRAM) for values in self.illegal)
        return TunedSpace(self.task, self.target.language, self.parameters, (*tried, *illegal))

    def tables(self) -> list[Table]:
        """See Results."""
        rows = [(name, str(value)) for name, value in self.values.items()]
        return [Table(("parameter", "value"), rows, is_text=True)]
