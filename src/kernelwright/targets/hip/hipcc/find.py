"""Where a compiler of HIP may be: ROCm's hipcc, else a clang that has AMD's back end."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from kernelwright.targets.cuda.nvcc.find import Absent

_VERSION = re.compile(r"(?:HIP|clang) version:? *(\d+(?:\.\d+)+)")
SYSTEM_HOME = "/opt/rocm"
_PROBE_S = 60


@dataclass(frozen=True)
class HipCompiler:
    """A compiler of HIP that answered when asked for its version."""

    kind: Literal["hipcc", "clang"]
    """``clang`` is one without ROCm: kernels are compiled against a header of ours (``shim.h``)."""
    path: Path
    version: str

    @property
    def name(self) -> str:
        """Kind and version."""
        return f"{self.kind}-{self.version}"


def find_hip_compiler() -> HipCompiler | Absent:
    """Return hipcc from PATH, ROCM_PATH or /opt/rocm; else clang from HIP_CLANG_PATH, there, or PATH."""
    for kind, path in _places():
        found = _probe(kind, path)
        if found is not None:
            return found
    return Absent(
        "no compiler of HIP: no hipcc on PATH or in ROCM_PATH, and no clang with AMD's back end; "
        "install ROCm, or Debian's clang-19"
    )


def _places() -> Iterator[tuple[Literal["hipcc", "clang"], Path]]:
    homes = [os.environ.get("ROCM_PATH", ""), SYSTEM_HOME]
    bins = [Path(home, "bin") for home in homes if home]
    folders = [Path(entry) for entry in os.environ.get("PATH", "").split(os.pathsep) if entry]
    for folder in (*folders, *bins):
        if shutil.which("hipcc", path=str(folder)):
            yield "hipcc", folder / "hipcc"
    own = [Path(os.environ["HIP_CLANG_PATH"])] if os.environ.get("HIP_CLANG_PATH") else []
    for folder in (*own, *(home / "llvm/bin" for home in map(Path, homes) if str(home) != "."), *folders):
        versioned = sorted(folder.glob("clang++-[0-9]*"), key=_number, reverse=True)
        yield from (("clang", path) for path in (folder / "clang++", *versioned) if os.access(path, os.X_OK))


def _number(path: Path) -> int:
    digits = path.name.rpartition("-")[2]
    return int(digits) if digits.isdigit() else 0


@cache
def _probe(kind: Literal["hipcc", "clang"], path: Path) -> HipCompiler | None:
    words = _ask(path, "--version")
    found = _VERSION.search(words)
    if found is None or (kind == "clang" and "amdgcn" not in _ask(path, "--print-targets")):
        return None
    return HipCompiler(kind, path, found[1])


def _ask(path: Path, option: str) -> str:
    command = [str(path), option]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_PROBE_S, stdin=subprocess.DEVNULL, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout
