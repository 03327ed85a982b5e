"""``kernelwright evaluate``: the referee's verdict on any ModelNew, whoever wrote it."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from kernelwright.cli import options
from kernelwright.cli.interruption import EXIT_INTERRUPTED
from kernelwright.cli.output import print_json, print_verdict, stderr, stdout
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import UserError
from kernelwright.core.evaluation import Evaluation
from kernelwright.core.policy import LibraryCalls, Policy
from kernelwright.core.task import Task
from kernelwright.report.measures import percent
from kernelwright.report.sections import error_rows, timing_rows
from kernelwright.report.verdict import evaluation_verdict
from kernelwright.settings import load_settings

LOG_LINES = 20


def evaluate(
    task_file: Annotated[Path, typer.Argument(metavar="TASK", help="KernelBench-format file.")],
    kernel_file: Annotated[Path, typer.Argument(metavar="KERNEL", help="File that defines ModelNew.")],
    final: Annotated[bool, typer.Option("--final", help="Longer, in fresh processes.")] = False,
    baseline: Annotated[
        list[str] | None,
        typer.Option(
            "--baseline",
            help="eager or torch_compile; on a GPU also eager_tf32, torch_compile_max_autotune. Repeatable.",
        ),
    ] = None,
    workload: options.WorkloadOption = None,
    mode: options.ModeOption = None,
    tolerance: options.ToleranceOption = None,
    library_calls: options.LibraryCallsOption = LibraryCalls.ALLOWED,
    device: Annotated[
        str, typer.Option("--device", help="Where it runs: cpu, cuda, cuda:N, hip or hip:N.")
    ] = "cpu",
    require_sandbox: options.RequireSandbox = None,
    as_json: options.AsJson = False,
) -> None:
    """Verify and time a kernel; exits 0 only when it is verified."""
    # lazy: keeps --help quick
    from kernelwright.tasks.kernelbench import load_task

    baselines = options.parse_baselines(baseline, device)
    task = load_task(task_file, workloads=options.parse_workloads(workload), mode=mode, tolerance=tolerance)
    candidate = Candidate(source=read_kernel(kernel_file))
    policy = Policy(library_calls=library_calls)
    stderr().print(f"judging {kernel_file} against {task.name} ...", soft_wrap=True)
    try:
        evaluation = judge(task, candidate, is_final=final, baselines=baselines, policy=policy, device=device)
    except KeyboardInterrupt:
        stderr().print("interrupted; nothing was kept")
        if as_json:
            print_json({"interrupted": True, "exit_code": EXIT_INTERRUPTED})
        raise typer.Exit(EXIT_INTERRUPTED) from None
    if as_json:
        print_json(evaluation)
    else:
        show(evaluation)
    raise typer.Exit(0 if evaluation.is_verified else 1)


def read_kernel(path: Path) -> str:
    """Return the kernel's source; raises UserError when there is no such text."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 text; name a Python file that defines ModelNew") from error
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); name a file with ModelNew") from error


def judge(
    task: Task,
    candidate: Candidate,
    *,
    is_final: bool,
    baselines: tuple[str, ...],
    policy: Policy,
    device: str = "cpu",
) -> Evaluation:
    """Open the task before the referee and return its word on the candidate, with the device's floors."""
    # lazy: loads torch
    from kernelwright.referee.device import parse_device
    from kernelwright.referee.session.referee import Referee
    from kernelwright.referee.settings import RefereeSettings
    from kernelwright.runs.prepare import floors_on

    settings, place = load_settings(), parse_device(device)
    wanted = settings.require_sandbox
    chosen = RefereeSettings(
        cache_dir=settings.cache_dir, policy=policy, require_sandbox=wanted, device=device
    )
    with Referee(chosen) as referee, referee.open(task) as session:
        # Only now: admission has the clearer words for a task that cannot be used.
        floors = floors_on(task, place.kind, settings.cache_dir, index=place.index)
        return session.evaluate(candidate, final=is_final, floors=floors, baselines=baselines)


def show(evaluation: Evaluation) -> None:
    """Print the verdict, what led to it, errors and timings."""
    print_verdict(evaluation_verdict(evaluation))
    console = stdout()
    if evaluation.log and not evaluation.is_verified:
        console.print("\n".join(evaluation.log.splitlines()[-LOG_LINES:]), soft_wrap=True)
    if evaluation.errors:
        console.print(_errors_table(evaluation))
    for family, why in evaluation.families_skipped.items():
        console.print(f"not used: {family.replace('_', ' ')} ({why})", soft_wrap=True)
    if evaluation.results:
        console.print(_timings_table(evaluation))
    for note in evaluation.notes:
        console.print(f"note: {note}", soft_wrap=True, markup=False)
    if evaluation.sandbox is not None:
        console.print(f"sandbox: {evaluation.sandbox}")


def _errors_table(evaluation: Evaluation) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", title_justify="left")
    for name in ("workload", "inputs", "output", "error", "reference's", "allowed", "used"):
        numeric = name in ("error", "reference's", "allowed", "used")
        table.add_column(name, justify="right" if numeric else "left")
    for row in error_rows(evaluation.errors):
        style = "red" if row.share > 1 else ""
        cells = (row.workload, row.family.replace("_", " "), row.output)
        used = percent(row.share) if row.share < 10 else f"{row.share:.3g} times"
        table.add_row(*cells, row.error, row.reference_error, row.allowed, used, style=style)
    return table


def _timings_table(evaluation: Evaluation) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for name in ("workload", "what", "median", "10 to 90 %", "kernel's speedup over it"):
        table.add_column(name, justify="left" if name in ("workload", "what") else "right")
    for row in timing_rows(evaluation):
        table.add_row(row.workload, row.what, row.median, row.spread, row.speedup)
    return table
