"""Runs a candidate whose numbers are wrong once more, confined and on draws of its own, and says where."""

from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import TaskError, UserError
from kernelwright.core.evaluation import Evaluation
from kernelwright.core.task import Task
from kernelwright.core.wrong_numbers import wrong_lines
from kernelwright.machine.probe import probe_machine
from kernelwright.tuning.timer import PointTimer

FAMILIES = ("as_is", "scaled", "negated", "sparse_spikes", "heavy_tail", "offset", "coarse")
"""Input distributions that can be drawn outside the referee (see ``referee/host/input_distributions.py``)."""
LIMIT_S = 30.0
LEAST_ALLOWED, MARGIN = 1e-6, 2.0
"""Here the float32 reference stands for the truth, which itself may use a part of what is allowed."""


def explain(task: Task, candidate: Candidate, found: Evaluation) -> tuple[str, ...]:
    """Return which elements are wrong, a line each; nothing where the candidate cannot be run again."""
    failed = [e.family for e in found.errors if e.error > e.allowed and e.family in FAMILIES]
    families = tuple(dict.fromkeys(("as_is", *failed)))
    allowed = max([LEAST_ALLOWED, *(MARGIN * e.allowed for e in found.errors)])
    try:
        with PointTimer(task, threads=probe_machine().cores or 1) as timer:
            wrong = timer.compare(candidate.program, families, allowed, LIMIT_S)
    except (UserError, TaskError):  # a task that cannot be run in such a process
        return ()
    return () if wrong is None else wrong_lines(wrong, families)
