"""HIP C++ on GPUs of AMD."""

from kernelwright.core.target import TargetName
from kernelwright.targets.gpu.target import GpuTarget
from kernelwright.targets.hip.device import AMD


class HipTarget(GpuTarget):
    """``hip/hip``: ``kernelwright inspect`` compiles it; nothing of ours writes or runs it."""

    name = TargetName(device="hip", language="hip")
    device = AMD
    is_run = False


HIP_HIP = HipTarget()
