"""``kernelwright inspect``: what a GPU's compiler makes of a kernel, with no GPU."""

import ast
import contextlib
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from kernelwright.cli.interruption import keeping
from kernelwright.cli.options import AsJson, ModeOption, RequireSandbox, WorkloadOption
from kernelwright.cli.output import print_json, print_table, say, stdout
from kernelwright.core.errors import UserError
from kernelwright.core.places import AtPath
from kernelwright.core.task import Mode, Task, Workload
from kernelwright.core.workload_words import parse_workload
from kernelwright.referee.session.confined import confined_compiler, start_confined
from kernelwright.referee.settings import make_referee_settings
from kernelwright.report.files import json_text, make_folder, require_writable, write_text
from kernelwright.report.inspections import (
    HEADER,
    NUMBERS,
    cells,
    headline,
    inspections_markdown,
    kernel_name,
)
from kernelwright.report.results import date_now
from kernelwright.report.table import Table
from kernelwright.settings import Settings
from kernelwright.targets.gpu.facts import GpuFacts
from kernelwright.targets.gpu.inspect.compiled import (
    check_vendor,
    default_gpu,
    form_of,
    inspect_compiled,
    require_compiler,
)
from kernelwright.targets.gpu.inspect.inspection import Inspection, InspectionStatus, KernelForm
from kernelwright.targets.gpu.inspect.meaning import notes
from kernelwright.targets.gpu.inspect.run import TIMEOUT_S, find_device, inspect_candidate

LOG_LINES = 12
FILES = ("inspection.json", "inspection.md", "inspection.html")
BUILDS = "gpu-builds"
"""Folder in the cache for what CUDA's and HIP's compilers made."""


class Wanted(NamedTuple):
    """A GPU to build for."""

    gpu: GpuFacts
    architecture: str
    """For the compiler: with the suffix that was asked for (``sm_90a``)."""


Look = Callable[[Wanted], Inspection]


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
    from kernelwright.api.judging import read_kernel

    where = bound_settings(require_sandbox=require_sandbox)
    source = read_kernel(AtPath(path=str(kernel_file)))
    form = form_of(source)
    wanted = [_wanted(name, form) for name in dict.fromkeys(gpu or [default_gpu(form)])]
    if out is not None:
        for name in FILES:
            require_writable(make_folder(out) / name)
    found = []
    chosen = None if mode is None else Mode(mode)
    with (
        keeping("nothing was kept", as_json=as_json),
        _looking(form, kernel_file, source, task_file, workload, chosen, timeout, where) as look,
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


def _wanted(name: str, form: str) -> Wanted:
    gpu = find_device(name)
    check_vendor(form, gpu)
    has_suffix = form != KernelForm.TRITON and name.startswith(gpu.architecture)
    return Wanted(gpu, name if has_suffix else gpu.architecture)


@contextlib.contextmanager
def _looking(
    form: str,
    kernel_file: Path,
    source: str,
    task_file: Path | None,
    workload: list[str] | None,
    mode: Mode | None,
    timeout_s: float,
    where: Settings,
) -> Iterator[Look]:
    """Yield what inspects the candidate for one GPU, confined; everything that it needs is there."""
    if form == KernelForm.TRITON:
        task_source, is_training = _task(kernel_file, source, task_file, workload, mode)
        yield lambda one: inspect_candidate(
            source,
            one.gpu,
            task_source=task_source,
            is_training=is_training,
            timeout_s=timeout_s,
            start=start_confined,
        )
        return
    if workload:
        raise UserError("--workload rebinds globals of a task; sizes in CUDA C++ and HIP C++ are fixed")
    require_compiler(form)
    with confined_compiler(make_referee_settings(where)) as compiler:
        yield lambda one: inspect_compiled(
            source,
            one.gpu,
            where.cache_dir / BUILDS,
            form=form,
            architecture=one.architecture,
            timeout_s=timeout_s,
            run=compiler.run,
            sandbox=compiler.sandbox,
        )


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

    task = load_task(task_file, workloads=tuple(map(parse_workload, workload or ())), mode=mode)
    if len(task.workloads) > 1:
        names = ", ".join(w.name for w in task.workloads)
        say(f"of the workloads {names} the first is taken")
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
    return Table(HEADER, rows, styles, numbers=NUMBERS)
