"""What a referee for programs elsewhere tells of its machine."""

from kernelwright.core.machine import Machine
from kernelwright.core.roofline import Peaks
from kernelwright.machine.probe import measure_peaks, probe_machine
from kernelwright.referee.device import parse_device
from kernelwright.referee.sandbox.choose import tier_here
from kernelwright.settings import Settings
from kernelwright.targets.gpu import peaks as gpu_peaks
from kernelwright.targets.gpu import roofline
from kernelwright.targets.gpu.driver_files import are_alike
from kernelwright.targets.gpu.facts import GpuFacts
from kernelwright.targets.gpu.machine import accelerator_of


def peaks_to_judge_by(where: Settings, device: str) -> Peaks | None:
    """Return what floors are computed with; None: the GPU is not known.

    Of a GPU the ceilings, with products in 16 bits taken for granted: only the work of a task is told, not
    whether its tolerance allows them.
    """
    if not parse_device(device).is_apart:
        return measure_peaks(where.cache_dir)
    gpu = gpu_to_judge_on(where, device)
    return None if gpu is None else roofline.gpu_peaks(roofline.ceilings(gpu), is_strict=False)


def machine_to_tell(where: Settings, device: str) -> Machine:
    """Return what is told to clients, so that they plan for it."""
    place = parse_device(device)
    accelerator = accelerator_of(place.kind, gpu_to_judge_on(where, device)) if place.is_apart else None
    return probe_machine(where.cache_dir).model_copy(
        update={"accelerator": accelerator, "sandbox": tier_here()}
    )


def gpu_to_judge_on(where: Settings, device: str) -> GpuFacts | None:
    """Return the GPU of a service; None: it has none, or which one is not known."""
    place = parse_device(device)
    is_known = place.has_driver and (place.index == 0 or are_alike())
    return gpu_peaks.run_gpu(place.kind, where.cache_dir) if is_known else None
