"""The assembler of NVIDIA's machine code that Triton brings along."""

import importlib.util
import os
import re
import subprocess
from functools import cache
from pathlib import Path

_VERSION = re.compile(r"\bV(\d+(?:\.\d+)+)")
_ASK_S = 60


def find_triton_ptxas() -> tuple[str, ...]:
    """Return name and version of each ``ptxas`` in Triton's package that answers; empty where none does."""
    spec = importlib.util.find_spec("triton")
    folders = (
        [Path(place) / "backends/nvidia/bin" for place in (spec.submodule_search_locations or [])]
        if spec
        else []
    )
    found = []
    for path in sorted(path for folder in folders for path in folder.glob("ptxas*")):
        version = _ask(path) if os.access(path, os.X_OK) else None
        if version is not None:
            found.append(f"{path.name} {version}")
    return tuple(found)


@cache
def _ask(path: Path) -> str | None:
    try:
        done = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=_ASK_S, stdin=subprocess.DEVNULL,
            check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    found = _VERSION.search(done.stdout)
    return found[1] if found else None
