"""Turn a task into a problem: graphs, floors, the machine's peaks."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from kernelwright.agents.problem import Problem
from kernelwright.core.errors import CaptureError, MachineError
from kernelwright.core.machine import Machine
from kernelwright.core.roofline import Floor, Work, floor
from kernelwright.core.run import RunSpec
from kernelwright.core.task import Task
from kernelwright.machine.probe import probe_machine
from kernelwright.runs.floors import floors_of
from kernelwright.targets.gpu import roofline as gpu_roofline
from kernelwright.targets.gpu.facts import GpuFacts
from kernelwright.targets.gpu.machine import accelerator_of
from kernelwright.targets.gpu.peaks import is_gpu_here, published_gpu, run_gpu
from kernelwright.targets.registry import target_of
from kernelwright.tasks.capture import Capture, Captured, capture_task
from kernelwright.tasks.counted import CountedWork
from kernelwright.tasks.dynamic import capture_dynamic
from kernelwright.tasks.work import count_work, is_strict

Preparation: TypeAlias = Callable[[RunSpec, Path], tuple[Problem, str | None]]
"""From a spec and the cache folder to the problem, and why it could not be captured."""


def prepare(spec: RunSpec, cache_dir: Path, capture: Capture = capture_task) -> tuple[Problem, str | None]:
    """Return the problem on the run's machine, and why it could not be captured (None when it could)."""
    return prepare_on(spec, machine_to_plan_for(spec, cache_dir), gpu_of(spec, cache_dir), capture)


def machine_to_plan_for(spec: RunSpec, cache_dir: Path) -> Machine:
    """Return a run's machine.

    Where its peaks are not known, or an older probe measured them, they are this one's; with them comes what
    an older record does not say.
    """
    known = spec.machine
    if known.peaks is not None and known.peaks.is_outdated:
        known = known.model_copy(update={"peaks": None})
    if known.peaks is not None:
        return known
    here = probe_machine(cache_dir)
    return known.model_copy(update={"peaks": here.peaks}) if known.is_elsewhere else known.completed(here)


def gpu_of(spec: RunSpec, cache_dir: Path) -> GpuFacts | None:
    """Return the GPU of a run; None: not known.

    The one that its record names, measured where it is the one here; where none is named, the one here. Of a
    GPU that the record places elsewhere, what is published.
    """
    if not target_of(spec.target).device.is_apart:
        return None
    named = _named_gpu(spec)
    if spec.machine.is_elsewhere:
        return published_gpu(named)
    return run_gpu(spec.target.device, cache_dir, named)


def has_gpu_of(spec: RunSpec, cache_dir: Path) -> bool:
    """Tell whether the GPU of a run is the one here."""
    if not target_of(spec.target).device.is_apart or spec.machine.is_elsewhere:
        return False
    return is_gpu_here(spec.target.device, cache_dir, _named_gpu(spec))


def floors_on(task: Task, kind: str, cache_dir: Path, *, index: int = 0) -> dict[str, Floor]:
    """Return what ``floors_of`` does of a task that is captured in this process."""
    captured, works, _ = _capture(task, capture_task)
    counted = CountedWork(works=works, is_strict=is_strict(task, captured.values()))
    return floors_of(counted, kind, cache_dir, index=index)


def prepare_on(
    spec: RunSpec, machine: Machine, gpu: GpuFacts | None = None, capture: Capture | None = None
) -> tuple[Problem, str | None]:
    """Return the problem as on a machine; without ``capture`` the task's code runs in this process.

    For a GPU's target peaks and facts are the GPU's, whatever the processor's are; of one that is not known
    there are no facts and no floors, and nobody reads the peaks. Evidence is held against measured peaks,
    floors against the higher of measured and published ones.

    Raises:
        MachineError: nothing is known of what the machine sustains.
    """
    captured, works, reason = _capture(spec.task, capture or capture_task)
    peaks = ceilings = machine.peaks
    is_apart = target_of(spec.target).device.is_apart
    if is_apart:
        strict = is_strict(spec.task, captured.values())
        if gpu is not None:
            peaks = gpu_roofline.gpu_peaks(gpu, is_strict=strict)
            ceilings = gpu_roofline.gpu_peaks(gpu_roofline.ceilings(gpu), is_strict=strict)
        accelerator = accelerator_of(spec.target.device, gpu, peaks if gpu is not None else None)
        machine = machine.model_copy(update={"accelerator": accelerator})
    if peaks is None or ceilings is None:
        raise MachineError("the machine's peaks are not known; measure them with `kernelwright doctor`")
    has_floors = not is_apart or gpu is not None
    floors = {name: floor(work, ceilings) for name, work in works.items() if has_floors}
    problem = Problem(
        task=spec.task,
        target=spec.target,
        captured=captured,
        floors=floors,
        peaks=peaks,
        machine=machine,
    )
    return problem, reason


def _named_gpu(spec: RunSpec) -> str | None:
    return None if spec.machine.accelerator is None else spec.machine.accelerator.name


def _graphs(task: Task, capture: Capture) -> dict[str, Captured]:
    """Return the graph of every workload; one that holds for all of them comes alone."""
    if task.dynamic:
        return {task.workloads[0].name: capture_dynamic(task, capture)}
    return {workload.name: capture(task, workload) for workload in task.workloads}


def _capture(task: Task, capture: Capture) -> tuple[dict[str, Captured], dict[str, Work], str | None]:
    """Return the graph of every workload and what it must do, or nothing and why."""
    try:
        captured = _graphs(task, capture)
        may_round = not is_strict(task, captured.values())
        works = {name: count_work(found, may_round=may_round) for name, found in captured.items()}
        return captured, works, None
    except CaptureError as error:
        return {}, {}, str(error)
