"""The result of examining a task: what is wrong with it, before a speedup on it is trusted."""

from collections.abc import Iterable
from enum import StrEnum

from kernelwright.core.evidence import FactValue
from kernelwright.core.frozen import Frozen
from kernelwright.core.task import Literal_

NOT_CHECKED = "not-checked"
"""The flag of a task that is too large or too slow to be examined."""


class Severity(StrEnum):
    """How much a flag devalues a speedup on the task."""

    UNUSABLE = "unusable"
    """The task has no right answer, or its own inputs do not distinguish wrong answers from right ones."""
    DOUBTFUL = "doubtful"
    """KernelBench's check at 1e-4 accepts a wrong answer, or much of the work has no effect."""
    NOTE = "note"
    """Worth knowing; does not devalue a speedup."""


SEVERITIES = tuple(Severity)
"""Worst first."""


class Flag(Frozen):
    """One thing found about a task."""

    check: str
    """Name of what was found, e.g. ``constant-output``; the same for every task."""
    severity: Severity
    says: str
    """One plain line with figures."""
    advice: str
    """What to do about it, one line."""
    workload: str = "default"


class Checkup(Frozen):
    """Everything found about one task."""

    task: str
    task_id: str
    path: str | None = None
    sizes: dict[str, Literal_]
    """Size globals that were reduced to make the check quick; empty: the task as it is."""
    flags: tuple[Flag, ...] = ()
    seconds: float = 0.0

    @property
    def worst(self) -> Severity | None:
        """Severity of the worst flag; None when there is none."""
        return worst_of(self.flags)

    @property
    def is_trustworthy(self) -> bool:
        """True when nothing is worse than a note."""
        return self.worst in (None, Severity.NOTE)


class EarlierCheck(Frozen):
    """When and where results were found that a later check took over."""

    date: str
    environment: dict[str, FactValue]
    task_ids: tuple[str, ...]


def worst_of(flags: Iterable[Flag]) -> Severity | None:
    """Return the worst severity among flags; None when there are none."""
    found = {flag.severity for flag in flags}
    return next((severity for severity in SEVERITIES if severity in found), None)
