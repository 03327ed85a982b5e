"""Published kernels before the referee; those that need a GPU before its compiler."""

import ast
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from kernelwright.api.inspecting import looking, wanted_gpu
from kernelwright.api.judging import read_kernel, run_evaluate
from kernelwright.api.machines import bound_settings, environment_of
from kernelwright.core.errors import MachineError, TaskError, UserError
from kernelwright.core.places import AsText, AtPath, KernelPlace
from kernelwright.core.request import ClaimsRequest, EvaluateRequest
from kernelwright.core.task import Workload
from kernelwright.formats.claims import PublishedClaim, read_claims
from kernelwright.machine import probe
from kernelwright.referee.baselines import known_baselines
from kernelwright.referee.checks.guard import find_size_problem, find_syntax_problem
from kernelwright.referee.device import parse_device
from kernelwright.report.claims import ClaimsResult, JudgedClaim
from kernelwright.settings import Settings
from kernelwright.targets.gpu.inspect.compiled import default_gpu, form_of, form_of_file
from kernelwright.targets.gpu.inspect.form import AotForm
from kernelwright.targets.gpu.inspect.inspection import KernelForm
from kernelwright.tasks.places import load_place

_NO_TASK = "the claim names no task; put its file into the folder and name it in claims.json"


def run_claims(
    request: ClaimsRequest,
    *,
    settings: Settings | None = None,
    on_row: Callable[[JudgedClaim], object] = lambda row: None,
    on_result: Callable[[ClaimsResult], object] = lambda result: None,
) -> ClaimsResult:
    """Judge every published kernel of a folder, or say why that cannot be done here.

    The folder's tasks are strangers': their references run in the sandbox too.

    Args:
        request: what is asked for.
        settings: where things are; default: ``load_settings()``.
        on_row: called with each claim when it has been judged.
        on_result: called then with what there is.

    Raises:
        UserError: the folder has no claims, or they are not in the form of docs/formats.md.
        MachineError: no process, memory or compiler.
    """
    where = bound_settings(settings, request.require_sandbox)
    folder = Path(request.folder)
    rows: list[JudgedClaim] = []

    def result() -> ClaimsResult:
        return ClaimsResult(
            rows=tuple(rows),
            command=request.command_line(),
            environment=environment_of(probe.probe_machine()),
        )

    for claim in read_claims(folder):
        row = _judged(claim, folder, request, where)
        on_row(row)
        rows.append(row)
        on_result(result())
    return result()


def _judged(claim: PublishedClaim, folder: Path, request: ClaimsRequest, where: Settings) -> JudgedClaim:
    try:
        source = read_kernel(AtPath(path=str(folder / claim.kernel)))
    except UserError as error:
        return JudgedClaim(claim, reason=str(error))
    form = form_of_file(claim.kernel)
    if form is not None:
        return _judged_bare(claim, form, source, folder, request, where)
    is_sound = find_syntax_problem(source) is None  # before this process parses a stranger's text
    if is_sound and _needs_gpu(source) and not parse_device(request.device).is_apart:
        return _inspected(claim, folder, source, where)
    return _evaluated(claim, AtPath(path=str(folder / claim.kernel)), folder, request, where)


def _judged_bare(
    claim: PublishedClaim, form: AotForm, source: str, folder: Path, request: ClaimsRequest, where: Settings
) -> JudgedClaim:
    """Judge a kernel that is a file of a GPU's language alone, as far as it can be wrapped."""
    if problem := find_size_problem(source):
        return JudgedClaim(claim, reason=problem)
    if form.wrap is None:
        words = (
            f"{form.title} in a file of its own gives no sizes of launches; docs/cuda.md has a form that does"
        )
        return JudgedClaim(claim, reason=words)
    bare = form.wrap(source)
    if bare.problem or not parse_device(request.device).is_apart:
        return replace(_inspected(claim, folder, bare.module, where, bare.problem), call=bare.call)
    kernel = AsText(name="published", source=bare.module)
    return replace(_evaluated(claim, kernel, folder, request, where), call=bare.call)


def _evaluated(
    claim: PublishedClaim, kernel: KernelPlace, folder: Path, request: ClaimsRequest, where: Settings
) -> JudgedClaim:
    if not claim.task:
        return JudgedClaim(claim, reason=_NO_TASK)
    over = (claim.over,) if claim.over in known_baselines(request.device) else ()
    asked = EvaluateRequest(
        task=AtPath(path=str(folder / claim.task)),
        kernels=(kernel,),
        workloads=(Workload(overrides=claim.sizes),) if claim.sizes else (),
        final=True,
        confine_tasks=True,
        baselines=over or None,
        library_calls=request.library_calls,
        device=request.device,
        require_sandbox=request.require_sandbox,
    )
    try:
        (evaluation,) = run_evaluate(asked, settings=where)
    except (TaskError, UserError) as error:
        return JudgedClaim(claim, reason=str(error))
    return JudgedClaim(claim, evaluation)


def _inspected(
    claim: PublishedClaim, folder: Path, source: str, where: Settings, problem: str = ""
) -> JudgedClaim:
    """Say what a compiler makes of a kernel for which there is no GPU here, or that cannot be called."""
    form = form_of(source)
    gpu = default_gpu(form)
    reason = problem or "needs a GPU to be judged; none was asked for (--device)"
    try:
        task = load_place(AtPath(path=str(folder / claim.task))) if claim.task else None
        if task is None and form == KernelForm.TRITON:
            return JudgedClaim(claim, reason=f"{reason}, and was not inspected: {_NO_TASK}")
        with looking(form, source, task, where) as look:
            found = look(wanted_gpu(gpu, form))
    except (UserError, MachineError) as error:
        return JudgedClaim(claim, reason=f"{reason}, and was not inspected: {error}")
    n_run = sum(kernel.outcome.can_run for kernel in found.kernels)
    seen = f"{n_run} of {len(found.kernels)} kernels can be launched" if found.kernels else found.detail
    words = f"{found.status.replace('_', ' ')} for {gpu}: {seen}"
    return JudgedClaim(claim, inspected=words, reason=reason)


def _needs_gpu(source: str) -> bool:
    """True for kernels in one of the GPUs' languages: their forms, or Triton, which is imported."""
    if form_of(source) != KernelForm.TRITON:
        return True
    nodes = list(ast.walk(ast.parse(source)))
    named = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    named |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    return any(name.partition(".")[0] == KernelForm.TRITON for name in named)
