"""Formats of other benchmarks and libraries, in and out, as files."""

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from kernelwright.api.capturing import require_own
from kernelwright.api.judging import read_kernel
from kernelwright.api.machines import bound_settings
from kernelwright.core.errors import TaskError, UserError
from kernelwright.core.evaluation import Evaluation
from kernelwright.core.request import ExportRequest, ImportRequest
from kernelwright.core.task import Task, Workload
from kernelwright.formats.package import Converted, Package, read_json
from kernelwright.formats.seen import SeenCall, read_seen
from kernelwright.formats.table import reader, writer
from kernelwright.machine import probe
from kernelwright.referee.session.confined import start_confined
from kernelwright.report.files import write_text
from kernelwright.settings import Settings
from kernelwright.targets.gpu.inspect.run import ask_program
from kernelwright.targets.registry import find_device_kind
from kernelwright.tasks.kernelbench import parse_task
from kernelwright.tasks.places import load_place

LOOK = "kernelwright.formats.seen"
LOOK_S = 300.0
"""Time for a stranger's task to be called once."""


@dataclass(frozen=True)
class Conversion:
    """What a conversion wrote."""

    files: tuple[Path, ...]
    notes: tuple[str, ...]
    """What could not be carried over."""

    def document(self) -> dict[str, Any]:
        """Return everything, ready to be written as JSON."""
        return {"files": self.files, "notes": self.notes}


def run_import(request: ImportRequest) -> Conversion:
    """Make tasks and kernels of another benchmark's files; runs nothing of them.

    Raises:
        UserError: the source is none of that format, or a file cannot be written.
    """
    converted = reader(request.format)(Path(request.source))
    for name, text in converted.files.items():
        if name.endswith(".py") and "class Model(" in text:
            parse_task(text, Path(name))  # what we make can be read by us
    return _write(converted, request.out)


def run_export(request: ExportRequest, *, settings: Settings | None = None) -> Conversion:
    """Write a task with its kernels and verdicts in another format.

    A format that says how the task is called has its code run: here, or in the sandbox for a stranger's.

    Raises:
        UserError: something in the request cannot be, or the format has no word for it.
    """
    where = bound_settings(settings, request.require_sandbox, confine_tasks=request.confine_tasks)
    task = load_place(request.task, workloads=request.workloads, mode=request.mode)
    if task.artifact is not None:
        require_own(task, where, "a saved module")
    names = [kernel.title for kernel in request.kernels]
    if len(set(names)) < len(names):
        raise UserError("two kernels have one name; name their files differently")
    evaluations = _verdicts(Path(request.verdicts)) if request.verdicts else ()
    if evaluations and len(evaluations) != len(names):
        raise UserError(f"{request.verdicts}: {len(evaluations)} verdicts for {len(names)} kernels")
    wrong = [one.task_id for one in evaluations if one.task_id != task.id]
    if wrong:
        raise UserError(f"{request.verdicts}: verdicts on another task, or on other workloads; judge again")
    device = find_device_kind(request.device.partition(":")[0])
    facts = probe.probe_machine().environment()
    package = Package(
        task=task,
        kernels={name: read_kernel(place) for name, place in zip(names, request.kernels, strict=True)},
        evaluations=evaluations,
        author=request.author,
        hardware=str(facts.get("processor") or request.device),
        libraries={name: str(facts[name]) for name in ("torch", "kernelwright", "python") if name in facts},
        device=device.hub_name or device.name,
        look=partial(_look_confined, where) if where.confine_tasks else None,
    )
    return _write(writer(request.format)(package), request.out)


def _look_confined(where: Settings, task: Task, workload: Workload) -> SeenCall:
    """Have a stranger's task called once in the sandbox; raises TaskError."""
    asked = {"task": task.model_dump(mode="json"), "workload": workload.model_dump(mode="json")}
    start = partial(start_confined, require=where.require_sandbox)
    heard = ask_program(LOOK, json.dumps(asked).encode(), LOOK_S, start)
    told = next((message for message in heard.messages if {"seen", "problem"} & message.keys()), {})
    if "problem" in told:
        raise TaskError(" ".join(str(told["problem"]).split())[:300])
    try:
        return read_seen(told["seen"])
    except (KeyError, ValueError) as error:
        how = (
            f"not done within {LOOK_S:.0f} s"
            if heard.code is None
            else f"it ended with exit code {heard.code}"
        )
        raise TaskError(
            f"{task.name}: the reference's process says nothing that can be used; {how}"
        ) from error


def _verdicts(path: Path) -> tuple[Evaluation, ...]:
    """Return what ``evaluate --json`` printed: one evaluation, or several kernels'."""
    document = read_json(path)
    rows = document.get("kernels") if isinstance(document, dict) else None
    found = [row.get("evaluation") for row in rows] if isinstance(rows, list) else [document]
    try:
        return tuple(Evaluation.model_validate_json(json.dumps(one)) for one in found)
    except ValidationError as error:
        raise UserError(f"{path}: not what `kernelwright evaluate --json` prints") from error


def _write(converted: Converted, out: str | None) -> Conversion:
    folder = Path(out or ".")
    written = [write_text(folder / name, text) for name, text in converted.files.items()]
    return Conversion(tuple(written), converted.notes)
