"""Formats of other benchmarks and libraries, in and out, as files."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from kernelwright.api.capturing import require_own
from kernelwright.api.judging import read_kernel
from kernelwright.api.machines import bound_settings
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import TaskError, UserError
from kernelwright.core.evaluation import Evaluation
from kernelwright.core.request import ExportRequest, ImportRequest
from kernelwright.core.task import Task, Workload
from kernelwright.formats.package import Converted, Package, read_json
from kernelwright.formats.seen import SeenCall, read_seen
from kernelwright.formats.table import reader, writer
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
    for name in converted.tasks:
        parse_task(converted.files[name], Path(name))  # what we make can be read by us
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
    kernels = {name: read_kernel(place) for name, place in zip(names, request.kernels, strict=True)}
    device = find_device_kind(request.device.partition(":")[0])
    package = Package(
        task=task,
        kernels=kernels,
        evaluations=_judged(Path(request.verdicts), task, kernels) if request.verdicts else {},
        author=request.author,
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


def _judged(path: Path, task: Task, kernels: Mapping[str, str]) -> dict[str, Evaluation]:
    """Return the verdict on each kernel; a verdict says by its candidate's id which program it is on.

    Raises:
        UserError: a verdict is on another task or on none of the kernels, or a kernel has none.
    """
    left = list(_verdicts(path))
    if any(one.task_id != task.id for one in left):
        raise UserError(f"{path}: verdicts on another task, or on other workloads; judge again")
    found: dict[str, Evaluation] = {}
    for name, source in kernels.items():
        candidate = Candidate(source=source)  # as ``run_evaluate`` makes it
        own = next((one for one in left if one.candidate_id == candidate.id), None)
        if own is None:
            raise UserError(f"{path}: no verdict on {name} as it is now; judge all kernels again")
        left.remove(own)
        found[name] = own
    if left:
        raise UserError(f"{path}: {len(left)} verdicts on none of the kernels that are given; name these too")
    return found


def _verdicts(path: Path) -> tuple[Evaluation, ...]:
    """Return what ``evaluate --json`` printed: one evaluation, or several kernels'."""
    document = read_json(path)
    rows = document.get("kernels") if isinstance(document, dict) else None
    is_several = isinstance(rows, list) and all(isinstance(row, dict) for row in rows)
    found = [row.get("evaluation") for row in rows or ()] if is_several else [document]
    try:
        return tuple(Evaluation.model_validate_json(json.dumps(one)) for one in found)
    except ValidationError as error:
        raise UserError(f"{path}: not what `kernelwright evaluate --json` prints") from error


def _write(converted: Converted, out: str | None) -> Conversion:
    folder = Path(out or ".")
    written = [write_text(folder / name, text) for name, text in converted.files.items()]
    return Conversion(tuple(written), converted.notes)
