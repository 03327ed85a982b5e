"""Which one ran: counts, one warning, and the strict mode that raises instead."""

import contextlib
import contextvars
import logging
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from torch import nn

from .described import OWN

_shared = sys.modules.setdefault("kernelwright_shared", ModuleType("kernelwright_shared")).__dict__
"""What all copies of this runtime in a process have together: saved folders carry one of their own."""
_strict: contextvars.ContextVar[bool] = _shared.setdefault(
    "strict", contextvars.ContextVar("kernelwright_strict", default=False)
)
SOMEWHERE: dict[str, bool] = _shared.setdefault("strict_somewhere", {"strict": False})
"""Whether a thread is in strict mode, which graphs of compilers can guard on."""
_strict_threads: list[object] = _shared.setdefault("strict_threads", [])
OPERATOR_CALLS: Counter[str] = _shared.setdefault("operator_calls", Counter())
"""By digest, as the operators: a kernel that is loaded twice has one."""


class _NotVerifiedError(RuntimeError):
    """In strict mode: the original would run, because something that the verdict rests on does not hold."""


_NotVerifiedError.__name__ = _NotVerifiedError.__qualname__ = "NotVerifiedError"
NotVerifiedError: type[RuntimeError] = _shared.setdefault("NotVerifiedError", _NotVerifiedError)


@dataclass(frozen=True)
class Cause:
    """Why the original runs."""

    kind: str
    """One word or two; calls are counted by it."""
    text: str
    mend: str | None = None
    """What the user can do about it, None where nothing is wrong."""

    def __str__(self) -> str:
        return f"{self.text}; {self.mend}" if self.mend else self.text


@dataclass(frozen=True)
class CallReport:
    """How often a delivered module ran its kernel and its original since it was made."""

    kernel_calls: int
    """Calls that the kernel answered. Those through its custom operator are counted for all copies of the
    module together."""
    original_calls: int
    """Calls that the original answered; inside a compiled or exported graph it is not counted."""
    reasons: Mapping[str, int] = field(default_factory=dict)
    """Why the original ran, in words -> how often."""
    backward_calls: int = 0
    """Calls of the backward kernel, for all copies of the module together."""

    def __str__(self) -> str:
        backward = f", backward kernel: {self.backward_calls} calls" if self.backward_calls else ""
        lines = [f"kernel: {self.kernel_calls} calls, original: {self.original_calls} calls{backward}"]
        return "\n".join([*lines, *(f"  {count} x {reason}" for reason, count in self.reasons.items())])


class CallCounts:
    """Counts the calls of one module."""

    MOST = 64
    """Different reasons that are kept in words; the rest are counted by their kind."""

    def __init__(self, *, strict: bool = False) -> None:
        self.kernel_calls = 0
        self.reasons: Counter[str] = Counter()
        self.strict = strict
        self.has_warned = False

    def original_runs(self, cause: Cause) -> None:
        """Note why the original runs; raises NotVerifiedError in strict mode."""
        if self.strict or is_strict_here():
            raise NotVerifiedError(f"the original would run: {cause}")
        known = cause.text in self.reasons or len(self.reasons) < self.MOST
        self.reasons[cause.text if known else cause.kind] += 1
        if cause.mend and not self.has_warned:
            self.has_warned = True
            advise(f"{cause}. The original module runs; module.report() counts such calls", stacklevel=5)

    def report(self, operator_calls: int, backward_calls: int = 0) -> CallReport:
        """Return the counts."""
        reasons = dict(self.reasons.most_common())
        return CallReport(self.kernel_calls + operator_calls, self.reasons.total(), reasons, backward_calls)


def advise(text: str, *, stacklevel: int) -> None:
    """Warn; where warnings are errors, log instead, as what runs is right all the same."""
    try:
        warnings.warn(text, stacklevel=stacklevel)
    except UserWarning:
        logging.getLogger("kernelwright").warning(text)


def is_strict_here() -> bool:
    """Say whether this thread is in strict mode."""
    return _strict.get()


@contextlib.contextmanager
def strict() -> Iterator[None]:
    """Raise NotVerifiedError, in this thread, wherever a delivered module would run its original."""
    token, entered = _strict.set(True), object()
    _strict_threads.append(entered)
    SOMEWHERE["strict"] = True
    try:
        yield
    finally:
        _strict.reset(token)
        _strict_threads.remove(entered)
        SOMEWHERE["strict"] = bool(_strict_threads)


def report(module: nn.Module) -> CallReport:
    """Return which one ran, of a delivered module or of all of them inside a model together."""
    found: dict[int, Any] = {}
    for part in module.modules():
        if OWN in vars(part):
            found[id(part)] = vars(part)[OWN]
    reasons: Counter[str] = Counter()
    for state in found.values():
        reasons.update(state.counts.reasons)
    forward, backward = Counter[int](), Counter[int]()
    for state in found.values():
        kernel = state.kernel
        since = kernel.operator_calls - state.operator_calls_before
        forward[id(kernel)] = max(since, forward[id(kernel)])
        since = kernel.backward_calls - state.backward_calls_before
        backward[id(kernel)] = max(since, backward[id(kernel)])
    own = sum(state.counts.kernel_calls for state in found.values())
    by_reason = dict(reasons.most_common())
    return CallReport(own + forward.total(), reasons.total(), by_reason, backward.total())
