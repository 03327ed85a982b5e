"""What is wrong with tasks, before anyone trusts a speedup on them."""

import json
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path

from pydantic import ValidationError

from kernelwright.api.machines import bound_settings
from kernelwright.core.checkup import NOT_CHECKED, Checkup, EarlierCheck, Flag, Severity
from kernelwright.core.errors import UserError
from kernelwright.core.request import CheckRequest
from kernelwright.core.task import Literal_, Task, Workload
from kernelwright.machine import probe
from kernelwright.referee.checkup import checker as checkers
from kernelwright.referee.session.confined import start_confined
from kernelwright.referee.settings import make_referee_settings
from kernelwright.report.benchprogress import ChecksProgress, show_checks
from kernelwright.report.results import CheckResult
from kernelwright.settings import Settings
from kernelwright.targets.gpu.inspect.run import ask_program
from kernelwright.tasks.places import collect
from kernelwright.tasks.scaling_alone import SECOND_TRY, fitting_overrides

SCALING = "kernelwright.tasks.scaling_alone"
SIZES_S = 300.0
"""Time for a stranger's task to have its sizes reduced."""
RESULTS = "results.json"


def run_check(
    request: CheckRequest,
    *,
    settings: Settings | None = None,
    progress: bool | None = None,
    on_result: Callable[[CheckResult], object] = lambda result: None,
) -> CheckResult:
    """Examine every task.

    Args:
        request: what is asked for.
        settings: where things are; default: ``load_settings()``.
        progress: see ``show_checks``.
        on_result: called after every task with what there is, results of an earlier check included.

    Raises:
        UserError: something in the request cannot be.
        MachineError: a process cannot be started.
    """
    where = bound_settings(settings, request.require_sandbox, confine_tasks=request.confine_tasks)
    tasks = _tasks(request)
    checkups, checks = read_results(Path(request.out)) if request.out and request.resume else ([], [])
    earlier = _taken_over(checkups, tasks)
    origins = _origins(checks, earlier)
    environment = probe.probe_machine().environment()

    def result(checkups: list[Checkup]) -> CheckResult:
        return CheckResult(tuple(checkups), request.command_line(), environment, earlier=origins)

    found: list[Checkup] = []
    with (
        checkers.Checker(make_referee_settings(where)) as checker,
        show_checks(len(tasks), progress) as shown,
    ):
        for task in tasks:
            shown.start(task.name)
            checkup = earlier.get(task.id) or check_one(
                checker, task, request, shown, is_confined=where.confine_tasks, require=where.require_sandbox
            )
            shown.finish(checkup)
            found.append(checkup)
            ahead = [earlier[other.id] for other in tasks[len(found) :] if other.id in earlier]
            on_result(result([*found, *ahead]))
    return result(found)


def _tasks(request: CheckRequest) -> list[Task]:
    """Return the tasks with the workloads and the mode that are asked for."""
    asked = {"workloads": request.workloads or None, "mode": request.mode}
    own = {name: value for name, value in asked.items() if value is not None}
    entries = collect(
        request.sources,
        manifest=None if request.manifest is None else Path(request.manifest),
        groups=request.groups,
        only=request.only,
        limit=request.limit,
    )
    return [entry.task.model_copy(update=own) for entry in entries]


def check_one(
    checker: "checkers.Checker", task: Task, request: CheckRequest, progress: ChecksProgress,
    *, is_confined: bool = False, require: str | None = None,
) -> Checkup:  # fmt: skip
    """Examine one task, at smaller sizes where its own are too large to be quick."""
    progress.tell("sizes")
    sizes = reduced_sizes(task, request, is_confined=is_confined, require=require)
    if sizes is None:
        return _too_large(task, request)
    at = task.model_copy(update={"workloads": (Workload(overrides=sizes),)}) if sizes else task
    own = task.workloads[0].overrides if len(task.workloads) == 1 else {}
    checkup = checker.check(at, sizes={**own, **sizes}, on_check=progress.tell)
    flags = tuple(map(_of_reduced_sizes, checkup.flags)) if sizes else checkup.flags
    return checkup.model_copy(update={"task_id": task.id, "flags": flags})


def _of_reduced_sizes(flag: Flag) -> Flag:
    """Return a flag that the reduction itself may have caused as a note."""
    if flag.check != "launch-bound":
        return flag
    says = f"at the reduced sizes: {flag.says}"
    return flag.model_copy(update={"severity": Severity.NOTE, "says": says})


def reduced_sizes(
    task: Task, request: CheckRequest, *, is_confined: bool = False, require: str | None = None
) -> dict[str, Literal_] | None:
    """Return globals to rebind: none where the task fits or says its own; None where nothing fits.

    With ``is_confined`` the task's code runs in the sandbox; ``require`` is the weakest tier that will do.
    """
    is_full_size = request.full_size or bool(request.workloads)
    if is_full_size or task.path is None or task.workloads != (Workload(),):
        return {}
    if is_confined:
        return _sizes_found_confined(task, request, require)
    return fitting_overrides(Path(task.path), max_ms=request.max_ms, max_mb=request.max_mb)


def _sizes_found_confined(
    task: Task, request: CheckRequest, require: str | None
) -> dict[str, Literal_] | None:
    """Have the sizes reduced in the sandbox; whatever goes wrong there, none are: the check has the words."""
    asked = {"source": task.source, "max_ms": request.max_ms, "max_mb": request.max_mb}
    heard = ask_program(
        SCALING, json.dumps(asked).encode(), SIZES_S, partial(start_confined, require=require)
    )
    told = [message["sizes"] for message in heard.messages if "sizes" in message]
    if told and told[-1] is None:
        return None
    try:
        return dict(Workload(overrides=told[-1] if told else {}).overrides)
    except ValidationError:
        return {}


def _too_large(task: Task, request: CheckRequest) -> Checkup:
    ms, mb = request.max_ms * SECOND_TRY, request.max_mb * SECOND_TRY
    flag = Flag(
        check=NOT_CHECKED,
        severity=Severity.DOUBTFUL,
        says=f"no sizes were found at which a call stays below {ms:g} ms and {mb:g} MB",
        advice="name some with --workload small:batch_size=2, or raise --max-ms and --max-mb",
    )
    return Checkup(task=task.name, task_id=task.id, path=task.path, sizes={}, flags=(flag,))


def read_results(folder: Path) -> tuple[list[Checkup], list[EarlierCheck]]:
    """Return what earlier checks found, and where that comes from; nothing where there is no file.

    Raises:
        UserError: it is another file.
    """
    path = folder / RESULTS
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        checkups = [Checkup.model_validate(row) for row in told["tasks"]]
        earlier = [EarlierCheck.model_validate(check) for check in told.get("earlier", ())]
        older = {of for check in earlier for of in check.task_ids}
        own = tuple(c.task_id for c in checkups if c.task_id not in older)
        last = EarlierCheck(date=told["date"], environment=told["environment"], task_ids=own)
    except FileNotFoundError:
        return [], []
    except (OSError, ValueError, KeyError, TypeError, ValidationError) as error:
        raise UserError(f"{path}: not results of `kernelwright check`; name another folder") from error
    return checkups, [*earlier, last]


def _taken_over(checkups: Sequence[Checkup], tasks: Sequence[Task]) -> dict[str, Checkup]:
    """Return these tasks' earlier results by id. What could not be checked is left out: it is tried again."""
    asked = {task.id for task in tasks}
    found = [c for c in checkups if c.task_id in asked]
    return {c.task_id: c for c in found if all(flag.check != NOT_CHECKED for flag in c.flags)}


def _origins(checks: Sequence[EarlierCheck], kept: Collection[str]) -> tuple[EarlierCheck, ...]:
    """Return where the results with these task ids come from."""
    left = [(check, tuple(of for of in check.task_ids if of in kept)) for check in checks]
    return tuple(check.model_copy(update={"task_ids": ids}) for check, ids in left if ids)
