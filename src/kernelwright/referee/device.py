"""The device that tensors live on, as the parent sees it: its name, how a process reaches it, its caches."""

import contextlib
import glob
import itertools
import math
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from kernelwright.core.errors import UserError
from kernelwright.machine.device_lease import processor_names
from kernelwright.targets.device import PROCESSOR, DeviceKind
from kernelwright.targets.gpu.facts import find_gpu
from kernelwright.targets.registry import device_kinds, find_device_kind

COPIED = "copied"
"""The processor as a device: tensors have memory of their own, as on a GPU. For tests; works everywhere."""
CACHES = 3
"""Timed calls rotate through argument sets whose sizes add up to this many times the last cache."""
MAX_LANES = 64
"""Most copies of one argument set. Sets so small that these copies do not fill the caches are timed warm."""
MEMORY_SHARE = 0.25
"""Of a device's free memory, at most this share goes to one process's argument sets."""
_COPIED_KIND = DeviceKind(COPIED, is_apart=True, baselines=("eager_tf32", "torch_compile_max_autotune"))
_WAKE_S = 60.0


@dataclass(frozen=True)
class Device:
    """One device of this machine."""

    kind: str = PROCESSOR.name
    """Name of a kind of device that some target runs on, or ``copied``."""
    index: int = 0

    def __str__(self) -> str:
        return f"{self.kind}:{self.index}" if self.has_driver else self.kind

    @property
    def about(self) -> DeviceKind:
        """What is known of its kind."""
        return _COPIED_KIND if self.kind == COPIED else find_device_kind(self.kind)

    @property
    def is_apart(self) -> bool:
        """True when tensors live in memory that is not the processes' shared one."""
        return self.about.is_apart

    @property
    def has_driver(self) -> bool:
        """True for a GPU: its driver needs devices, files and address space that others do without."""
        return self.about.driver is not None

    @property
    def driver(self) -> str:
        """Name of its driver; empty where it has none."""
        return self.about.driver.name if self.about.driver else ""

    def placing(self) -> dict[str, str]:
        """Return what a process is told that is to have its tensors there."""
        driver = self.about.driver
        return {
            "kind": self.kind,
            "torch_device": self.about.torch_device,
            "driver": self.driver,
            "torch_field": driver.torch_field if driver else "",
        }

    def environment(self, outer: Mapping[str, str]) -> dict[str, str]:
        """Return what processes are to find in their environment, given ours: they see this device only."""
        driver = self.about.driver
        if driver is None:
            return {}
        seen = [name.strip() for name in outer.get(driver.visible, "").split(",") if name.strip()]
        own = seen[self.index] if self.index < len(seen) else str(self.index)
        found = {driver.visible: own, "PYTORCH_NVML_BASED_CUDA_CHECK": "1"}  # looking must not begin using it
        found |= {name: outer.get(name, value) for name, value in driver.passed_on}
        kept = (*driver.compiler_homes, "LD_LIBRARY_PATH")  # where containers put the driver
        return found | {name: outer[name] for name in kept if name in outer}

    def lease_names(self) -> tuple[str, ...]:
        """Return what a process must hold alone while it times: the GPU, or the memory nodes of its cores."""
        driver = self.about.driver
        if driver is None:
            return processor_names()
        own = self.environment(os.environ)[driver.visible]
        return (f"{self.kind}-{re.sub(r'[^A-Za-z0-9.-]', '-', own)}",)

    def wake(self) -> None:
        """Have the driver make device files that it makes on first use, in a process of its own."""
        driver = self.about.driver
        if driver is not None and driver.made_late and not _found(driver.made_late):
            with contextlib.suppress(OSError, subprocess.SubprocessError):
                subprocess.run(
                    [sys.executable, "-I", "-c", driver.wake],
                    capture_output=True, check=False, timeout=_WAKE_S,
                )  # fmt: skip

    def nodes(self) -> list[str]:
        """Return the device files that its driver opens."""
        return _found(self.about.driver.nodes) if self.about.driver else []

    def files(self) -> list[str]:
        """Return what its driver reads beside the system's libraries."""
        if self.about.driver is None:
            return []
        folders = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
        return _found((*self.about.driver.reads, *filter(None, folders)))


@dataclass(frozen=True)
class DeviceFacts:
    """Facts of a device, as reported by a process that uses it."""

    name: str = PROCESSOR.name
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
    name, _, index = text.partition(":")
    kinds = {kind.name: kind for kind in (*device_kinds(), _COPIED_KIND)}
    has_index = name in kinds and kinds[name].driver is not None
    if name not in kinds or (text != name and not (has_index and re.fullmatch(r"\d{1,3}", index))):
        raise UserError(f"unknown device {text!r}; known: {', '.join(known_devices())}")
    return Device(name, int(index or 0))


def known_devices() -> tuple[str, ...]:
    """Return how devices are written, for messages."""
    names = ((kind.name, f"{kind.name}:N") if kind.driver else (kind.name,) for kind in device_kinds())
    return tuple(itertools.chain.from_iterable(names))


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
