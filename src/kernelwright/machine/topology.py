"""Facts about processor and memory from the operating system."""

import os
import platform
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_CPUINFO = Path("/proc/cpuinfo")
_MEMINFO = Path("/proc/meminfo")
_CPU_FOLDER = Path("/sys/devices/system/cpu")
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
    return len(os.sched_getaffinity(0))


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
    instances: dict[tuple[int, str], int] = {}
    for cpu in os.sched_getaffinity(0):
        for folder in (_CPU_FOLDER / f"cpu{cpu}" / "cache").glob("index*"):
            if _read(folder / "type") != "Instruction":
                level, shared = int(_read(folder / "level") or 0), _read(folder / "shared_cpu_list")
                instances[level, shared] = _parse_size(_read(folder / "size"))
    total = {n: sum(size for (level, _), size in instances.items() if level == n) for n in (1, 2, 3)}
    typical = {level: size * n_threads() for level, size in _TYPICAL_BYTES.items()}
    return Caches(l1=total[1] or typical[1], l2=total[2] or typical[2], l3=total[3] or None)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _parse_size(text: str) -> int:
    """Return the bytes of a size such as ``48K``; 0 for an empty text."""
    units = {"K": 10, "M": 20, "G": 30}
    return int(text.rstrip("KMG") or 0) << units.get(text[-1:], 0)
