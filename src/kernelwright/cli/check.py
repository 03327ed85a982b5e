"""``kernelwright check``: what is wrong with a task, before anyone trusts a speedup on it."""

import json
import shlex
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer
from pydantic import ValidationError
from rich.status import Status
from rich.table import Table

from kernelwright.cli import options
from kernelwright.cli.benchtasks import BenchTask, collect
from kernelwright.cli.experiments import make_folder
from kernelwright.cli.output import json_text, print_json, print_verdict, stderr, stdout, write_text
from kernelwright.cli.running import EXIT_INTERRUPTED
from kernelwright.core.checkup import NOT_CHECKED, Checkup, Flag, Severity
from kernelwright.core.errors import CaptureError, UserError
from kernelwright.core.task import Literal_, Mode, Task, Workload
from kernelwright.report.checkups import HEADER, cells, checkup_verdict, checkups_markdown, counts_line
from kernelwright.settings import load_settings

if TYPE_CHECKING:
    from kernelwright.referee.checkup.checker import Checker

MAX_MS = 20.0
MAX_MB = 100.0
SECOND_TRY = 10.0
"""Where no sizes are within both limits, those within so many times as much are tried: some models have more
weights than that, however small their inputs."""
RESULTS = "results.json"
STYLES = {"unusable": "bold red", "doubtful": "yellow", "fine": "green"}


class Limits(NamedTuple):
    """Sizes above which a task is checked at smaller ones."""

    ms: float
    mb: float
    is_full_size: bool


def check(
    sources: Annotated[
        list[str] | None,
        typer.Argument(metavar="[suite | FOLDER | FILE...]", help="Tasks; default: our own suite."),
    ] = None,
    workload: options.WorkloadOption = None,
    mode: options.ModeOption = None,
    tasks: Annotated[
        Path | None,
        typer.Option("--tasks", help="YAML list of {path, overrides, group}; give the folder as argument."),
    ] = None,
    group: Annotated[
        list[str] | None, typer.Option("--group", help="Only this group of --tasks; may be repeated.")
    ] = None,
    only: Annotated[str | None, typer.Option("--only", help="Glob over task names.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="The first N tasks.")] = None,
    full_size: Annotated[
        bool, typer.Option("--full-size", help="Never reduce sizes; some flags depend on them.")
    ] = False,
    max_ms: Annotated[
        float, typer.Option("--max-ms", min=0.1, help="Reduce sizes above this estimated time of a call.")
    ] = MAX_MS,
    max_mb: Annotated[
        float, typer.Option("--max-mb", min=1, help="Reduce sizes above this estimated memory.")
    ] = MAX_MB,
    out: Annotated[Path | None, typer.Option("--out", help="Folder for results.json and results.md.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Keep what --out has checked already and check the other tasks.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Say what is wrong with tasks; exits 0 when nothing is worse than a note, else 1."""
    if group and tasks is None:
        raise UserError("--group picks from a manifest; give one with --tasks")
    if resume and out is None:
        raise UserError("--resume goes on with the results of an --out folder; name it")
    folder = make_folder(out) if out else None
    entries = collect(sources or [], manifest=tasks, groups=group or [], only=only, limit=limit)
    workloads = options.parse_workloads(workload)
    chosen = [_configured(entry, workloads, mode) for entry in entries]
    earlier = read_results(folder) if folder and resume else {}
    limits = Limits(max_ms, max_mb, full_size or bool(workloads))
    found: list[Checkup] = []
    try:
        check_all(chosen, limits, earlier, found, folder)
    except KeyboardInterrupt:
        kept = f"; {len(found)} results are in {folder}, go on with --resume" if folder else ""
        stderr().print(f"interrupted{kept}", soft_wrap=True)
        if as_json:
            print_json({"interrupted": True, "exit_code": EXIT_INTERRUPTED})
        raise typer.Exit(EXIT_INTERRUPTED) from None
    if as_json:
        print_json(document(found))
    else:
        show(found)
    raise typer.Exit(0 if all(checkup.is_trustworthy for checkup in found) else 1)


def _configured(entry: BenchTask, workloads: tuple[Workload, ...], mode: Mode | None) -> Task:
    asked = {"workloads": workloads or None, "mode": mode}
    return entry.task.model_copy(update={name: value for name, value in asked.items() if value is not None})


def check_all(
    tasks: Sequence[Task],
    limits: Limits,
    earlier: dict[str, Checkup],
    found: list[Checkup],
    folder: Path | None,
) -> None:
    """Examine every task, add what is found to ``found``, and keep the files up to date."""
    # lazy: loads numpy
    from kernelwright.referee.checkup.checker import Checker
    from kernelwright.referee.settings import RefereeSettings

    console = stderr()
    status = Status("starting", console=console) if console.is_terminal else None
    with Checker(RefereeSettings(cache_dir=load_settings().cache_dir)) as checker:
        for task in tasks:
            count = f"[{len(found) + 1:>{len(str(len(tasks)))}}/{len(tasks)}] {task.name}"
            if status:
                status.start()
            else:
                console.print(f"{count} ...", soft_wrap=True)
            try:
                checkup = earlier.get(task.id) or check_one(checker, task, limits, status, count)
            finally:
                if status:
                    status.stop()
            found.append(checkup)
            if len(tasks) > 1:
                console.print(f"{count}: {', '.join(filter(None, cells(checkup)[1:3]))}", soft_wrap=True)
            if folder is not None:
                ahead = [earlier[other.id] for other in tasks[len(found) :] if other.id in earlier]
                write_results(folder, [*found, *ahead])


def check_one(checker: "Checker", task: Task, limits: Limits, status: Status | None, count: str) -> Checkup:
    """Examine one task, at smaller sizes where its own are too large to be quick."""

    def tell(what: str) -> None:
        if status:
            status.update(f"{count}: {what}")

    tell("sizes")
    sizes = reduced_sizes(task, limits)
    if sizes is None:
        return _too_large(task, limits)
    at = task.model_copy(update={"workloads": (Workload(overrides=sizes),)}) if sizes else task
    own = task.workloads[0].overrides if len(task.workloads) == 1 else {}
    checkup = checker.check(at, sizes={**own, **sizes}, on_check=tell)
    flags = tuple(map(_of_reduced_sizes, checkup.flags)) if sizes else checkup.flags
    return checkup.model_copy(update={"task_id": task.id, "flags": flags})


def _of_reduced_sizes(flag: Flag) -> Flag:
    """Return a flag that the reduction itself may have caused as a note."""
    if flag.check != "launch-bound":
        return flag
    says = f"at the reduced sizes: {flag.says}"
    return flag.model_copy(update={"severity": Severity.NOTE, "says": says})


def reduced_sizes(task: Task, limits: Limits) -> dict[str, Literal_] | None:
    """Return globals to rebind: none where the task fits or says its own; None where nothing fits."""
    if limits.is_full_size or task.path is None or task.workloads != (Workload(),):
        return {}
    # lazy: loads torch
    from kernelwright.tasks.capture import capture_task
    from kernelwright.tasks.scaling import scaled_overrides

    try:
        for factor in (1.0, SECOND_TRY):
            ms, mb = limits.ms * factor, limits.mb * factor
            sizes = scaled_overrides(Path(task.path), max_ms=ms, max_bytes=int(mb * 1e6))
            if sizes is not None:
                return sizes
        capture_task(task, task.workloads[0])
    except (UserError, CaptureError):
        return {}  # no estimate can be had, or the file is at fault: the check itself has the words for it
    return None


def _too_large(task: Task, limits: Limits) -> Checkup:
    ms, mb = limits.ms * SECOND_TRY, limits.mb * SECOND_TRY
    flag = Flag(
        check=NOT_CHECKED,
        severity=Severity.DOUBTFUL,
        says=f"no sizes were found at which a call stays below {ms:g} ms and {mb:g} MB",
        advice="name some with --workload small:batch_size=2, or raise --max-ms and --max-mb",
    )
    return Checkup(task=task.name, task_id=task.id, path=task.path, sizes={}, flags=(flag,))


def read_results(folder: Path) -> dict[str, Checkup]:
    """Return earlier results by task id; none where there is no file. Raises UserError for another file.

    What could not be checked is left out: it is tried again.
    """
    path = folder / RESULTS
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))["tasks"]
        checkups = [Checkup.model_validate(row) for row in rows]
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, ValidationError) as error:
        raise UserError(f"{path}: not results of `kernelwright check`; name another folder") from error
    return {c.task_id: c for c in checkups if all(flag.check != NOT_CHECKED for flag in c.flags)}


def document(found: Sequence[Checkup]) -> dict[str, object]:
    """Return the JSON document."""
    # lazy: probes the machine
    from kernelwright.machine.probe import probe_machine

    return {
        "command": shlex.join(["kernelwright", *sys.argv[1:]]),
        "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "environment": probe_machine().environment(),
        "tasks": list(found),
    }


def write_results(folder: Path, found: Sequence[Checkup]) -> None:
    """Write both files."""
    facts = document(found)
    text = checkups_markdown(
        "Tasks checked",
        found,
        date=str(facts["date"]),
        command=str(facts["command"]),
        environment=facts["environment"],  # type: ignore[arg-type]
    )
    write_text(folder / RESULTS, json_text(facts))
    write_text(folder / "results.md", text)


def show(found: Sequence[Checkup]) -> None:
    """Print one task's verdict, or a table of several."""
    if len(found) == 1:
        print_verdict(checkup_verdict(found[0]))
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for column in HEADER:
        table.add_column(column, overflow="fold")
    for checkup in found:
        line = cells(checkup)
        table.add_row(*line, style=STYLES[line[1]])
    stdout().print(table)
    stdout().print(f"\n{counts_line(found)}", soft_wrap=True)
