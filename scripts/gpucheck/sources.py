"""Compiles what was installed without compiled sources: every new process would spend seconds on it again."""

import compileall
import importlib.util
from collections.abc import Sequence
from pathlib import Path

PACKAGES = ("torch", "sympy", "networkx", "triton", "numpy", "kernelwright")


def compile_sources(names: Sequence[str] = PACKAGES) -> None:
    """Compile these packages beside their sources; those that are compiled, missing or read-only stay."""
    for name in names:
        found = importlib.util.find_spec(name)
        for folder in (found.submodule_search_locations or ()) if found else ():
            if Path(folder).is_dir():
                compileall.compile_dir(folder, quiet=2, workers=0)
