"""Which GPUs this machine has, asked of the driver's own files and tools; torch is not needed."""

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

NVIDIA_NODES, AMD_NODES = Path("/dev"), Path("/sys/class/kfd/kfd/topology/nodes")
_ASK_S = 30
_GFX = re.compile(r"^gfx_target_version (\d+)$", re.MULTILINE)


@dataclass(frozen=True)
class GpuHere:
    """A GPU that the system shows."""

    name: str
    """As the driver names it; the device node where it names none."""
    driver: str | None = None
    """Its version."""


def find_gpus() -> tuple[GpuHere, ...]:
    """Return NVIDIA's GPUs and then AMD's; empty where there are none. Never raises."""
    return (*_nvidia(), *_amd())


def are_alike() -> bool:
    """Return True when all of them are of one model: what is known of the first holds for the others."""
    return len({gpu.name for gpu in find_gpus()}) == 1


def _nvidia() -> tuple[GpuHere, ...]:
    found = _smi()
    if found:
        return found
    nodes = [path.name for path in NVIDIA_NODES.glob("nvidia[0-9]*")] if NVIDIA_NODES.is_dir() else []
    return tuple(GpuHere(f"NVIDIA ({name})") for name in sorted(nodes))


def _smi() -> tuple[GpuHere, ...]:
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return ()
    command = [tool, "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_ASK_S,
            stdin=subprocess.DEVNULL, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return ()
    rows = [line.rpartition(",") for line in done.stdout.splitlines() if "," in line]
    return tuple(GpuHere(name.strip(), driver.strip() or None) for name, _, driver in rows)


def _amd() -> tuple[GpuHere, ...]:
    found = []
    try:
        for path in sorted(AMD_NODES.glob("*/properties")):
            match = _GFX.search(path.read_text(encoding="utf-8", errors="replace"))
            if match and int(match[1]):
                found.append(GpuHere(f"AMD {_gfx(int(match[1]))}"))
    except OSError:
        pass
    return tuple(found)


def _gfx(version: int) -> str:
    """Return the architecture's name of ``gfx_target_version``: 90402 is gfx942."""
    major, rest = divmod(version, 10000)
    minor, stepping = divmod(rest, 100)
    return f"gfx{major}{minor}{stepping:x}"
