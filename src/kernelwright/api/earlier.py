"""Rows that the same bench left elsewhere: read from its results, and joined with those of this store."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, Field, ValidationError

from kernelwright.core.errors import UserError
from kernelwright.core.evidence import FactValue
from kernelwright.core.frozen import Frozen
from kernelwright.core.request import BenchRequest
from kernelwright.referee.version import REFEREE_VERSION
from kernelwright.report.files import json_text
from kernelwright.report.tables import BenchRow
from kernelwright.tasks.places import BenchTask


class Measured(Frozen):
    """What one bench measured, as its ``results.json`` has it."""

    model_config = ConfigDict(extra="ignore")

    rows: tuple[BenchRow, ...] = ()
    devices: dict[str, dict[str, FactValue]] = Field(default_factory=dict)
    """What figures from each hold for; rows name theirs."""
    conditions: dict[str, Any] = Field(default_factory=dict)
    """See ``conditions_of``; empty in results that older versions wrote."""


def conditions_of(request: BenchRequest, baselines: tuple[str, ...] | None) -> dict[str, Any]:
    """Return what two benches must have in common for their rows to stand in one table."""
    conditions = {
        "recipe": request.recipe,
        "team": request.team,
        "target": request.target,
        "seed": request.seed,
        "budget": request.budget.model_dump(exclude_none=True),
        "policy": request.policy,
        "baselines": baselines,
        "quick": request.quick,
        "referee": REFEREE_VERSION,
    }
    plain: dict[str, Any] = json.loads(json_text(conditions))
    return plain


def read_earlier(files: Iterable[str], conditions: Mapping[str, Any]) -> list[Measured]:
    """Return what the files hold; raises UserError where a file has none, or was measured otherwise."""
    return [_read(Path(file), conditions) for file in files]


def _read(file: Path, conditions: Mapping[str, Any]) -> Measured:
    try:
        measured = Measured.model_validate_json(file.read_bytes())
    except OSError as error:
        raise UserError(f"--earlier {file}: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise UserError(
            f"--earlier {file}: no results of a bench: {where} {first['msg']}".rstrip()
        ) from error
    if not measured.conditions:
        raise UserError(f"--earlier {file}: its conditions are not known; run these tasks again")
    for name, wanted in conditions.items():
        if (had := measured.conditions.get(name)) != wanted:
            raise UserError(
                f"--earlier {file}: {name} was {had}, and is {wanted} here; run these tasks again"
            )
    return measured


def rows_for(tasks: Iterable[BenchTask], parts: Iterable[Measured]) -> list[Measured]:
    """Return of each part the rows of these tasks, the first of each; failed ones are to be run again."""
    wanted = {entry.task.id: entry for entry in tasks}
    kept: list[Measured] = []
    for part in parts:
        rows = []
        for row in part.rows:
            if row.is_success and (entry := wanted.pop(row.task_id, None)) is not None:
                rows.append(row.model_copy(update={"task": entry.task.name, "group": entry.group}))
        judges = {row.device for row in rows}
        devices = {device: facts for device, facts in part.devices.items() if device in judges}
        kept.append(part.model_copy(update={"rows": tuple(rows), "devices": devices}))
    return kept


def join(parts: Iterable[Measured]) -> Measured:
    """Return all rows with the devices of all; devices of one name that differ get names of their own."""
    devices: dict[str, dict[str, FactValue]] = {}
    rows: list[BenchRow] = []
    for part in parts:
        names = {}
        for device, facts in part.devices.items():
            names[device] = _name_for(device, facts, devices)
            devices[names[device]] = facts
        rows += [row.model_copy(update={"device": names.get(row.device, row.device)}) for row in part.rows]
    return Measured(rows=tuple(rows), devices=devices)


def _name_for(
    device: str, facts: Mapping[str, FactValue], taken: Mapping[str, Mapping[str, FactValue]]
) -> str:
    name, n = device, 1
    while name in taken and taken[name] != facts:
        n += 1
        name = f"{device} ({n})"
    return name
