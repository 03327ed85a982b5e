"""Which machine a run is for: this one, or the one where its evaluator judges."""

from pathlib import Path

from kernelwright.core.machine import Accelerator, Machine
from kernelwright.core.target import Target
from kernelwright.machine.probe import probe_machine
from kernelwright.runs.evaluator import Evaluator, EvaluatorElsewhere
from kernelwright.targets.gpu.machine import probe_gpu_machine


def machine_of_run(
    target: Target, cache_dir: Path, evaluator: Evaluator | None = None, *, sandbox: str | None = None
) -> Machine:
    """Return the machine that a run plans for: the evaluator's, this one where the referee is here.

    An evaluator elsewhere that does not tell its machine is taken to have a processor like this one
    (``is_assumed``), and a GPU of which nothing is known. ``sandbox`` is the tier of the referee here.

    Raises:
        MachineError: the evaluator does not answer, or this machine's peaks cannot be measured.
    """
    kind = target.device
    if not isinstance(evaluator, EvaluatorElsewhere):
        here = probe_machine(cache_dir) if kind == "cpu" else probe_gpu_machine(kind, cache_dir)
        return here.model_copy(update={"sandbox": sandbox})
    there = evaluator.machine()
    if there is not None:
        accelerator = there.accelerator
        if kind != "cpu" and (accelerator is None or accelerator.kind != kind):
            accelerator = Accelerator(kind=kind)
        return there.model_copy(
            update={"accelerator": accelerator if kind != "cpu" else None, "is_elsewhere": True}
        )
    unknown = {"is_elsewhere": True, "is_assumed": True}
    if kind == "cpu":
        return probe_machine(cache_dir).model_copy(update=unknown)
    unknown_gpu = {"accelerator": Accelerator(kind=kind), "is_elsewhere": True}
    return probe_machine(cache_dir).model_copy(update=unknown_gpu)
