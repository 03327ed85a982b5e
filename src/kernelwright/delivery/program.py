"""A program whose ``ModelNew`` is the module as it is delivered, for the referee to time.

The referee runs the program in the candidate's confined process. Calls then go through the guards, and the
original stands behind the kernel, as in a user's program. This file loads no torch; ``timed.py`` does.
"""

from kernelwright.core.candidate import COMPILER, Candidate
from kernelwright.core.policy import Policy, Weights
from kernelwright.core.task import Task, Workload
from kernelwright.referee.settings import DeliveredForm

_NEEDS = "kernelwright.delivery.timed"
_PROGRAM = """from {needs} import maker

ModelNew = maker({program!r}, {task!r}, {is_frozen!r})
"""
_COMPILED = """from {needs} import compiled_maker

ModelNew = compiled_maker({task!r})
"""


def write_program(candidate: Candidate, task: Task, workload: Workload, policy: Policy) -> str:
    """Return the text of the program."""
    only = task.model_copy(update={"workloads": (workload,), "class_source": None})
    if candidate.role == COMPILER:
        return _COMPILED.format(needs=_NEEDS, task=only.model_dump_json())
    is_frozen = policy.weights is Weights.FROZEN
    return _PROGRAM.format(
        needs=_NEEDS, program=candidate.program, task=only.model_dump_json(), is_frozen=is_frozen
    )


DELIVERED = DeliveredForm(write_program, _NEEDS)
