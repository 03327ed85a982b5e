"""The referee's verdict on kernels, whoever wrote them."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import UserError
from kernelwright.core.evaluation import Evaluation
from kernelwright.core.places import AsText, KernelPlace
from kernelwright.core.request import EvaluateRequest
from kernelwright.core.task import Task
from kernelwright.machine.device_lease import Tell
from kernelwright.remote.records import EvaluationRequest
from kernelwright.settings import Settings, load_settings
from kernelwright.targets.device import PROCESSOR
from kernelwright.tasks.places import load_place
from kernelwright.warm.client import NoWarmReferee, WarmClient
from kernelwright.warm.records import WarmQuestion


def read_kernel(place: KernelPlace) -> str:
    """Return a kernel's source; raises UserError when there is no such text."""
    if isinstance(place, AsText):
        return place.source
    path = Path(place.path)
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8 text; name a Python file that defines ModelNew") from error
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); name a file with ModelNew") from error


def run_evaluate(
    request: EvaluateRequest, *, settings: Settings | None = None, tell: Tell = lambda line: None
) -> Iterator[Evaluation]:
    """Return the referee's verdicts on the kernels, each made when it is asked for; the task is opened once.

    Args:
        request: what is asked for.
        settings: where things are; default: ``load_settings()``.
        tell: is told in one line what an evaluation waits for.

    Raises:
        UserError: something in the request cannot be; when the first verdict is asked for, also: the task is
            none that can be judged on.
        MachineError: no process, memory or compiler.
    """
    where = settings or load_settings()
    is_confined = request.confine_tasks or where.confine_tasks
    is_fresh = request.fresh_referee or is_confined or request.referee_idle == 0
    is_warm = not is_fresh and request.device == PROCESSOR.name
    if not is_warm or request.baselines:
        # lazy: the warm referee needs none of it
        from kernelwright.api.machines import parse_baselines

        baselines = parse_baselines(request.baselines, request.device)
        where = where if is_warm else _bound(request, where)
    else:
        baselines = ("eager",)
    task = load_place(
        request.task, workloads=request.workloads, mode=request.mode, tolerance=request.tolerance
    )
    candidates = [Candidate(source=read_kernel(place)) for place in request.kernels]
    verdicts = _warm_verdicts if is_warm else _fresh_verdicts
    return verdicts(request, task, candidates, baselines, where, tell)


def _warm_verdicts(
    request: EvaluateRequest,
    task: Task,
    candidates: Sequence[Candidate],
    baselines: tuple[str, ...],
    settings: Settings,
    tell: Tell,
) -> Iterator[Evaluation]:
    """Yield the verdicts of the referee that stays; where there can be none, those of a fresh one."""
    done = 0
    try:
        with WarmClient(settings.cache_dir, request.device, request.referee_idle, tell) as warm:
            for candidate in candidates:
                yield warm.judge(
                    WarmQuestion(
                        task=task,
                        evaluation=EvaluationRequest(
                            task_id=task.id, candidate=candidate, final=request.final, baselines=baselines
                        ),
                        policy=request.policy,
                        require_sandbox=request.require_sandbox or settings.require_sandbox,
                    )
                )
                done += 1
        return
    except NoWarmReferee as error:
        tell(f"judging in a fresh referee; of the warm one: {error}")
    yield from _fresh_verdicts(request, task, candidates[done:], baselines, _bound(request, settings), tell)


def _bound(request: EvaluateRequest, settings: Settings) -> Settings:
    # lazy: the warm referee does not need it
    from kernelwright.api.machines import bound_settings

    return bound_settings(settings, request.require_sandbox, confine_tasks=request.confine_tasks)


def _fresh_verdicts(
    request: EvaluateRequest,
    task: Task,
    candidates: Sequence[Candidate],
    baselines: tuple[str, ...],
    settings: Settings,
    tell: Tell,
) -> Iterator[Evaluation]:
    # lazy: the warm referee's process has all this
    from kernelwright.api.fresh import verdicts

    yield from verdicts(request, task, candidates, baselines, settings, tell)
