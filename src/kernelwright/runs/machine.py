"""Which machine a run is for: this one, or the one where its evaluator judges."""

from pathlib import Path
from typing import Protocol, runtime_checkable

from kernelwright.core.machine import Machine
from kernelwright.core.target import TargetName
from kernelwright.machine.probe import probe_machine
from kernelwright.runs.evaluator import Evaluator
from kernelwright.targets.registry import target_of


@runtime_checkable
class Elsewhere(Protocol):
    """An evaluator that judges on another machine."""

    def machine(self) -> Machine | None:
        """Return that machine, None where it is not told; raises MachineError where nobody answers."""
        ...


def machine_of_run(
    target: TargetName, cache_dir: Path, evaluator: Evaluator | None = None, *, sandbox: str | None = None
) -> Machine:
    """Return the machine that a run plans for: the evaluator's, this one where the referee is here.

    An evaluator elsewhere that does not tell its machine is taken to have a processor like this one
    (``is_assumed``), and a GPU of which nothing is known. ``sandbox`` is the tier of the referee here.

    Raises:
        MachineError: the evaluator does not answer, or this machine's peaks cannot be measured.
    """
    own = target_of(target)
    if not isinstance(evaluator, Elsewhere):
        return own.probe_machine(cache_dir).model_copy(update={"sandbox": sandbox})
    there, unknown = evaluator.machine(), own.unknown_accelerator
    if there is not None:
        found = there.accelerator
        is_wanted = unknown is not None and found is not None and found.kind == unknown.kind
        accelerator = found if is_wanted else unknown
        return there.model_copy(update={"accelerator": accelerator, "is_elsewhere": True})
    here = probe_machine(cache_dir)
    return here.model_copy(
        update={"accelerator": unknown, "is_elsewhere": True, "is_assumed": unknown is None}
    )
