"""GPUs of AMD as the referee sees them."""

from kernelwright.targets.device import DeviceKind, DriverFacts
from kernelwright.targets.gpu import torch_devices


def _is_here() -> bool:
    return torch_devices.has_gpu("hip")


AMD = DeviceKind(
    "hip",
    title="a GPU of AMD",
    torch_device="cuda:0",  # torch's name for AMD's too
    is_apart=True,
    driver=DriverFacts(
        name="libamdhip64",
        torch_field="hip",
        nodes=("/dev/kfd", "/dev/dri/renderD*"),
        reads=(
            "/sys/class/kfd",
            "/sys/class/drm",
            "/sys/dev/char",
            "/sys/devices/virtual/kfd",
            "/sys/devices/pci*",
            "/sys/module/amdgpu",
            "/opt/rocm",
        ),
        visible="HIP_VISIBLE_DEVICES",
        vendor="amd",
    ),
    baselines=("eager_tf32", "torch_compile_max_autotune"),
    is_here=_is_here,
    label="GPU",
    threads="threads at once",
    arithmetic="GFLOP/s with matrix units",
    hub_name="rocm",
    rounds_products=True,
)
"""``hip``."""
