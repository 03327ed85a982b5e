"""Kernelwright: a PyTorch module in, a verified faster one out."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernelwright.api import OptimizeResult, optimize

__all__ = ["OptimizeResult", "__version__", "optimize"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Load the public entry points on first use, so that importing the package stays light."""
    if name in ("OptimizeResult", "optimize"):
        return getattr(import_module("kernelwright.api"), name)
    raise AttributeError(f"module 'kernelwright' has no attribute {name!r}")
