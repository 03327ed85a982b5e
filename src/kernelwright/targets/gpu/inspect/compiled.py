"""Inspects candidates whose kernels a compiler takes ahead of time: compiles them, runs nothing."""

import ast
import math
from pathlib import Path

from kernelwright.core.errors import MachineError, UserError
from kernelwright.core.evidence import FactValue
from kernelwright.machine.compiler import RunCompiler
from kernelwright.targets.cuda.nvcc.build import TIMEOUT_S
from kernelwright.targets.cuda.nvcc.outcome import AheadReport, BuildStatus, LaunchFacts
from kernelwright.targets.cuda.nvcc.report_inline import base_name
from kernelwright.targets.gpu.facts import GpuFacts, gpu_facts
from kernelwright.targets.gpu.inspect.form import AotForm
from kernelwright.targets.gpu.inspect.inspection import (
    Inspection,
    InspectionStatus,
    KernelForm,
    KernelOutcome,
    KernelReport,
)
from kernelwright.targets.gpu.inspect.machine_code import grid_problem, launch_problem, waves
from kernelwright.targets.registry import all_targets

_STATUSES = {
    BuildStatus.BUILT: InspectionStatus.INSPECTED,
    BuildStatus.REFUSED: InspectionStatus.NOT_BUILT,
    BuildStatus.TIMED_OUT: InspectionStatus.TIMEOUT,
    BuildStatus.NOT_ALLOWED: InspectionStatus.NOT_ALLOWED,
    BuildStatus.NOT_THE_FORM: InspectionStatus.NOT_THE_FORM,
    BuildStatus.NEEDS_HEADERS: InspectionStatus.NEEDS_HEADERS,
}
DEFAULT_GPU = "sm_90"
_MIXED = "it uses Triton too: those kernels were not looked at"


def form_of(source: str) -> str:
    """Return the name of the form of a candidate's kernels; ``triton`` where no target finds its own in it.

    What targets that stand later in the registry find comes first.
    """
    try:
        ast.parse(source)
    except (SyntaxError, ValueError):
        return KernelForm.TRITON
    return next((form.name for form in _forms() if form.is_in(source)), KernelForm.TRITON)


def find_form(name: str) -> AotForm | None:
    """Return the form of that name; None: Triton compiles it where it runs."""
    return next((form for form in _forms() if form.name == name), None)


def form_of_file(name: str) -> AotForm | None:
    """Return the form whose language a file holds alone, by its suffix; None: it is taken for Python."""
    return next((form for form in _forms() if name.endswith(form.suffixes)), None)


def _forms() -> tuple[AotForm, ...]:
    return tuple(form for target in reversed(all_targets()) for form in target.aot_forms)


def default_gpu(name: str) -> str:
    """Return the architecture that a candidate of this form is inspected for when none is named."""
    form = find_form(name)
    return DEFAULT_GPU if form is None else form.example


def require_compiler(name: str) -> None:
    """Raise MachineError, which says what to install, where a form has no compiler on this machine."""
    form = find_form(name)
    missing = None if form is None else form.find_missing()
    if missing is not None:
        raise MachineError(missing)


def check_vendor(name: str, gpu: GpuFacts) -> None:
    """Raise UserError where the form's language is not compiled for this GPU."""
    form = find_form(name)
    if form is not None and gpu.limits.vendor != form.vendor:
        raise UserError(
            f"{gpu.name} ({gpu.architecture}): the candidate is {form.title}, which is compiled for GPUs of "
            f"{form.vendor_title} alone; name one with --gpu, such as {form.example}"
        )


def inspect_compiled(
    source: str,
    gpu: GpuFacts,
    cache_dir: Path,
    *,
    form: str,
    architecture: str | None = None,
    timeout_s: float = TIMEOUT_S,
    run: RunCompiler | None = None,
    sandbox: str | None = None,
) -> Inspection:
    """Compile the kernels of a candidate that is no Triton, for a GPU that need not be here.

    Args:
        source: the candidate.
        gpu: its limits and units decide what a launch fills.
        cache_dir: where builds are kept, by content.
        form: as ``form_of`` found it.
        architecture: for the compiler where it differs from the GPU's, e.g. ``sm_90a``.
        timeout_s: for the compiler.
        run: runs the compiler, by default as a plain child; give the referee's to confine it.
        sandbox: name of that confinement, for the record.

    Raises:
        UserError: the language is not compiled for this GPU.
        MachineError: no compiler of the language, or none that knows the architecture; the cache folder
            cannot be written.
    """
    check_vendor(form, gpu)
    wanted = architecture or gpu.architecture
    how = find_form(form)
    report = None if how is None else how.report(source, wanted, cache_dir, timeout_s=timeout_s, run=run)
    if report is None:
        raise UserError(f"the candidate holds no kernels in the form {form}")
    if report.status is BuildStatus.NO_COMPILER:
        raise MachineError(report.message)
    kernels = tuple(_kernel(launch, gpu) for launch in report.launches)
    status = _STATUSES[report.status]
    if status is InspectionStatus.INSPECTED and not kernels:
        status = InspectionStatus.NO_KERNELS
    return Inspection(
        architecture=report.architecture,
        device=gpu.name,
        form=form,
        status=status,
        detail=_detail(report, status),
        kernels=kernels,
        notes=(*report.notes, *((_MIXED,) if _has_triton(source) else ())),
        versions={} if report.compiler is None else {"compiler": report.compiler},
        sandbox=sandbox,
        log=report.log,
    )


def _detail(report: AheadReport, status: InspectionStatus) -> str:
    if status is InspectionStatus.NO_KERNELS:
        return "it has no kernels of its own that could be compiled"
    return " ".join(report.message.split())[:600]


def _kernel(launch: LaunchFacts, gpu: GpuFacts) -> KernelReport:
    facts = {**launch.facts, **gpu_facts(gpu)}
    if launch.grid is not None:
        facts["gpu.waves"] = waves(launch.grid, facts)
    outcome, detail = _outcome(launch, facts, gpu)
    threads = facts.get("aot.block_threads")
    return KernelReport(
        kernel=launch.launch,
        function=base_name(launch.kernel),
        outcome=outcome,
        detail=detail,
        num_warps=math.ceil(threads / gpu.limits.warp_lanes) if isinstance(threads, int) else None,
        grid=launch.grid,
        launches=None,
        facts=facts,
    )


def _outcome(launch: LaunchFacts, facts: dict[str, FactValue], gpu: GpuFacts) -> tuple[KernelOutcome, str]:
    is_known = isinstance(facts.get("aot.block_threads"), int)
    problem = launch_problem(facts, gpu.limits) if is_known else ""
    problem = problem or (grid_problem(launch.grid, gpu.limits) if launch.grid is not None else "")
    if problem:
        return KernelOutcome.CANNOT_LAUNCH, problem
    if not is_known:
        return KernelOutcome.BUILT, ""
    return KernelOutcome.SPILLS if facts.get("aot.spills") else KernelOutcome.FITS, ""


def _has_triton(source: str) -> bool:
    modules = set[str]()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            modules |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            modules.add((node.module or "").partition(".")[0])
    return "triton" in modules
