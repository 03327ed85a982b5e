"""Benchmarks are programs: load one as a module."""

from importlib import import_module
from types import ModuleType


def load_benchmark(name: str) -> ModuleType:
    """Return ``lab/benchmarks/NAME.py`` as a module."""
    return import_module(f"lab.benchmarks.{name}")
