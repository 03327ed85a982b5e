"""Where a CUDA compiler may be: nvcc of a toolkit or of the PyPI wheels, else NVRTC as a library."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

_RELEASE = re.compile(r"\bV(\d+(?:\.\d+)+)")
_PROGRAM = Path(__file__).with_name("nvrtc_program.py")
SYSTEM_HOME = "/usr/local/cuda"


@dataclass(frozen=True)
class CudaCompiler:
    """A compiler of CUDA C++ that answered when asked for its version."""

    kind: Literal["nvcc", "nvrtc"]
    """``nvrtc`` compiles kernels only: no launcher, no C++ library headers."""
    path: Path
    version: str

    @property
    def name(self) -> str:
        """Kind and version; results of different compilers lie in folders of this name."""
        return f"{self.kind}-{self.version}"

    @property
    def command(self) -> tuple[str, ...]:
        """The words that start it."""
        if self.kind == "nvcc":
            return (str(self.path),)
        return (sys.executable, "-I", str(_PROGRAM), str(self.path))


@dataclass(frozen=True)
class Absent:
    """A tool is not on this machine."""

    reason: str
    """One line: what was looked for, and what would help."""


def find_cuda_compiler() -> CudaCompiler | Absent:
    """Return nvcc from PATH, CUDA_HOME, CUDA_PATH, /usr/local/cuda or the wheels; else NVRTC from there."""
    unusable = []
    for path in _nvcc_places():
        found = _probe(path)
        if found is not None:
            return found
        unusable.append(str(path))
    library = find_nvrtc()
    if library is not None:
        return library
    also = f" (does not run: {', '.join(unusable)})" if unusable else ""
    return Absent(
        f"no CUDA compiler: no nvcc on PATH, in CUDA_HOME or among the packages, and no NVRTC{also}; "
        "install the CUDA toolkit, or: pip install nvidia-cuda-nvrtc"
    )


def find_nvrtc() -> CudaCompiler | None:
    """Return NVRTC of a toolkit or of the wheels."""
    for home in _homes():
        for folder in ("lib", "lib64"):
            for library in sorted((home / folder).glob("libnvrtc.so.*"), reverse=True):
                return CudaCompiler("nvrtc", library, _nvrtc_version(library))
    return None


def find_cuobjdump() -> Path | None:
    """Return the disassembler of a toolkit, of the wheels, or the one that Triton brings along."""
    triton = importlib.util.find_spec("triton")
    bundled = (
        [Path(p) / "backends/nvidia/bin" for p in (triton.submodule_search_locations or [])] if triton else []
    )
    for folder in (*_bin_folders(), *bundled):
        if os.access(folder / "cuobjdump", os.X_OK):
            return folder / "cuobjdump"
    on_path = shutil.which("cuobjdump")
    return Path(on_path) if on_path else None


def _homes() -> list[Path]:
    """Return installations of the toolkit; the wheels of CUDA 13 make one below ``nvidia/cu13``."""
    named = [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    wheels = [
        home for entry in sys.path for home in sorted(Path(entry or ".").glob("nvidia/*"), reverse=True)
    ]
    return [Path(home) for home in (*named, SYSTEM_HOME)] + wheels


def _bin_folders() -> list[Path]:
    return [home / "bin" for home in _homes()]


def _nvcc_places() -> Iterator[Path]:
    on_path = shutil.which("nvcc")
    places = [Path(on_path)] if on_path else []
    yield from dict.fromkeys(
        path for path in (*places, *(f / "nvcc" for f in _bin_folders())) if os.access(path, os.X_OK)
    )


@cache
def _probe(path: Path) -> CudaCompiler | None:
    try:
        asked = subprocess.run(
            [path, "--version"],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = _RELEASE.search(asked.stdout)
    return CudaCompiler("nvcc", path, found[1]) if found else None


def _nvrtc_version(library: Path) -> str:
    """Return the version that stands in the names of the files: loading it takes longer."""
    names = [path.name for path in library.parent.glob("libnvrtc-builtins.so.*")] + [library.name]
    return names[0].partition(".so.")[2]
