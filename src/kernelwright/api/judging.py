"""The referee's verdict on kernels, whoever wrote them."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from kernelwright.api import playing
from kernelwright.api.machines import bound_settings, parse_baselines
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import UserError
from kernelwright.core.evaluation import Evaluation
from kernelwright.core.places import AsText, KernelPlace
from kernelwright.core.request import EvaluateRequest
from kernelwright.core.roofline import Floor
from kernelwright.core.task import Task
from kernelwright.referee.device import parse_device
from kernelwright.runs.prepare import floors_on
from kernelwright.settings import Settings
from kernelwright.tasks.places import load_place


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


def run_evaluate(request: EvaluateRequest, *, settings: Settings | None = None) -> Iterator[Evaluation]:
    """Return the referee's verdicts on the kernels, each made when it is asked for; the task is opened once.

    Raises:
        UserError: something in the request cannot be; when the first verdict is asked for, also: the task is
            none that can be judged on.
        MachineError: no process, memory or compiler.
    """
    where = bound_settings(settings, request.require_sandbox, confine_tasks=request.confine_tasks)
    baselines = parse_baselines(request.baselines, request.device)
    task = load_place(
        request.task, workloads=request.workloads, mode=request.mode, tolerance=request.tolerance
    )
    candidates = [Candidate(source=read_kernel(place)) for place in request.kernels]
    return _verdicts(request, task, candidates, baselines, where)


def _verdicts(
    request: EvaluateRequest,
    task: Task,
    candidates: Sequence[Candidate],
    baselines: tuple[str, ...],
    settings: Settings,
) -> Iterator[Evaluation]:
    place = parse_device(request.device)
    with (
        playing.open_referee(settings, request.policy, device=request.device) as referee,
        referee.open(task) as session,
    ):
        # Only now: admission has the clearer words for a task that cannot be used.
        floors: Mapping[str, Floor] = {}
        if not settings.confine_tasks:  # else the task's code would run in this process
            floors = floors_on(task, place.kind, settings.cache_dir, index=place.index)
        for candidate in candidates:
            yield session.evaluate(candidate, final=request.final, floors=floors, baselines=baselines)
