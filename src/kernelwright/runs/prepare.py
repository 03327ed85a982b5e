"""Turn a task into a problem: graphs, floors, the machine's peaks."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

import torch

from kernelwright.agents.problem import Problem
from kernelwright.core.errors import CaptureError
from kernelwright.core.evidence import FactValue
from kernelwright.core.roofline import Floor, Peaks, Work, floor
from kernelwright.core.run import RunSpec
from kernelwright.core.target import TargetName
from kernelwright.core.task import Task, TolerancePolicy
from kernelwright.machine.processor import machine_facts, measure_peaks
from kernelwright.targets.gpu import roofline as gpu_roofline
from kernelwright.targets.gpu.driver_files import are_alike
from kernelwright.targets.gpu.facts import GpuFacts
from kernelwright.targets.gpu.peaks import ELSEWHERE, is_gpu_here, published_gpu, run_gpu
from kernelwright.tasks.capture import Captured, capture_task
from kernelwright.tasks.work import count_work

Preparation: TypeAlias = Callable[[RunSpec, Path], tuple[Problem, str | None]]
"""From a spec and the cache folder to the problem, and why it could not be captured."""


def prepare(spec: RunSpec, cache_dir: Path) -> tuple[Problem, str | None]:
    """Return the problem on this machine, and why it could not be captured (None when it could)."""
    peaks = measure_peaks(cache_dir)
    return prepare_on(spec, peaks, machine_facts(peaks), gpu_of(spec, cache_dir))


def gpu_of(spec: RunSpec, cache_dir: Path) -> GpuFacts | None:
    """Return the GPU of a run; None: not known.

    The one that its record names, measured where it is the one here; where none is named, the one here. Of a
    GPU that the record places elsewhere, what is published.
    """
    if spec.target.device == "cpu":
        return None
    named = _named_gpu(spec)
    if spec.environment.get(ELSEWHERE):
        return published_gpu(named)
    return run_gpu(spec.target.device, cache_dir, named)


def has_gpu_of(spec: RunSpec, cache_dir: Path) -> bool:
    """Tell whether the GPU of a run is the one here."""
    if spec.target.device == "cpu" or spec.environment.get(ELSEWHERE):
        return False
    return is_gpu_here(spec.target.device, cache_dir, _named_gpu(spec))


def floors_on(task: Task, kind: str, cache_dir: Path, *, index: int = 0) -> dict[str, Floor]:
    """Return a task's floors by workload, on the processor or a GPU of this machine.

    Empty where there are none to be had: the task cannot be captured, or the device is not known. The first
    GPU is the one that is known; others are where all are of one model.
    """
    if kind == "cpu":
        return dict(prepare(RunSpec(task=task, recipe="none"), cache_dir)[0].floors)
    if index and not are_alike():
        return {}
    spec = RunSpec(task=task, recipe="none", target=TargetName(device=kind, language="triton"))
    gpu = gpu_of(spec, cache_dir)
    if gpu is None:
        return {}
    peaks = gpu_roofline.gpu_peaks(gpu, is_strict=False)
    return dict(prepare_on(spec, peaks, {}, gpu)[0].floors)


def prepare_on(
    spec: RunSpec, peaks: Peaks, machine: Mapping[str, FactValue], gpu: GpuFacts | None = None
) -> tuple[Problem, str | None]:
    """Return the problem as on a machine with these peaks and ``machine.*`` facts.

    For a GPU's target both are the GPU's, whatever the processor's are; of one that is not known there are no
    facts and no floors, and nobody reads the peaks. Evidence is held against measured peaks, floors against
    the higher of measured and published ones.
    """
    captured, works, reason = _capture(spec)
    ceilings = peaks
    if spec.target.device != "cpu":
        is_strict = _is_strict(spec, captured)
        machine = {}
        if gpu is not None:
            peaks = gpu_roofline.gpu_peaks(gpu, is_strict=is_strict)
            ceilings = gpu_roofline.gpu_peaks(gpu_roofline.ceilings(gpu), is_strict=is_strict)
            machine = gpu_roofline.machine_facts(gpu, peaks)
    has_floors = spec.target.device == "cpu" or gpu is not None
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
    named = spec.environment.get("gpu")
    return named if isinstance(named, str) else None


def _capture(spec: RunSpec) -> tuple[dict[str, Captured], dict[str, Work], str | None]:
    """Return the graph of every workload and what it must do, or nothing and why."""
    try:
        captured = {workload.name: capture_task(spec.task, workload) for workload in spec.task.workloads}
        return captured, {name: count_work(found) for name, found in captured.items()}, None
    except CaptureError as error:
        return {}, {}, str(error)


def _is_strict(spec: RunSpec, captured: Mapping[str, Captured]) -> bool:
    """Tell whether every product must be as exact as float32: by the contract and by the graph."""
    if spec.task.tolerance is not TolerancePolicy.STRICT:
        return False
    values = (node.meta.get("val") for found in captured.values() for node in found.graph.nodes)
    return all(v.dtype.itemsize >= 4 for v in values if isinstance(v, torch.Tensor) and v.is_floating_point())
