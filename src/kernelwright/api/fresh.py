"""Verdicts of a referee that a command starts for itself."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from kernelwright.api.referees import open_referee
from kernelwright.core.candidate import Candidate
from kernelwright.core.evaluation import Evaluation
from kernelwright.core.request import EvaluateRequest
from kernelwright.core.roofline import Floor
from kernelwright.core.task import Task
from kernelwright.machine.device_lease import Tell
from kernelwright.referee.device import parse_device
from kernelwright.runs.floors import floors_of
from kernelwright.settings import Settings


def verdicts(
    request: EvaluateRequest,
    task: Task,
    candidates: Sequence[Candidate],
    baselines: tuple[str, ...],
    settings: Settings,
    tell: Tell,
) -> Iterator[Evaluation]:
    """Yield the verdicts; what a task must do is counted while its reference is admitted."""
    place = parse_device(request.device)
    with (
        ThreadPoolExecutor(1) as beside,
        open_referee(settings, request.policy, device=request.device, tell=tell) as referee,
    ):
        counting = beside.submit(referee.count_work, task)

        def floors() -> dict[str, Floor]:
            return floors_of(counting.result(), place.kind, settings.cache_dir, index=place.index)

        with referee.open(task) as session:
            for candidate in candidates:
                yield session.evaluate(candidate, final=request.final, floors=floors, baselines=baselines)
