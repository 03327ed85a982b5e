"""What became of the parameters that a candidate left open: cheap timings closed them before the referee."""

from collections.abc import Callable
from typing import TypeAlias

from kernelwright.core.candidate import Candidate
from kernelwright.core.frozen import Frozen
from kernelwright.core.plan import ParamValue, Plan
from kernelwright.core.task import Task


class ValueResponse(Frozen):
    """One value of an open parameter."""

    value: ParamValue
    low: float
    """Of the fastest point that has the value: its time over the default point's, 95 % interval."""
    high: float
    n_points: int
    """Points with the value that could be timed."""


class ParameterResponse(Frozen):
    """What one open parameter did."""

    name: str
    values: tuple[ValueResponse, ...]
    """Fastest first."""

    @property
    def line(self) -> str:
        """All of it in one line."""
        shown = (f"{v.value} [{v.low:.2f}, {v.high:.2f}]" for v in self.values)
        return f"{self.name}: {', '.join(shown)}"


class ClosedParameters(Frozen):
    """A candidate's open parameters, closed. Nothing is verified or judged by these figures."""

    written: str
    """Id of the candidate as it was written, open."""
    values: dict[str, ParamValue]
    """Of the point that was chosen."""
    low: float = 1.0
    """Its time over the default point's, 95 % interval; 1 for the default point itself."""
    high: float = 1.0
    n_points: int = 1
    """Points that were tried, the default included."""
    n_failed: int = 0
    """Points that did not build, run, or agree roughly with the reference."""
    failures: tuple[str, ...] = ()
    """Why they did not, the commonest reasons first."""
    n_possible: int = 1
    seconds: float = 0.0
    """What the candidate is charged: for building and timing all points."""
    responses: tuple[ParameterResponse, ...] = ()
    """Widest spread first."""
    plan: Plan | None = None
    """With the chosen schedules, where a plan left them open; None: a source left its parameters open."""
    problem: str = ""
    """Why nothing could be timed, so that the defaults stand; empty where points were timed."""

    @property
    def headline(self) -> str:
        """One line: points, seconds, the chosen values."""
        chosen = ", ".join(f"{name}={value}" for name, value in self.values.items())
        chosen = chosen or "what it has already"
        if self.problem:
            return f"the defaults stand ({chosen}): {self.problem}"
        failed = f", {self.n_failed} of them failed" if self.n_failed else ""
        failed += f" ({self.failures[0]})" if self.failures else ""
        is_default = self.low == self.high == 1.0
        gain = (
            "the defaults; nothing else was told apart from them as faster"
            if is_default
            else f"[{self.low:.2f}, {self.high:.2f}] of the defaults' time"
        )
        return (
            f"{self.n_points} of {self.n_possible} points in {self.seconds:.0f} s{failed}; "
            f"chosen: {chosen}: {gain}"
        )


Closer: TypeAlias = Callable[[Task, Candidate, float], ClosedParameters]
"""Closes a candidate's open parameters in about so many seconds; never raises for a bad candidate."""
