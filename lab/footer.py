"""What the figures of a benchmark hold for, and the line that says so below its tables."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernelwright.api.machines import environment_of
from kernelwright.machine.probe import probe_machine
from kernelwright.referee.version import REFEREE_VERSION


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


def row_line(row: Mapping[str, Any]) -> str:
    """Return a row as a line of a file from which a benchmark is carried on."""
    return json.dumps({**row, "referee": REFEREE_VERSION}) + "\n"


def rows_in(file: Path) -> list[dict[str, Any]]:
    """Return the rows of such a file that this version of the referee made; a line cut short is left out."""
    if not file.exists():
        return []
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").split("\n")[:-1]]
    return [row for row in rows if row.pop("referee", None) == REFEREE_VERSION]
