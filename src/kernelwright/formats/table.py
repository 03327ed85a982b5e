"""The formats by name: who reads and who writes them. A new format is a file and a line here.

Converters are loaded when they are used.
"""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from kernelwright.core.options import EXPORT_FORMATS, IMPORT_FORMATS
from kernelwright.formats.package import Converted, Package

_READERS = {
    "flashinfer": ("flashinfer_in", "read_flashinfer"),
    "kernelbench": ("kernelbench", "read_kernelbench"),
    "popcorn": ("popcorn", "read_popcorn"),
    "robust-kbench": ("robust_kbench", "read_robust_kbench"),
}
_WRITERS = {
    "flashinfer": ("flashinfer_out", "write_flashinfer"),
    "hf-kernels": ("hf_kernels", "write_hf_kernels"),
    "kernelbench": ("kernelbench", "write_kernelbench"),
}
assert tuple(_READERS) == IMPORT_FORMATS and tuple(_WRITERS) == EXPORT_FORMATS


def reader(name: str) -> Callable[[Path], Converted]:
    """Return what reads a format."""
    found: Callable[[Path], Converted] = _load(*_READERS[name])
    return found


def writer(name: str) -> Callable[[Package], Converted]:
    """Return what writes a format."""
    found: Callable[[Package], Converted] = _load(*_WRITERS[name])
    return found


def _load(module: str, function: str) -> Any:
    return getattr(import_module(f"kernelwright.formats.{module}"), function)
