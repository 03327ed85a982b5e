"""What was tried of a skill, counted by task: ten tries on one task tell of one task."""

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import NamedTuple

from kernelwright.core.plan import ParamValue
from kernelwright.core.run import Outcome

EXPERT = "expert"
"""The team whose Coder carries a move out in one way only."""
MARGIN = math.log(1.02)
"""Log-speedup below which a difference is taken for noise of the search's short measurements."""


class TrialSubject(NamedTuple):
    """What a finding is about; None: any."""

    skill: str
    target: str
    structure: str | None
    bottleneck: str | None
    params: tuple[tuple[str, ParamValue], ...] = ()
    """Values of the move by name, in order of name; empty: any."""

    def covers(self, outcome: Outcome) -> bool:
        """Tell whether the outcome is about this."""
        return (
            outcome.skill == self.skill
            and outcome.target == self.target
            and self.structure in (None, outcome.structure)
            and self.bottleneck in (None, outcome.bottleneck)
            and self.params in ((), values_of(outcome.params))
        )

    @property
    def text(self) -> str:
        """Its name in notes, by which subjects are also ordered."""
        return json.dumps(self if self.params else self[:-1])


class TaskTrial(NamedTuple):
    """All tries of a subject on one task."""

    task_id: str
    effect: float
    """Median log-speedup, a try that was not verified counting 0."""
    tries: int
    failed: int

    @property
    def is_won(self) -> bool:
        """True when it gained more than noise."""
        return self.effect > MARGIN


def subjects_of(outcome: Outcome) -> Iterator[TrialSubject]:
    """Yield what an outcome tells of, from narrow to wide; of its values only in its own context."""
    if outcome.params:
        values = values_of(outcome.params)
        yield TrialSubject(outcome.skill, outcome.target, outcome.structure, outcome.bottleneck, values)
    for structure in (outcome.structure, None):
        for bottleneck in (outcome.bottleneck, None):
            yield TrialSubject(outcome.skill, outcome.target, structure, bottleneck)


def values_of(params: Mapping[str, ParamValue]) -> tuple[tuple[str, ParamValue], ...]:
    """Return values by name, in order of name."""
    return tuple(sorted(params.items()))


def trials_of(outcomes: Iterable[Outcome]) -> tuple[TaskTrial, ...]:
    """Return the outcomes by task, in order of id.

    Left out are those whose base was never timed, and kernels of a model that were not verified: they tell
    of that model's code as likely as of the idea, while the expert's lowering is the skill itself.
    """
    groups: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        if tells_of_the_skill(outcome):
            groups[outcome.task_id].append(outcome)
    return tuple(
        trial_of(task_id, [effect_of(o) for o in group], failed=sum(not o.verified for o in group))
        for task_id, group in sorted(groups.items())
    )


def tells_of_the_skill(outcome: Outcome) -> bool:
    """Tell whether a try says something of its skill; see :func:`trials_of`."""
    return outcome.log_speedup is not None if outcome.verified else outcome.coder == EXPERT


def effect_of(outcome: Outcome) -> float:
    """Return a try's log-speedup, 0 when it was not verified."""
    return outcome.log_speedup or 0.0 if outcome.verified else 0.0


def trial_of(task_id: str, effects: Sequence[float], *, failed: int) -> TaskTrial:
    """Return the tries of a subject on one task."""
    return TaskTrial(task_id, median(effects), len(effects), failed)
