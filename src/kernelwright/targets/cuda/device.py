"""GPUs of NVIDIA as the referee sees them."""

from kernelwright.targets.device import DeviceKind, DriverFacts
from kernelwright.targets.gpu import torch_devices


def _is_here() -> bool:
    return torch_devices.has_gpu("cuda")


NVIDIA = DeviceKind(
    "cuda",
    title="a GPU of NVIDIA",
    torch_device="cuda:0",
    is_apart=True,
    driver=DriverFacts(
        name="libcuda",
        torch_field="cuda",
        nodes=(
            "/dev/nvidiactl",
            "/dev/nvidia-uvm",
            "/dev/nvidia-uvm-tools",
            "/dev/nvidia[0-9]*",
            "/dev/nvidia-caps/*",
            "/dev/dxg",
        ),
        reads=("/sys/module/nvidia", "/sys/module/nvidia_uvm", "/etc/nvidia"),
        made_late=("/dev/nvidia-uvm", "/dev/dxg"),
        wake="import ctypes; ctypes.CDLL('libcuda.so.1').cuInit(0)",
        visible="CUDA_VISIBLE_DEVICES",
        passed_on=(("CUDA_DEVICE_ORDER", "PCI_BUS_ID"),),
        compiler_homes=("CUDA_HOME", "CUDA_PATH"),
        vendor="nvidia",
    ),
    baselines=("eager_tf32", "torch_compile_max_autotune"),
    is_here=_is_here,
    label="GPU",
    threads="threads at once",
    arithmetic="GFLOP/s with matrix units",
    rounds_products=True,
)
"""``cuda``."""
