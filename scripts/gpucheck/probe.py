"""Run by itself: says as JSON which GPU torch sees here, which versions are there, and what is missing."""

import importlib
import importlib.metadata
import json
import platform
import sys
from typing import Any

from gpucheck.sources import compile_sources

NEEDED = (
    "numpy", "cloudpickle", "jinja2", "pydantic", "yaml", "rich", "sqlalchemy", "typer", "pytest",
    "hypothesis",
)  # fmt: skip
SHOWN = ("torch", "triton", "numpy", "pydantic", "pytest")


def main() -> None:
    """Print one document on the last line."""
    versions = {"python": platform.python_version()}
    for name in SHOWN:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    missing = [name for name in NEEDED if not _imports(name)]
    found: dict[str, Any] = {
        "versions": versions,
        "missing": missing,
        "devices": [],
        "vendor": None,
        "problem": "",
    }
    found |= _devices(versions)
    if not found["problem"]:
        compile_sources()
    sys.stdout.write(json.dumps(found) + "\n")


def _imports(name: str) -> bool:
    try:
        importlib.import_module(name)
    except Exception:
        return False
    return True


def _devices(versions: dict[str, str]) -> dict[str, Any]:
    try:
        import torch
    except Exception as error:
        return {"problem": f"torch cannot be imported by {sys.executable}: {type(error).__name__}: {error}"}
    versions["torch"] = str(torch.__version__)
    vendor = "hip" if torch.version.hip else "cuda" if torch.version.cuda else None
    if vendor is None:
        return {"problem": f"torch {torch.__version__} is built for the CPU alone"}
    versions[vendor] = str(torch.version.hip or torch.version.cuda)
    try:
        if not torch.cuda.is_available():
            return {"problem": f"torch {torch.__version__} sees no device"}
        torch.ones(8, device="cuda").sum().item()
        devices = [_device(torch, number) for number in range(torch.cuda.device_count())]
    except Exception as error:
        return {"problem": f"the device does not work: {type(error).__name__}: {error}"}
    return {"vendor": vendor, "devices": devices}


def _device(torch: Any, number: int) -> dict[str, Any]:
    properties = torch.cuda.get_device_properties(number)
    return {
        "name": properties.name,
        "capability": f"{properties.major}.{properties.minor}",
        "architecture": getattr(properties, "gcnArchName", None),
        "units": properties.multi_processor_count,
        "memory_bytes": properties.total_memory,
    }


if __name__ == "__main__":
    main()
