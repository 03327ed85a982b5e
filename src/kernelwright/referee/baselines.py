"""What a candidate can be compared with, and what has to be installed for that."""

from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version

from kernelwright.referee.device import parse_device

KNOWN_BASELINES = ("eager", "torch_compile")
"""On every device; a target's device may have more."""
PACKAGES = {"onnxruntime": ("onnxruntime", "onnx", "onnxscript"), "openvino": ("openvino",)}
"""What some baselines need beyond torch: the extra ``peers``."""


def known_baselines(device: str) -> tuple[str, ...]:
    """Return what there is to compare with on a device; raises UserError where there is no such device.

    The ``copied`` device of the tests has those of a GPU, so that their way can be tested anywhere.
    """
    return (*KNOWN_BASELINES, *parse_device(device).about.baselines)


def package_versions(names: Iterable[str]) -> dict[str, str | None]:
    """Return package -> version of what these baselines need beyond torch; None where it is not installed."""
    found: dict[str, str | None] = {}
    for package in (package for name in names for package in PACKAGES.get(name, ())):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return found
