"""``kernelwright inspect``: what a GPU's compiler makes of a kernel, with no GPU."""

import ast
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from kernelwright.cli import options
from kernelwright.cli.confined import start_confined
from kernelwright.cli.evaluate import read_kernel
from kernelwright.cli.output import print_json, stderr, stdout
from kernelwright.cli.running import EXIT_INTERRUPTED
from kernelwright.core.errors import UserError
from kernelwright.core.task import Mode, Task, Workload
from kernelwright.devices.inspect.inspection import Inspection, InspectionStatus, KernelReport
from kernelwright.devices.inspect.meaning import notes, outcome_words
from kernelwright.devices.inspect.run import TIMEOUT_S, find_device, inspect_candidate

LOG_LINES = 12
NUMBERS = ("launches", "warps", "registers", "spills", "shared", "loads", "stores", "matrix", "code")


def inspect(
    kernel_file: Annotated[
        Path, typer.Argument(metavar="KERNEL", help="File that defines ModelNew with Triton kernels.")
    ],
    task_file: Annotated[
        Path | None,
        typer.Argument(
            metavar="[TASK]", help="KernelBench-format file with the inputs.", show_default="KERNEL"
        ),
    ] = None,
    gpu: Annotated[
        list[str] | None,
        typer.Option(
            "--gpu", help="sm_80, sm_90, sm_100, gfx942, ..., or a model such as h200-sxm; repeatable."
        ),
    ] = None,
    workload: options.WorkloadOption = None,
    mode: options.ModeOption = None,
    timeout: Annotated[float, typer.Option("--timeout", min=1.0, help="Seconds for each GPU.")] = TIMEOUT_S,
    as_json: options.AsJson = False,
) -> None:
    """Build every Triton kernel of a candidate for GPUs that need not be here; runs none.

    Exits 0 when all of them are built and could be launched, else 1.
    """
    devices = [find_device(name) for name in dict.fromkeys(gpu or ["sm_90"])]
    source = read_kernel(kernel_file)
    task_source, is_training = _task(kernel_file, source, task_file, workload, mode)
    found = []
    try:
        for device in devices:
            stderr().print(
                f"building {kernel_file} for {device.architecture} ({device.name}) ...", soft_wrap=True
            )
            found.append(
                inspect_candidate(
                    source,
                    device,
                    task_source=task_source,
                    is_training=is_training,
                    timeout_s=timeout,
                    start=start_confined,
                )
            )
    except KeyboardInterrupt:
        stderr().print("interrupted; nothing was kept")
        if as_json:
            print_json({"interrupted": True, "exit_code": EXIT_INTERRUPTED})
        raise typer.Exit(EXIT_INTERRUPTED) from None
    if as_json:
        print_json(document(found))
    else:
        show(found)
    raise typer.Exit(0 if all(inspection.can_run for inspection in found) else 1)


def _task(
    kernel_file: Path, source: str, task_file: Path | None, workload: list[str] | None, mode: Mode | None
) -> tuple[str | None, bool]:
    """Return the source that gives the inputs, None for the kernel's own, and whether to train."""
    if task_file is None:
        if workload:
            raise UserError("--workload rebinds globals of a task; name its file after the kernel's")
        _require_inputs(kernel_file, source)
        return None, mode is not Mode.EVAL
    # lazy: keeps --help quick
    from kernelwright.tasks.kernelbench import load_task

    task = load_task(task_file, workloads=options.parse_workloads(workload), mode=mode)
    if len(task.workloads) > 1:
        names = ", ".join(w.name for w in task.workloads)
        stderr().print(f"of the workloads {names} the first is taken", soft_wrap=True)
    return _bound(task, task.workloads[0]), task.mode is Mode.TRAIN


def _bound(task: Task, workload: Workload) -> str:
    if not workload.overrides:
        return task.source
    # lazy: loads torch
    from kernelwright.tasks.namespace import bind_source

    return bind_source(task, workload)


def _require_inputs(path: Path, source: str) -> None:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return  # the candidate's own failure
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    missing = sorted({"get_inputs", "get_init_inputs"} - functions)
    if missing:
        raise UserError(f"{path}: defines no {' and no '.join(missing)}; name the task's file after it")


def document(found: Sequence[Inspection]) -> dict[str, Any]:
    """Return the JSON document: the inspections, each kernel with what its figures mean."""
    rows = []
    for inspection in found:
        row = inspection.model_dump(mode="json")
        for shown, kernel in zip(row["kernels"], inspection.kernels, strict=True):
            shown["notes"] = notes(kernel)
        rows.append({**row, "can_run": inspection.can_run, "facts": inspection.facts()})
    return {"can_run": all(inspection.can_run for inspection in found), "inspections": rows}


def show(found: Sequence[Inspection]) -> None:
    """Print for each GPU the kernels and what their figures mean."""
    console = stdout()
    for number, inspection in enumerate(found):
        if number:
            console.print()
        console.print(headline(inspection), style="green" if inspection.can_run else "red", soft_wrap=True)
        if inspection.kernels:
            console.print(_table(inspection))
        for kernel in inspection.kernels:
            for note in notes(kernel):
                console.print(f"{_name(kernel)}: {note}", soft_wrap=True)
        if inspection.sandbox is not None:
            console.print(f"sandbox: {inspection.sandbox}")
        if inspection.log and inspection.status is not InspectionStatus.INSPECTED:
            console.print("\n".join(inspection.log.splitlines()[-LOG_LINES:]), soft_wrap=True)


def headline(inspection: Inspection) -> str:
    """Return what is to be said of a candidate on one GPU, in a line."""
    place = f"{inspection.architecture} ({inspection.device})"
    if inspection.status is not InspectionStatus.INSPECTED:
        return f"{place}: {inspection.status.value.replace('_', ' ')}: {inspection.detail}"
    chosen = [kernel for kernel in inspection.kernels if not kernel.is_trial]
    bad = [kernel for kernel in chosen if not kernel.outcome.can_run]
    if bad:
        return f"{place}: {len(bad)} of {len(chosen)} kernels cannot be built or launched"
    n_spill = sum(bool(kernel.facts.get("aot.spills")) for kernel in chosen)
    words = f", {n_spill} of them with registers in memory" if n_spill else ""
    plural = "s" if len(chosen) > 1 else ""
    return f"{place}: {len(chosen)} kernel{plural} built, all can be launched{words}"


def _table(inspection: Inspection) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for name in ("kernel", "launches", "grid", "warps", "registers", "spills", "shared", "occupancy"):
        table.add_column(name, justify="right" if name in NUMBERS else "left", overflow="fold")
    for name in ("loads", "stores", "matrix", "code", "outcome"):
        table.add_column(name, justify="right" if name in NUMBERS else "left")
    for kernel in inspection.kernels:
        style = "" if kernel.outcome.can_run else "red"
        table.add_row(*_cells(kernel), style=style)
    return table


def _cells(kernel: KernelReport) -> tuple[str, ...]:
    facts = kernel.facts

    def cell(name: str, unit: str = "") -> str:
        value = facts.get(name)
        if value is None:
            return ""
        return f"{value:.3g}{unit}" if isinstance(value, float) else f"{value}{unit}"

    share = facts.get("aot.occupancy")
    occupancy = f"{share:.0%} ({facts.get('aot.occupancy_limit')})" if isinstance(share, float) else ""
    return (
        _name(kernel),
        "trial" if kernel.is_trial else str(kernel.launches or ""),
        " x ".join(map(str, kernel.grid or ())),
        "" if kernel.num_warps is None else str(kernel.num_warps),
        cell("aot.registers"),
        cell("aot.spills"),
        cell("aot.shared_bytes", " B"),
        occupancy,
        cell("aot.load_bytes", " B"),
        cell("aot.store_bytes", " B"),
        cell("aot.matrix_instructions"),
        cell("aot.instructions"),
        outcome_words(kernel.outcome),
    )


def _name(kernel: KernelReport) -> str:
    sizes = ", ".join(f"{name}={value}" for name, value in kernel.constants.items() if value.isdigit())
    return f"{kernel.kernel}({sizes})" if sizes else kernel.kernel
