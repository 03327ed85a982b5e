"""What the figures of a benchmark hold for, and the line that says so below its tables."""

from collections.abc import Mapping
from typing import Any

from kernelwright.api.machines import environment_of
from kernelwright.machine.probe import probe_machine


def environment() -> dict[str, Any]:
    """Return the machine, the versions and the referee's version."""
    return dict(environment_of(probe_machine()))


def footer(result: Mapping[str, Any], gpus: str = "") -> str:
    """Return the line for a result with a ``date`` and an ``environment``."""
    where = result["environment"]
    return (
        f"{result['date']}; {gpus}{where['processor']}, {where['cores']} cores; torch {where['torch']}, "
        f"{where['compiler']}; referee version {where['referee']}."
    )
