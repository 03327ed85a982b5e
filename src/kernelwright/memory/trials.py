"""What was tried of a skill, counted by task: ten tries on one task tell of one task."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from statistics import median
from typing import NamedTuple

from kernelwright.core.run import Outcome

EXPERT = "expert"
"""The team whose Coder carries a move out in one way only."""
MARGIN = math.log(1.02)
"""Log-speedup below which a difference is taken for noise of the search's short measurements."""


class Subject(NamedTuple):
    """What a finding is about; None: any."""

    skill: str
    target: str
    structure: str | None
    bottleneck: str | None

    def covers(self, outcome: Outcome) -> bool:
        """Tell whether the outcome is about this."""
        return (
            outcome.skill == self.skill
            and outcome.target == self.target
            and self.structure in (None, outcome.structure)
            and self.bottleneck in (None, outcome.bottleneck)
        )


class TaskTrial(NamedTuple):
    """All tries of a subject on one task."""

    task_id: str
    effects: tuple[float, ...]
    """Log-speedups, 0 for a try that was not verified."""
    failed: int

    @property
    def effect(self) -> float:
        """Median log-speedup."""
        return median(self.effects)

    @property
    def is_won(self) -> bool:
        """True when it gained more than noise."""
        return self.effect > MARGIN


def subjects_of(outcome: Outcome) -> Iterator[Subject]:
    """Yield what an outcome tells of, from narrow to wide."""
    for structure in (outcome.structure, None):
        for bottleneck in (outcome.bottleneck, None):
            yield Subject(outcome.skill, outcome.target, structure, bottleneck)


def trials_of(outcomes: Iterable[Outcome]) -> tuple[TaskTrial, ...]:
    """Return the outcomes by task, in order of id.

    Left out are those whose base was never timed, and kernels of a model that were not verified: they tell
    of that model's code as likely as of the idea, while the expert's lowering is the skill itself.
    """
    groups: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        if _tells_of_the_skill(outcome):
            groups[outcome.task_id].append(outcome)
    return tuple(_trial(task_id, group) for task_id, group in sorted(groups.items()))


def _tells_of_the_skill(outcome: Outcome) -> bool:
    return outcome.log_speedup is not None if outcome.verified else outcome.coder == EXPERT


def _trial(task_id: str, outcomes: Sequence[Outcome]) -> TaskTrial:
    effects = tuple(o.log_speedup or 0.0 if o.verified else 0.0 for o in outcomes)
    return TaskTrial(task_id, effects, failed=sum(not o.verified for o in outcomes))
