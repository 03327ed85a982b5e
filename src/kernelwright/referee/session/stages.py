"""``STAGES``: all stages and checks of an evaluation, in order."""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeAlias, TypeVar

from kernelwright.core.evaluation import Stage
from kernelwright.referee.session.conclusion import Conclusion
from kernelwright.referee.session.dossier import Dossier
from kernelwright.referee.session.pair import ProcessPair
from kernelwright.referee.session.preparation import Preparation

Subject = TypeVar("Subject")


class When(Enum):
    """When a stage runs."""

    ONCE = "before any code of the candidate runs"
    EACH = "in each pair of a host and a worker"
    FIRST = "in the first pair"
    LATER = "in the pairs after the first"
    ORDINARY = "in the pairs of ordinary processes"
    RESULT = "on the result of all pairs of a workload"


@dataclass(frozen=True)
class Step(Generic[Subject]):
    """One stage, or a named part of one."""

    stage: Stage
    name: str
    when: When
    run: Callable[[Subject], None]
    needs_timing: bool = False
    """Has no place where a workload is verified only."""


Steps: TypeAlias = tuple[Step[Subject], ...]

BEFORE: Steps[Preparation] = (
    Step(Stage.GUARD, "guard", When.ONCE, Preparation.guard),
    Step(Stage.BUILD, "build", When.ONCE, Preparation.build),
)
IN_PAIRS: Steps[ProcessPair] = (
    Step(Stage.LOAD, "load", When.EACH, ProcessPair.load),
    Step(Stage.VERIFY, "peak memory", When.ORDINARY, ProcessPair.measure_memory),
    Step(Stage.VERIFY, "verify", When.EACH, ProcessPair.verify),
    Step(Stage.TIME, "time", When.EACH, ProcessPair.time, needs_timing=True),
    Step(Stage.TIME, "clocks", When.EACH, ProcessPair.check_clocks, needs_timing=True),
    Step(Stage.REPLAY, "idle work after timing", When.EACH, ProcessPair.check_idle),
    Step(Stage.REPLAY, "replay", When.EACH, ProcessPair.replay, needs_timing=True),
    Step(Stage.REPLAY, "new values", When.EACH, ProcessPair.renew, needs_timing=True),
    Step(Stage.TIME, "time again", When.EACH, ProcessPair.time_again, needs_timing=True),
    Step(Stage.REPLAY, "idle work after replay", When.EACH, ProcessPair.check_idle),
    Step(Stage.REPLAY, "tamper", When.EACH, ProcessPair.check_untampered),
    Step(Stage.REPLAY, "late outputs", When.EACH, ProcessPair.check_late, needs_timing=True),
    Step(Stage.REPLAY, "own code", When.EACH, ProcessPair.check_own_code, needs_timing=True),
    Step(Stage.REPLAY, "library use", When.FIRST, ProcessPair.check_library_use),
    Step(Stage.VERIFY, "other weights in another process", When.FIRST, ProcessPair.check_other_weights),
    Step(Stage.VERIFY, "share of the other input distributions", When.LATER, ProcessPair.check_share),
    Step(Stage.TIME, "one thread", When.ORDINARY, ProcessPair.time_alone),
    Step(Stage.TIME, "reference alone", When.EACH, ProcessPair.check_undisturbed, needs_timing=True),
)
ON_RESULTS: Steps[Conclusion] = (Step(Stage.TIME, "floor", When.RESULT, Conclusion.check_floor),)

STAGES = (*BEFORE, *IN_PAIRS, *ON_RESULTS)
"""All stages and checks in order; the first check that fails ends the evaluation. A search evaluation has one
pair of processes for a workload. A final has one, then several pairs of ordinary processes; on a device,
where there are no ordinary ones, it has several."""


def run_in_pair(pair: ProcessPair, *, is_timed: bool) -> None:
    """Run the stages of one pair of processes; ``is_timed``: its workload is not only verified."""
    kinds = {When.EACH, When.FIRST if pair.turn == 0 else When.LATER}
    if pair.program is not None:
        kinds.add(When.ORDINARY)
    steps = [step for step in IN_PAIRS if step.when in kinds and (is_timed or not step.needs_timing)]
    run_steps(steps, pair, pair.dossier)


def run_steps(steps: Sequence[Step[Subject]], subject: Subject, dossier: Dossier) -> None:
    """Run stages in their order and record their times, except that of the guard."""
    for step in steps:
        with contextlib.nullcontext() if step.stage is Stage.GUARD else dossier.phase(step.stage):
            step.run(subject)
