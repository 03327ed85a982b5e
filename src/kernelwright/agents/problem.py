"""A task prepared for work: what every role may know of it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kernelwright.core.evaluation import Evaluation
from kernelwright.core.machine import Machine
from kernelwright.core.roofline import Floor, Peaks
from kernelwright.core.target import TargetName
from kernelwright.core.task import Task
from kernelwright.tasks.capture import Captured


@dataclass(frozen=True)
class Problem:
    """A task with its graphs, floors and machine."""

    task: Task
    target: TargetName
    captured: Mapping[str, Captured]
    """Graph per workload, in the task's order; empty when the module cannot be captured."""
    floors: Mapping[str, Floor]
    """Roofline floor per captured workload."""
    peaks: Peaks
    """Of the device that candidates run on. For an unknown GPU they are the processor's: do not use them."""
    machine: Machine
    """What candidates are planned for and judged on; for a GPU's target it has an accelerator."""

    @property
    def main_workload(self) -> str:
        """The workload that evidence and sites are read from: the task's first."""
        return self.task.workloads[0].name

    @property
    def main_floor(self) -> Floor | None:
        """Floor of the main workload; None when it was not captured."""
        return self.floors.get(self.main_workload)


def with_corrected_floors(problem: Problem, evaluation: Evaluation) -> Problem:
    """Return the problem with the floors that a candidate showed to be too high replaced by the new ones."""
    corrected = {
        result.workload: replaced
        for result in evaluation.results
        if result.floor_was_ms is not None
        and result.floor_ms is not None
        and (given := problem.floors.get(result.workload)) is not None
        and (replaced := given.at_most(result.floor_ms)) != given
    }
    return replace(problem, floors={**problem.floors, **corrected}) if corrected else problem
