"""Turn a task into a problem: graphs, floors, the machine's peaks."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

from kernelwright.agents.problem import Problem
from kernelwright.core.errors import CaptureError
from kernelwright.core.evidence import FactValue
from kernelwright.core.roofline import Floor, Peaks, floor
from kernelwright.core.run import RunSpec
from kernelwright.devices.cpu import machine_facts, measure_peaks
from kernelwright.tasks.capture import Captured, capture_task
from kernelwright.tasks.work import count_work

Preparation: TypeAlias = Callable[[RunSpec, Path], tuple[Problem, str | None]]
"""From a spec and the cache folder to the problem, and why it could not be captured."""


def prepare(spec: RunSpec, cache_dir: Path) -> tuple[Problem, str | None]:
    """Return the problem on this machine, and why it could not be captured (None when it could)."""
    peaks = measure_peaks(cache_dir)
    return prepare_on(spec, peaks, machine_facts(peaks))


def prepare_on(spec: RunSpec, peaks: Peaks, machine: Mapping[str, FactValue]) -> tuple[Problem, str | None]:
    """Return the problem as on a machine with these peaks and ``machine.*`` facts.

    The peaks are the processor's: a target on another device has no floors.
    """
    captured: dict[str, Captured] = {}
    floors: dict[str, Floor] = {}
    reason: str | None = None
    try:
        for workload in spec.task.workloads:
            captured[workload.name] = capture_task(spec.task, workload)
            if spec.target.device == "cpu":
                floors[workload.name] = floor(count_work(captured[workload.name]), peaks)
    except CaptureError as error:
        captured, floors, reason = {}, {}, str(error)
    problem = Problem(
        task=spec.task,
        target=spec.target,
        captured=captured,
        floors=floors,
        peaks=peaks,
        machine=machine,
    )
    return problem, reason
