"""``doctor``'s looks at what GPU kernels need: none of it is needed for the main job."""

from collections import Counter
from pathlib import Path

from kernelwright.core.errors import UserError
from kernelwright.machine import probe
from kernelwright.machine.check import MachineCheck
from kernelwright.targets.cuda.nvcc.find import Absent, find_cuda_compiler
from kernelwright.targets.gpu.driver_files import find_gpus
from kernelwright.targets.gpu.facts import GpuFacts, find_gpu
from kernelwright.targets.gpu.peaks import gpu_here
from kernelwright.targets.gpu.ptxas import find_triton_ptxas
from kernelwright.targets.gpu.roofline import source_of
from kernelwright.targets.gpu.torch_devices import NODES, has_gpu
from kernelwright.targets.hip.hipcc.find import find_hip_compiler


def check_gpu(_: Path) -> MachineCheck:
    """Name the GPUs; none is an answer."""
    found = find_gpus()
    if not found:
        return MachineCheck(
            "gpu", False, "none", "not needed: candidates are built for GPUs ahead of time (inspect)"
        )
    names = Counter(f"{gpu.name}, driver {gpu.driver}" if gpu.driver else gpu.name for gpu in found)
    torch = probe.version_of("torch") or ""
    advice = "the torch here is built for the CPU and will not see it" if torch.endswith("+cpu") else ""
    return MachineCheck("gpu", True, "; ".join(f"{n} x {name}" for name, n in names.items()), advice)


def check_gpu_peaks(cache_dir: Path) -> MachineCheck:
    """Say which peaks runs on a GPU are held against: measured where torch sees it, else published."""
    here = [gpu for kind in NODES if has_gpu(kind) and (gpu := gpu_here(kind, cache_dir)) is not None]
    known = here or [gpu for seen in find_gpus() if (gpu := _published(seen.name)) is not None]
    if not known:
        return MachineCheck(
            "gpu peaks", False, "none", "not needed without a GPU; `inspect` takes published figures"
        )
    return MachineCheck("gpu peaks", True, "; ".join(dict.fromkeys(map(_peaks_line, known))))


def _published(name: str) -> GpuFacts | None:
    try:
        return find_gpu(name)
    except UserError:
        return None


def _peaks_line(gpu: GpuFacts) -> str:
    rates = ", ".join(f"{name} {peak / 1e12:.0f}" for name, peak in gpu.flops if peak is not None)
    return f"{gpu.name}: {gpu.memory_bandwidth / 1e9:.0f} GB/s, {rates} TFLOP/s ({source_of(gpu)})"


def check_triton(_: Path) -> MachineCheck:
    """Name Triton's version and the assemblers of NVIDIA's code that it brings along."""
    version = probe.version_of("triton")
    if version is None:
        return MachineCheck("triton", False, "none", "needed only for Triton kernels: pip install triton")
    bundled = find_triton_ptxas()
    if not bundled:
        return MachineCheck(
            "triton", True, f"{version}, no ptxas in it", "building for NVIDIA needs one (inspect)"
        )
    return MachineCheck("triton", True, f"{version}, with {', '.join(bundled)}")


def check_cuda_compiler(_: Path) -> MachineCheck:
    """Name nvcc, or what else compiles CUDA C++."""
    found = find_cuda_compiler()
    if isinstance(found, Absent):
        return MachineCheck("cuda compiler", False, "none", f"needed only for CUDA C++: {found.reason}")
    limits = "" if found.kind == "nvcc" else "compiles kernels, makes no launchers"
    return MachineCheck("cuda compiler", True, f"{found.name} ({found.path})", limits)


def check_hip_compiler(_: Path) -> MachineCheck:
    """Name hipcc, or what else compiles HIP C++."""
    found = find_hip_compiler()
    if isinstance(found, Absent):
        return MachineCheck("hip compiler", False, "none", f"needed only for HIP C++: {found.reason}")
    limits = (
        "" if found.kind == "hipcc" else "a clang without ROCm: kernels are compiled against our own header"
    )
    return MachineCheck("hip compiler", True, f"{found.name} ({found.path})", limits)


LOOKS = {
    "gpu": check_gpu,
    "gpu peaks": check_gpu_peaks,
    "triton": check_triton,
    "cuda compiler": check_cuda_compiler,
    "hip compiler": check_hip_compiler,
}
"""Every look of this file, in the order in which it is shown."""
