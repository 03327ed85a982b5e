"""Somebody's whole KernelBench run before the referee."""

from collections.abc import Callable
from pathlib import Path

from kernelwright.api.checking import reduced_sizes
from kernelwright.api.machines import bound_settings, environment_of, require_device
from kernelwright.api.referees import open_referee
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import TaskError, UserError
from kernelwright.core.policy import Policy
from kernelwright.core.request import CheckRequest, SubmissionRequest
from kernelwright.core.task import Task, Workload
from kernelwright.formats.kernelbench import (
    BenchClaim,
    GenerationId,
    Submission,
    read_reference_times,
    read_submission,
)
from kernelwright.machine import probe
from kernelwright.referee.device import parse_device
from kernelwright.referee.session.referee import Referee
from kernelwright.report.submissions import JudgedGeneration, SubmissionResult
from kernelwright.runs.floors import floors_of
from kernelwright.settings import Settings
from kernelwright.tasks.kernelbench import iter_paths, load_task, task_number

TOO_LARGE = "no sizes were found at which the problem fits this machine; see --max-ms and --max-mb"


def run_submission(
    request: SubmissionRequest,
    *,
    settings: Settings | None = None,
    on_row: Callable[[JudgedGeneration], object] = lambda row: None,
    on_result: Callable[[SubmissionResult], object] = lambda result: None,
) -> SubmissionResult:
    """Judge every kernel of a run on the problem that it is for.

    Args:
        request: what is asked for.
        settings: where things are; default: ``load_settings()``.
        on_row: called with each kernel when it has been judged.
        on_result: called then with what there is.

    Raises:
        UserError: the run or the problems are not there, or have another form.
        MachineError: no process, memory or compiler.
    """
    where = bound_settings(settings, request.require_sandbox, confine_tasks=request.confine_tasks)
    require_device(request.device)
    submission = read_submission(Path(request.folder))
    levels = {key.level for key in submission.kernels}
    problems = {level: _problems(Path(request.problems), level) for level in levels}
    slow = read_reference_times(Path(request.reference_times)) if request.reference_times else {}
    rows: list[JudgedGeneration] = []
    wanted = list(submission.kernels)[: request.limit]
    is_part = len(wanted) < len(submission.kernels)
    looked_at = len({(key.level, key.problem) for key in wanted})

    def result() -> SubmissionResult:
        return SubmissionResult(
            rows=tuple(rows),
            n_problems=looked_at if is_part else sum(map(len, problems.values())),
            command=request.command_line(),
            environment=environment_of(probe.probe_machine()),
        )

    policy = Policy(library_calls=request.library_calls)
    with open_referee(where, policy, device=request.device) as referee:
        for key in wanted:
            task = problems[key.level].get(key.problem)
            row = (
                _unknown(key, submission)
                if task is None
                else _judge(request, referee, where, submission, key, task, slow)
            )
            on_row(row)
            rows.append(row)
            on_result(result())
    return result()


def _problems(folder: Path, level: int) -> dict[int, Task]:
    """Return a level's problems by number."""
    paths = list(iter_paths(folder, level))
    if not paths:
        raise UserError(f"{folder}: holds no level{level}/*.py; name KernelBench's folder of problems")
    tasks = map(load_task, paths)
    return {number: task for task in tasks if (number := task_number(task)) is not None}


def _unknown(key: GenerationId, submission: Submission) -> JudgedGeneration:
    reason = f"level {key.level} has no problem {key.problem}"
    claim = submission.claims.get(key)
    return JudgedGeneration(key, str(key.problem), {}, None, reason, claim, is_known=False)


def _judge(
    request: SubmissionRequest,
    referee: Referee,
    settings: Settings,
    submission: Submission,
    key: GenerationId,
    task: Task,
    reference_ms: dict[tuple[int, str], float],
) -> JudgedGeneration:
    claim = submission.claims.get(key)
    claimed = _claimed(claim, reference_ms.get((key.level, task.name)))
    limits = CheckRequest(full_size=request.full_size, max_ms=request.max_ms, max_mb=request.max_mb)
    try:
        sizes = reduced_sizes(
            task, limits, is_confined=settings.confine_tasks, require=settings.require_sandbox
        )
    except TaskError as error:
        return JudgedGeneration(key, task.name, {}, None, str(error), claim, claimed)
    if sizes is None:
        return JudgedGeneration(key, task.name, {}, None, TOO_LARGE, claim, claimed)
    at = task.model_copy(update={"workloads": (Workload(overrides=sizes),)}) if sizes else task
    try:
        with referee.open(at) as session:
            place = parse_device(request.device)
            floors = floors_of(referee.count_work(at), place.kind, settings.cache_dir, index=place.index)
            evaluation = session.evaluate(Candidate(source=submission.kernels[key]), floors=floors)
    except TaskError as error:
        return JudgedGeneration(key, task.name, sizes, None, str(error), claim, claimed)
    return JudgedGeneration(key, task.name, sizes, evaluation, "", claim, claimed)


def _claimed(claim: BenchClaim | None, reference_ms: float | None) -> float | None:
    if claim is None or not claim.correctness or claim.runtime <= 0 or reference_ms is None:
        return None
    return reference_ms / claim.runtime
