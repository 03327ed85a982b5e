"""The device that tensors live on, as the parent sees it: its name, how a process reaches it, its caches."""

import contextlib
import glob
import math
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from kernelwright.core.errors import UserError
from kernelwright.targets.gpu.facts import find_gpu

KNOWN_DEVICES = ("cpu", "cuda", "cuda:N", "hip", "hip:N")
COPIED = "copied"
"""The processor as a device: tensors have memory of their own, as on a GPU. For tests; works everywhere."""
CACHES = 3
"""Timed calls rotate through argument sets whose sizes add up to this many times the last cache."""
MAX_LANES = 64
"""Most copies of one argument set. Sets so small that these copies do not fill the caches are timed warm."""
MEMORY_SHARE = 0.25
"""Largest share of a device's free memory that one process's argument sets may take."""
_NODES = {
    "cuda": (
        "/dev/nvidiactl",
        "/dev/nvidia-uvm",
        "/dev/nvidia-uvm-tools",
        "/dev/nvidia[0-9]*",
        "/dev/nvidia-caps/*",
        "/dev/dxg",
    ),
    "hip": ("/dev/kfd", "/dev/dri/renderD*"),
}
_READ = {
    "cuda": ("/sys/module/nvidia", "/sys/module/nvidia_uvm", "/etc/nvidia"),
    "hip": (
        "/sys/class/kfd",
        "/sys/class/drm",
        "/sys/dev/char",
        "/sys/devices/virtual/kfd",
        "/sys/devices/pci*",
        "/sys/module/amdgpu",
        "/opt/rocm",
    ),
}
_MADE_LATE = {"cuda": ("/dev/nvidia-uvm", "/dev/dxg")}
"""Device files that the driver makes when a process first uses a GPU, if none of them exists yet."""
_WAKE = "import ctypes; ctypes.CDLL('libcuda.so.1').cuInit(0)"
_WAKE_S = 60.0
_VISIBLE = {"cuda": "CUDA_VISIBLE_DEVICES", "hip": "HIP_VISIBLE_DEVICES"}


@dataclass(frozen=True)
class Device:
    """One device of this machine."""

    kind: str = "cpu"
    """``cpu``, ``cuda``, ``hip``, or ``copied``."""
    index: int = 0

    def __str__(self) -> str:
        return f"{self.kind}:{self.index}" if self.has_driver else self.kind

    @property
    def is_apart(self) -> bool:
        """True when tensors live in memory of their own and not in the processes' shared memory."""
        return self.kind != "cpu"

    @property
    def has_driver(self) -> bool:
        """True for a GPU, whose driver needs device files, other files and more address space."""
        return self.kind in _NODES

    def environment(self, outer: Mapping[str, str]) -> dict[str, str]:
        """Return environment variables that show processes this device only, given our environment."""
        if not self.has_driver:
            return {}
        variable = _VISIBLE[self.kind]
        seen = [name.strip() for name in outer.get(variable, "").split(",") if name.strip()]
        own = seen[self.index] if self.index < len(seen) else str(self.index)
        found = {variable: own, "PYTORCH_NVML_BASED_CUDA_CHECK": "1"}  # a check must not initialise the GPU
        if self.kind == "cuda":
            found["CUDA_DEVICE_ORDER"] = outer.get("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
        if "LD_LIBRARY_PATH" in outer:
            found["LD_LIBRARY_PATH"] = outer["LD_LIBRARY_PATH"]  # where containers put the driver
        return found

    def wake(self) -> None:
        """Use the GPU once in a process of its own, so that the driver makes its device files."""
        late = _MADE_LATE.get(self.kind, ())
        if late and not _found(late):
            with contextlib.suppress(OSError, subprocess.SubprocessError):
                subprocess.run(
                    [sys.executable, "-I", "-c", _WAKE], capture_output=True, check=False, timeout=_WAKE_S
                )

    def nodes(self) -> list[str]:
        """Return the device files that the driver opens."""
        return _found(_NODES.get(self.kind, ()))

    def files(self) -> list[str]:
        """Return the files and folders that the driver reads besides the system's libraries."""
        folders = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep) if self.has_driver else []
        return _found((*_READ.get(self.kind, ()), *filter(None, folders)))


@dataclass(frozen=True)
class DeviceFacts:
    """Facts of a device, as reported by a process that uses it."""

    name: str = "cpu"
    cache_bytes: int = 0
    """Size of the device's largest cache; 0: unknown, or timed calls need not avoid it."""
    free_bytes: int | None = None
    """Free memory of the device; None: it uses the machine's memory."""
    architecture: str | None = None
    """Architecture that CUDA C++ is built for, such as ``sm_90a``; None where there is none."""

    @classmethod
    def of(
        cls, name: str, cache_bytes: int, free_bytes: int | None, architecture: str | None = None
    ) -> "DeviceFacts":
        """Return the facts; published cache sizes replace reported ones that are smaller."""
        try:
            known = find_gpu(name)
        except UserError:
            return cls(name, cache_bytes, free_bytes, architecture)
        caches = (cache_bytes, known.l2_bytes or 0, known.last_level_bytes or 0)
        return cls(name, max(caches), free_bytes, architecture)


def parse_device(text: str) -> Device:
    """Parse ``cpu``, ``cuda``, ``cuda:1``, ``hip`` ...; raises UserError for anything else.

    Example:
        >>> str(parse_device("cuda"))
        'cuda:0'
    """
    found = re.fullmatch(r"(cpu|copied)|(cuda|hip)(?::(\d{1,3}))?", text)
    if found is None:
        raise UserError(f"unknown device {text!r}; known: {', '.join(KNOWN_DEVICES)}")
    return Device(found[1] or found[2], int(found[3] or 0))


def n_lanes(set_bytes: int, n_sets: int, cache_bytes: int, room_bytes: int) -> int:
    """Return the number of copies of each argument set that timed calls need to find none in the caches.

    At least 1, at most ``MAX_LANES``, and no more than fit into ``MEMORY_SHARE`` of ``room_bytes``.
    """
    one = max(set_bytes * n_sets, 1)
    wanted = math.ceil(CACHES * cache_bytes / one)
    fitting = int(room_bytes * MEMORY_SHARE) // one
    return max(1, min(wanted, fitting, MAX_LANES))


def _found(patterns: tuple[str, ...]) -> list[str]:
    return sorted({path for pattern in patterns for path in glob.glob(pattern)})
