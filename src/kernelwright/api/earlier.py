"""What the same bench or comparison left elsewhere: read from its results, joined with what is here."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ConfigDict, Field, ValidationError

from kernelwright.core.errors import UserError
from kernelwright.core.evidence import FactValue
from kernelwright.core.frozen import Frozen
from kernelwright.core.request import BenchRequest
from kernelwright.referee.version import REFEREE_VERSION
from kernelwright.report.comparison import Conditions
from kernelwright.report.files import json_text
from kernelwright.report.judged import DeviceFacts
from kernelwright.report.played import Played
from kernelwright.report.tables import BenchRow
from kernelwright.tasks.places import BenchTask


class _Document(Frozen):
    """What a results file says of all that it holds."""

    model_config = ConfigDict(extra="ignore")

    devices: dict[str, dict[str, FactValue]] = Field(default_factory=dict)
    """What figures from each hold for; rows and runs name theirs."""
    conditions: dict[str, Any] = Field(default_factory=dict)
    """Under which all was measured; results that older versions wrote lack some or all."""


class Measured(_Document):
    """A ``results.json``."""

    rows: tuple[BenchRow, ...] = ()


class PlayedElsewhere(_Document):
    """A ``comparison.json``."""

    runs: tuple[Played, ...] = ()


AnyDocument = TypeVar("AnyDocument", bound=_Document)


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


def read_rows(files: Iterable[str], conditions: Mapping[str, Any]) -> list[Measured]:
    """Return what the files hold; raises UserError where a file has none, or was measured otherwise."""
    return [_read(Measured, Path(file), conditions) for file in files]


def read_runs(files: Iterable[str], conditions: Conditions) -> list[PlayedElsewhere]:
    """As ``read_rows``, of comparisons."""
    plain = json.loads(json_text(conditions))
    return [_read(PlayedElsewhere, Path(file), plain) for file in files]


def _read(kind: type[AnyDocument], file: Path, conditions: Mapping[str, Any]) -> AnyDocument:
    try:
        document = kind.model_validate_json(file.read_bytes())
    except OSError as error:
        raise UserError(f"--earlier {file}: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise UserError(f"--earlier {file}: no such results: {where} {first['msg']}") from error
    if not conditions.keys() <= document.conditions.keys():
        raise UserError(f"--earlier {file}: its conditions are not known; run these tasks again")
    for name, wanted in conditions.items():
        if (had := document.conditions[name]) != wanted:
            raise UserError(
                f"--earlier {file}: {name} was {had}, and is {wanted} here; run these tasks again"
            )
    return document


def rows_for(tasks: Iterable[BenchTask], parts: Iterable[Measured]) -> list[Measured]:
    """Return of each part the rows of these tasks, the first of each; failed ones are to be run again."""
    wanted = {entry.task.id: entry for entry in tasks}
    kept: list[Measured] = []
    for part in parts:
        rows = []
        for row in part.rows:
            if row.is_success and (entry := wanted.pop(row.task_id, None)) is not None:
                rows.append(row.model_copy(update={"task": entry.task.name, "group": entry.group}))
        devices = used(part.devices, rows)
        kept.append(part.model_copy(update={"rows": tuple(rows), "devices": devices}))
    return kept


def used(devices: DeviceFacts, rows: Iterable[BenchRow | Played]) -> dict[str, Mapping[str, FactValue]]:
    """Return the devices that judged some of these."""
    judges = {row.device for row in rows}
    return {device: facts for device, facts in devices.items() if device in judges}


def join(parts: Iterable[Measured]) -> Measured:
    """Return all rows with the devices of all; devices of one name that differ get names of their own."""
    devices: dict[str, dict[str, FactValue]] = {}
    rows: list[BenchRow] = []
    for part in parts:
        names = _take_in(part.devices, devices)
        rows += [row.model_copy(update={"device": names.get(row.device, row.device)}) for row in part.rows]
    return Measured(rows=tuple(rows), devices=devices)


def join_runs(parts: Iterable[PlayedElsewhere]) -> PlayedElsewhere:
    """As ``join``, of comparisons."""
    devices: dict[str, dict[str, FactValue]] = {}
    runs: list[Played] = []
    for part in parts:
        names = _take_in(part.devices, devices)
        runs += [run.model_copy(update={"device": names.get(run.device, run.device)}) for run in part.runs]
    return PlayedElsewhere(runs=tuple(runs), devices=devices)


def _take_in(
    more: Mapping[str, dict[str, FactValue]], devices: dict[str, dict[str, FactValue]]
) -> dict[str, str]:
    """Add devices; return what each is called among the others."""
    names = {}
    for device, facts in more.items():
        name, n = device, 1
        while name in devices and devices[name] != facts:
            n += 1
            name = f"{device} ({n})"
        names[device], devices[name] = name, facts
    return names
