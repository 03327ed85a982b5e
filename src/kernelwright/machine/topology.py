"""Facts about processor and memory from the operating system."""

import os
import platform
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kernelwright.core.machine import Cache

_CPUINFO = Path("/proc/cpuinfo")
_MEMINFO = Path("/proc/meminfo")
_CPU_FOLDER = Path("/sys/devices/system/cpu")
_NODE_FOLDER = Path("/sys/devices/system/node")
_TYPICAL_BYTES = {1: 32 << 10, 2: 1 << 20}
"""Per core, used only to size the probe's arrays where the kernel names no caches."""


@dataclass(frozen=True)
class Caches:
    """Bytes of cache that the usable threads can reach, all instances of a level together."""

    l1: int
    """First-level data caches."""
    l2: int
    l3: int | None
    """None where the machine has none or does not say; on a virtual machine it may be shared with others."""


def n_threads() -> int:
    """Return how many processors this process may run on."""
    return len(usable_cores())


def usable_cores() -> tuple[int, ...]:
    """Return the numbers of the processors this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


@cache
def processor_model() -> str:
    """Return the processor's model name, the architecture where the kernel gives no name."""
    return _cpuinfo().get("model name") or platform.processor() or platform.machine()


@cache
def vector_bytes() -> int | None:
    """Return the width of the widest vector registers, None on an architecture we do not know."""
    flags = set(_cpuinfo().get("flags", "").split())
    widths = {"avx512f": 64, "avx": 32, "sse2": 16}
    found = [width for flag, width in widths.items() if flag in flags]
    return max(found) if found else {"aarch64": 16, "arm64": 16}.get(platform.machine())


_ISA = ("sse4_2", "avx", "fma", "f16c", "amx", "asimd", "neon", "sve", "bf16", "i8mm")
"""Beginnings of the names of extensions that matter to kernels."""


@cache
def isa() -> tuple[str, ...]:
    """Return the extensions of the instruction set that matter to kernels, by the kernel's names, sorted."""
    flags = set(_cpuinfo().get("flags", _cpuinfo().get("Features", "")).split())
    return tuple(sorted(flag for flag in flags if flag.startswith(_ISA)))


def features() -> str:
    """Return everything that tells this kind of processor from others for a compiler."""
    known = _cpuinfo().get("flags", _cpuinfo().get("Features", ""))
    return f"{platform.machine()} {' '.join(sorted(known.split()))}"


@cache
def _cpuinfo() -> dict[str, str]:
    """Return the first processor's fields."""
    try:
        first = _CPUINFO.read_text(encoding="utf-8").split("\n\n")[0]
    except OSError:
        return {}
    pairs = (line.partition(":") for line in first.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def total_memory() -> int | None:
    """Return the bytes of main memory, None when unknown."""
    return _meminfo("MemTotal")


def available_memory() -> int | None:
    """Return the bytes of memory that are available without swapping, None when unknown."""
    return _meminfo("MemAvailable")


def _meminfo(name: str) -> int | None:
    try:
        lines = _MEMINFO.read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith(f"{name}:")), None)


def caches() -> Caches:
    """Return the sizes of the data caches; typical ones where the kernel names none."""
    total = {cache.level: cache.instance_bytes * cache.instances for cache in cache_levels()}
    typical = {level: size * n_threads() for level, size in _TYPICAL_BYTES.items()}
    return Caches(l1=total.get(1) or typical[1], l2=total.get(2) or typical[2], l3=total.get(3))


def cache_levels() -> tuple[Cache, ...]:
    """Return the data caches that the usable cores reach, by level; empty where the kernel names none.

    Where a machine has cores of several kinds, a level has the smallest of its sizes.
    """
    instances: defaultdict[int, dict[str, int]] = defaultdict(dict)
    for cpu in usable_cores():
        for folder in (_CPU_FOLDER / f"cpu{cpu}" / "cache").glob("index*"):
            size = _parse_size(_read(folder / "size"))
            if _read(folder / "type") != "Instruction" and size:
                instances[int(_read(folder / "level") or 0)][_read(folder / "shared_cpu_list")] = size
    return tuple(
        Cache(
            level=level,
            instance_bytes=min(found.values()),
            shared_by=max(map(_count_cores, found)),
            instances=len(found),
        )
        for level, found in sorted(instances.items())
    )


def memory_nodes() -> tuple[int, ...]:
    """Return the memory nodes whose cores this process may use; one where the kernel names none."""
    found = [
        int(folder.name.removeprefix("node"))
        for folder in _NODE_FOLDER.glob("node[0-9]*")
        if any((folder / f"cpu{core}").exists() for core in usable_cores())
    ]
    return tuple(sorted(found)) or (0,)


def _count_cores(text: str) -> int:
    """Return how many cores a list such as ``0-3,8`` names; 1 for an empty one."""
    ends = [part.split("-") for part in text.split(",") if part]
    return sum(int(pair[-1]) - int(pair[0]) + 1 for pair in ends) or 1


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _parse_size(text: str) -> int:
    """Return the bytes of a size such as ``48K``; 0 for an empty text."""
    units = {"K": 10, "M": 20, "G": 30}
    return int(text.rstrip("KMG") or 0) << units.get(text[-1:], 0)
