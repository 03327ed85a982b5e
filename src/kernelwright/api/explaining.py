"""Runs a candidate whose numbers are wrong once more, confined and on draws of its own, and says where."""

from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import TaskError, UserError
from kernelwright.core.evaluation import Evaluation
from kernelwright.core.task import Task
from kernelwright.core.wrong_numbers import OwnDraw
from kernelwright.machine.probe import probe_machine
from kernelwright.referee.session.input_samples import CONSTRUCTED, SampleKey
from kernelwright.targets.device import PROCESSOR
from kernelwright.tuning.timer import PointTimer

AS_IS = "as_is"
STYLES = ("touched", "redrawn", "odd")
"""How weights are changed where inputs alone show nothing (see ``referee/host/weight_draws.py``)."""
VARIANTS, TURNS = 2, 3
"""Some distributions have two variants; a draw may miss what another one shows."""
LIMIT_S = 30.0
LEAST_ALLOWED, MARGIN = 1e-6, 2.0
"""Here the float32 reference stands for the truth, which itself may use a part of what is allowed."""


def explain(
    task: Task, candidate: Candidate, found: Evaluation, *, device: str = PROCESSOR.name
) -> tuple[str, ...]:
    """Return which elements are wrong, a line each; nothing where the candidate cannot be run again."""
    failed = failed_families(found)
    try:
        with PointTimer(task, threads=probe_machine().cores or 1, device=device) as timer:
            looked = timer.compare(candidate.program, own_draws(found), LIMIT_S)
    except (UserError, TaskError):  # a task that cannot be run in such a process
        return ()
    return () if looked is None else looked.lines(failed)


def failed_families(found: Evaluation) -> tuple[str, ...]:
    """Return the input distributions on which an evaluation has a wrong output; NaN is one."""
    failed = (error.family for error in found.errors if not error.error <= error.allowed)
    return tuple(dict.fromkeys(failed))


def own_draws(found: Evaluation) -> list[OwnDraw]:
    """Return the draws to look at: the simplest inputs, then what failed, then both on other weights."""
    failed = failed_families(found)
    families = tuple(dict.fromkeys((AS_IS, *failed)))
    kinds = [(family, variant, CONSTRUCTED) for family in families for variant in range(VARIANTS)]
    kinds += [(family, 0, style) for family in families for style in STYLES]
    kinds.remove((AS_IS, 1, CONSTRUCTED))
    return [
        OwnDraw(
            family=family,
            variant=variant,
            weights=weights,
            turn=turn,
            allowed=_allowed(found, family),
            is_by_row=SampleKey(family, variant, weights).slack.is_by_row,
        )
        for turn in range(TURNS)
        for family, variant, weights in kinds
    ]


def _allowed(found: Evaluation, family: str) -> float:
    own = [error.allowed for error in found.errors if error.family == family]
    return max([LEAST_ALLOWED, *(MARGIN * one for one in own or [e.allowed for e in found.errors])])
