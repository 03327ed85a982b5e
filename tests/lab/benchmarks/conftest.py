"""Benchmarks are programs: load one as a module."""

from importlib import import_module
from types import ModuleType

from kernelwright.referee.version import REFEREE_VERSION

WHERE = {"processor": "p", "cores": 2, "torch": "t", "compiler": "g++", "referee": REFEREE_VERSION}
"""An environment."""


def load_benchmark(name: str) -> ModuleType:
    """Return ``lab/benchmarks/NAME.py`` as a module."""
    return import_module(f"lab.benchmarks.{name}")
