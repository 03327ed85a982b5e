"""Floors of a task from what was counted of it; loads no torch."""

from pathlib import Path

from kernelwright.core.roofline import Floor, Peaks, floor
from kernelwright.machine.probe import probe_machine
from kernelwright.targets.base import Target
from kernelwright.targets.gpu.driver_files import are_alike
from kernelwright.targets.gpu.peaks import run_gpu
from kernelwright.targets.gpu.roofline import ceilings, gpu_peaks
from kernelwright.targets.registry import all_targets
from kernelwright.tasks.counted import CountedWork


def floors_of(counted: CountedWork, kind: str, cache_dir: Path, *, index: int = 0) -> dict[str, Floor]:
    """Return a task's floors by workload, on the processor or a GPU of this machine.

    Empty where there are none to be had: the task cannot be captured, or the device is not known. The first
    GPU is the one that is known; others are where all are of one model.

    Raises:
        MachineError: the machine's peaks cannot be measured.
    """
    own = next((target for target in all_targets() if target.device.name == kind), None)
    if own is None or (index and not are_alike()) or not counted.works:
        return {}
    peaks = _peaks(own, counted, cache_dir)
    return {} if peaks is None else {name: floor(work, peaks) for name, work in counted.works.items()}


def _peaks(target: Target, counted: CountedWork, cache_dir: Path) -> Peaks | None:
    """Return what no kernel exceeds; None for a GPU that is not known."""
    if not target.device.is_apart:
        return probe_machine(cache_dir).peaks
    gpu = run_gpu(target.name.device, cache_dir)
    return None if gpu is None else gpu_peaks(ceilings(gpu), is_strict=counted.is_strict)
