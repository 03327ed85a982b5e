"""The Machine of a run for a GPU."""

from pathlib import Path

from kernelwright.core.machine import Accelerator, Machine
from kernelwright.core.roofline import Peaks
from kernelwright.machine.probe import probe_machine
from kernelwright.targets.gpu.facts import GpuFacts
from kernelwright.targets.gpu.peaks import run_gpu
from kernelwright.targets.gpu.roofline import source_of
from kernelwright.targets.registry import device_kinds


def accelerator_of(kind: str, gpu: GpuFacts | None, peaks: Peaks | None = None) -> Accelerator:
    """Return a GPU as plans and evidence need it; None: one of a kind (``cuda``, ``hip``), not known."""
    if gpu is None:
        return Accelerator(kind=kind)
    return Accelerator(
        kind=kind,
        name=gpu.name,
        architecture=gpu.architecture,
        units=gpu.units,
        warp_lanes=gpu.limits.warp_lanes,
        l2_bytes=gpu.l2_bytes,
        shared_bytes_per_unit=gpu.limits.shared_bytes,
        fp32_flops=gpu.flops.fp32,
        bandwidth=gpu.memory_bandwidth,
        source=source_of(gpu),
        peaks=peaks,
    )


def kind_of(gpu: GpuFacts) -> str:
    """Return the kind of device that a GPU is, ``cuda`` or ``hip``."""
    return next(
        kind.name for kind in device_kinds() if kind.driver and kind.driver.vendor == gpu.limits.vendor
    )


def probe_gpu_machine(kind: str, cache_dir: Path) -> Machine:
    """Return this machine with the GPU of a kind that candidates run on; its processor's peaks too.

    Raises:
        MachineError: see ``probe_machine``.
    """
    return probe_machine(cache_dir).model_copy(
        update={"accelerator": accelerator_of(kind, run_gpu(kind, cache_dir))}
    )
