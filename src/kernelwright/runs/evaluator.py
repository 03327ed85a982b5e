"""The protocol by which a run has candidates judged."""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Protocol, Self, runtime_checkable

from kernelwright.core.candidate import Candidate
from kernelwright.core.closing import ClosedParameters
from kernelwright.core.evaluation import Evaluation
from kernelwright.core.finalists import Alternation
from kernelwright.core.roofline import Floor
from kernelwright.core.task import Task


class Session(Protocol):
    """One admitted task."""

    @property
    def baseline_ms(self) -> Mapping[str, float]:
        """Eager latency per workload."""
        ...

    def evaluate(
        self,
        candidate: Candidate,
        *,
        final: bool = False,
        floors: Mapping[str, Floor] = ...,
        baselines: tuple[str, ...] = ...,
    ) -> Evaluation:
        """Return the verdict on a candidate."""
        ...

    def __enter__(self) -> "Session": ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


@runtime_checkable
class AlternatingSession(Protocol):
    """A session that can time candidates in turn with each other."""

    def alternate(self, candidates: Sequence[Candidate], limit_s: float | None = None) -> Alternation | None:
        """Return their order and ratios; None where that cannot be measured in ``limit_s`` seconds."""
        ...


@runtime_checkable
class ComparingSession(Protocol):
    """A session that can time a candidate of the search in turn with its base."""

    def compare(self, candidate: Candidate, base: Candidate, limit_s: float) -> Alternation | None:
        """Return their order and ratio; None where that cannot be measured in ``limit_s`` seconds."""
        ...


@runtime_checkable
class ClosingSession(Protocol):
    """A session that can close what a candidate leaves open."""

    def close_parameters(self, candidate: Candidate, seconds: float) -> ClosedParameters | None:
        """Return the values that cheap timings chose; None where nobody can time them."""
        ...


class SessionAround:
    """A session around another one; methods that a subclass does not change call the inner session."""

    def __init__(self, inner: Session) -> None:
        self._inner = inner

    @property
    def baseline_ms(self) -> Mapping[str, float]:
        """Eager latency per workload."""
        return self._inner.baseline_ms

    def evaluate(
        self,
        candidate: Candidate,
        *,
        final: bool = False,
        floors: Mapping[str, Floor] | None = None,
        baselines: tuple[str, ...] = ("eager",),
    ) -> Evaluation:
        """See Session."""
        return self._inner.evaluate(candidate, final=final, floors=floors or {}, baselines=baselines)

    def alternate(self, candidates: Sequence[Candidate], limit_s: float | None = None) -> Alternation | None:
        """See AlternatingSession; None where the inner session is none."""
        inner = self._inner
        return inner.alternate(candidates, limit_s) if isinstance(inner, AlternatingSession) else None

    def compare(self, candidate: Candidate, base: Candidate, limit_s: float) -> Alternation | None:
        """See ComparingSession; by alternation where the inner session is none."""
        inner = self._inner
        if isinstance(inner, ComparingSession):
            return inner.compare(candidate, base, limit_s)
        return self.alternate((candidate, base), limit_s)

    def close_parameters(self, candidate: Candidate, seconds: float) -> ClosedParameters | None:
        """See ClosingSession; None where the inner session is none."""
        inner = self._inner
        return inner.close_parameters(candidate, seconds) if isinstance(inner, ClosingSession) else None

    def __enter__(self) -> Self:
        self._inner.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self._inner.__exit__(kind, error, trace)


class Evaluator(Protocol):
    """The referee, one far away, or a stand-in in tests."""

    def open(self, task: Task) -> Session:
        """Admit a task; raises TaskError when nobody should trust a speedup on it."""
        ...
