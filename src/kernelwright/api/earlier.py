"""What the same bench or comparison left elsewhere: read from its results, joined with what is here."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import AliasChoices, ConfigDict, Field, ValidationError

from kernelwright.core.errors import UserError
from kernelwright.core.evidence import FactValue
from kernelwright.core.frozen import Frozen
from kernelwright.core.request import BenchRequest
from kernelwright.referee.version import REFEREE_VERSION
from kernelwright.report.comparison import Conditions
from kernelwright.report.files import json_text
from kernelwright.report.played import Played
from kernelwright.report.tables import BenchRow
from kernelwright.tasks.places import BenchTask

AnyRow = TypeVar("AnyRow", BenchRow, Played)


class Earlier(Frozen, Generic[AnyRow]):
    """What one bench (``results.json``) or comparison (``comparison.json``) has measured."""

    model_config = ConfigDict(extra="ignore")

    rows: tuple[AnyRow, ...] = Field(default=(), validation_alias=AliasChoices("rows", "runs"))
    devices: dict[str, dict[str, FactValue]] = Field(default_factory=dict)
    """What figures from each hold for; rows name theirs."""
    conditions: dict[str, Any] = Field(default_factory=dict)
    """Under which all was measured; results that older versions wrote lack some or all."""

    def with_rows(self, rows: Sequence[AnyRow]) -> "Earlier[AnyRow]":
        """Return some of the rows, with the devices that judged them."""
        judges = {row.device for row in rows}
        devices = {device: facts for device, facts in self.devices.items() if device in judges}
        return self.model_copy(update={"rows": tuple(rows), "devices": devices})


def conditions_of(request: BenchRequest, baselines: tuple[str, ...] | None) -> dict[str, Any]:
    """Return what two benches must have in common for their rows to stand in one table."""
    conditions = {
        "recipe": request.recipe,
        "team": request.team,
        "models": request.models,
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


def read_rows(files: Iterable[str], conditions: Mapping[str, Any]) -> list[Earlier[BenchRow]]:
    """Return what the files hold; raises UserError where a file has none, or was measured otherwise."""
    return [_read(Earlier[BenchRow], Path(file), conditions) for file in files]


def read_runs(files: Iterable[str], conditions: Conditions) -> list[Earlier[Played]]:
    """As ``read_rows``, of comparisons."""
    plain = json.loads(json_text(conditions))
    return [_read(Earlier[Played], Path(file), plain) for file in files]


def _read(kind: type[Earlier[AnyRow]], file: Path, conditions: Mapping[str, Any]) -> Earlier[AnyRow]:
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


def rows_for(tasks: Iterable[BenchTask], parts: Iterable[Earlier[BenchRow]]) -> list[Earlier[BenchRow]]:
    """Return of each part the rows of these tasks, the first of each; failed ones are to be run again."""
    wanted = {entry.task.id: entry for entry in tasks}
    kept: list[Earlier[BenchRow]] = []
    for part in parts:
        rows = []
        for row in part.rows:
            if row.is_success and (entry := wanted.pop(row.task_id, None)) is not None:
                rows.append(row.model_copy(update={"task": entry.task.name, "group": entry.group}))
        kept.append(part.with_rows(rows))
    return kept


def join(
    parts: Iterable[Earlier[AnyRow]],
    rows: Iterable[AnyRow],
    devices: Mapping[str, dict[str, FactValue]],
) -> tuple[list[AnyRow], dict[str, dict[str, FactValue]]]:
    """Return all rows and the devices of all: those of the parts, then these ``rows`` and ``devices``.

    Devices of one name that differ get names of their own.
    """
    all_rows: list[AnyRow] = []
    known: dict[str, dict[str, FactValue]] = {}
    groups: list[tuple[Iterable[AnyRow], Mapping[str, dict[str, FactValue]]]]
    groups = [(part.rows, part.devices) for part in parts]
    groups.append((rows, devices))
    for more, judges in groups:
        names = {device: _name_for(device, facts, known) for device, facts in judges.items()}
        known |= {names[device]: facts for device, facts in judges.items()}
        all_rows += [row.model_copy(update={"device": names.get(row.device, row.device)}) for row in more]
    return all_rows, known


def _name_for(
    device: str, facts: Mapping[str, FactValue], known: Mapping[str, Mapping[str, FactValue]]
) -> str:
    name, n = device, 1
    while name in known and known[name] != facts:
        n += 1
        name = f"{device} ({n})"
    return name
