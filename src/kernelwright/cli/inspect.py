"""``kernelwright inspect``: what a GPU's compiler makes of a kernel, with no GPU."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from kernelwright.cli.interruption import keeping
from kernelwright.cli.options import AsJson, ModeOption, RequireSandbox, WorkloadOption
from kernelwright.cli.output import print_json, print_table, say, stdout
from kernelwright.core.errors import UserError
from kernelwright.core.places import AtPath
from kernelwright.core.task import Mode, Task
from kernelwright.core.workload_words import parse_workload
from kernelwright.report.files import json_text, make_folder, require_writable, write_text
from kernelwright.report.inspections import (
    HEADER,
    NUMBERS,
    SPARE,
    cells,
    headline,
    inspections_markdown,
    kernel_name,
)
from kernelwright.report.results import date_now
from kernelwright.report.table import Table
from kernelwright.targets.gpu.inspect.compiled import default_gpu, form_of
from kernelwright.targets.gpu.inspect.inspection import Inspection, InspectionStatus, KernelForm
from kernelwright.targets.gpu.inspect.meaning import notes
from kernelwright.targets.gpu.inspect.run import TIMEOUT_S

LOG_LINES = 12
FILES = ("inspection.json", "inspection.md", "inspection.html")


def inspect(
    kernel_file: Annotated[
        Path,
        typer.Argument(
            metavar="KERNEL", help="Candidate with kernels in Triton, CUDA C++, load_inline or HIP C++."
        ),
    ],
    task_file: Annotated[
        Path | None,
        typer.Argument(
            metavar="[TASK]", help="KernelBench-format file with Triton's inputs.", show_default="KERNEL"
        ),
    ] = None,
    gpu: Annotated[
        list[str] | None,
        typer.Option(
            "--gpu",
            help="sm_80, sm_90, sm_90a, gfx942, ..., or a model such as h200-sxm; repeatable.",
            show_default="sm_90, for HIP gfx942",
        ),
    ] = None,
    workload: WorkloadOption = None,
    mode: ModeOption = None,
    timeout: Annotated[float, typer.Option("--timeout", min=1.0, help="Seconds for each GPU.")] = TIMEOUT_S,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FOLDER", help=f"Write {FILES[0]}, .md and .html there."),
    ] = None,
    require_sandbox: RequireSandbox = None,
    as_json: AsJson = False,
) -> None:
    """Build every GPU kernel of a candidate ahead of time; needs no GPU and runs nothing.

    Exits 0 when all of them are built and nothing speaks against launching them, else 1; 2 where a
    compiler is missing.
    """
    # lazy: loads torch
    from kernelwright.api import bound_settings
    from kernelwright.api.inspecting import looking, wanted_gpu
    from kernelwright.api.judging import read_kernel

    where = bound_settings(require_sandbox=require_sandbox)
    source = read_kernel(AtPath(path=str(kernel_file)))
    form = form_of(source)
    wanted = [wanted_gpu(name, form) for name in dict.fromkeys(gpu or [default_gpu(form)])]
    if out is not None:
        for name in FILES:
            require_writable(make_folder(out) / name)
    found = []
    chosen = None if mode is None else Mode(mode)
    inputs = _inputs(form, kernel_file, source, task_file, workload, chosen)
    with (
        keeping("nothing was kept", as_json=as_json),
        looking(form, source, inputs, where, mode=chosen, timeout_s=timeout) as look,
    ):
        for one in wanted:
            say(f"building {kernel_file} ({form}) for {one.architecture} ({one.gpu.name}) ...")
            found.append(look(one))
    written = [] if out is None else write_report(out, kernel_file.name, source, found)
    if as_json:
        print_json(document(found))
    else:
        show(found)
        if written:
            stdout().print(f"\nReport: {', '.join(map(str, written))}", soft_wrap=True)
    raise typer.Exit(0 if all(inspection.can_run for inspection in found) else 1)


def _inputs(
    form: str,
    kernel_file: Path,
    source: str,
    task_file: Path | None,
    workload: list[str] | None,
    mode: Mode | None,
) -> Task | None:
    """Return the task that gives Triton's kernels their inputs, None for the candidate's own."""
    # lazy: loads torch
    from kernelwright.api.inspecting import require_inputs
    from kernelwright.tasks.kernelbench import load_task

    if form != KernelForm.TRITON:
        if workload:
            raise UserError("--workload rebinds globals of a task; sizes in CUDA C++ and HIP C++ are fixed")
        return None
    if task_file is None:
        if workload:
            raise UserError("--workload rebinds globals of a task; name its file after the kernel's")
        require_inputs(str(kernel_file), source)
        return None
    task = load_task(task_file, workloads=tuple(map(parse_workload, workload or ())), mode=mode)
    if len(task.workloads) > 1:
        names = ", ".join(w.name for w in task.workloads)
        say(f"of the workloads {names} the first is taken")
    return task


def write_report(folder: Path, name: str, source: str, found: Sequence[Inspection]) -> list[Path]:
    """Write the three files and return where they are."""
    # lazy: loads the templates
    from kernelwright.report.inspectionpage import render_inspection

    command = shlex.join(["kernelwright", *sys.argv[1:]])
    date = date_now()
    texts = (
        json_text({"command": command, "date": date, **document(found)}),
        inspections_markdown(name, found, date=date, command=command),
        render_inspection(name, source, found, date=date, command=command),
    )
    return [write_text(folder / file, text) for file, text in zip(FILES, texts, strict=True)]


def document(found: Sequence[Inspection]) -> dict[str, Any]:
    """Return the JSON document: the inspections, each kernel with what its figures mean."""
    rows = []
    for inspection in found:
        row = inspection.model_dump(mode="json")
        for shown, kernel in zip(row["kernels"], inspection.kernels, strict=True):
            shown["notes"] = notes(kernel)
        row["target"] = str(inspection.target)
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
            print_table(_table(inspection))
        for note in inspection.notes:
            console.print(note, soft_wrap=True)
        for kernel in inspection.kernels:
            for note in notes(kernel):
                console.print(f"{kernel_name(kernel)}: {note}", soft_wrap=True)
        if inspection.sandbox is not None:
            console.print(f"sandbox: {inspection.sandbox}")
        if inspection.log and inspection.status is not InspectionStatus.INSPECTED:
            console.print("\n".join(inspection.log.splitlines()[-LOG_LINES:]), soft_wrap=True)


def _table(inspection: Inspection) -> Table:
    rows = [cells(kernel) for kernel in inspection.kernels]
    styles = ["" if kernel.outcome.can_run else "red" for kernel in inspection.kernels]
    return Table(HEADER, rows, styles, numbers=NUMBERS, spare=SPARE)
