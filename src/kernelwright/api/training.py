"""Forward and backward together: the gradients have a run of their own, both kernels one module."""

import math
from collections.abc import Callable
from dataclasses import replace

from torch import nn

from kernelwright.api.models_apart import pickled_by_value
from kernelwright.api.optimizing import BackwardRun, OptimizeResult, finish
from kernelwright.api.starting import Begun, begin
from kernelwright.core.errors import CaptureError, LoweringError, TaskError
from kernelwright.core.evaluation import Evaluation
from kernelwright.core.events import Event
from kernelwright.delivery.backward import BackwardTask, backward_task
from kernelwright.delivery.making import original_of
from kernelwright.tasks.places import save_task

Listener = Callable[[Event], None]


def finish_with_backward(
    begun: Begun,
    *,
    original: nn.Module | None = None,
    progress: bool | None = None,
    on_event: Listener | None = None,
) -> OptimizeResult:
    """Carry a run to its end, then the run of its gradients, and return what came of both.

    The backward kernel is delivered where a step, forward and backward, is faster with the two kernels than
    eager, and where the delivered module's gradients hold against float64. Otherwise the original computes
    gradients, and ``result.backward.note`` says why.

    Args:
        begun: the run of the forward.
        original: the live module; None: a file's is constructed.
        progress: as ``show_run``.
        on_event: called with each event of both runs.
    """
    result = finish(begun, original=original, progress=progress, on_event=on_event)
    if result.winner is None:
        return replace(result, backward=_original("no kernel for the forward was faster"))
    try:
        made = _backward_task(begun, original)
    except (CaptureError, LoweringError, TaskError) as error:
        return replace(result, backward=_original(str(error)))
    found = _searched(begun, made, result, progress, on_event)
    delivered = replace(result, backward=found)
    try:
        delivered.delivery  # noqa: B018  # compares its gradients with float64
    except TaskError as error:
        wrong = _original(str(error), run_id=found.run_id, evaluation=found.evaluation)
        return replace(result, backward=wrong)
    return delivered


def _original(why: str, **more: object) -> BackwardRun:
    return BackwardRun(note=f"by the original, as {why}", **more)  # type: ignore[arg-type]


def _backward_task(begun: Begun, original: nn.Module | None) -> BackwardTask:
    task = begun.spec.task
    own, origin = original_of(task, original)
    with pickled_by_value(own if origin is not None else None):
        return backward_task(task, original, begun.settings.data_dir / "modules")


def _searched(
    begun: Begun,
    made: BackwardTask,
    forward: OptimizeResult,
    progress: bool | None,
    on_event: Listener | None,
) -> BackwardRun:
    """Search a kernel for the gradients, and say whether training is faster with it."""
    request = begun.request
    assert request is not None
    asked = request.model_copy(
        update={
            "task": save_task(made.task),
            "budget": request.budget.halved(),
            "with_backward": False,
            "blocks": False,
            "workloads": (),
            "mode": None,
            "tolerance": None,
        }
    )
    inner = begin(asked, settings=begun.settings, store=begun.store, evaluator=begun.evaluator, carry_on=True)
    try:
        found = finish(inner, progress=progress, on_event=on_event)
    except (CaptureError, LoweringError, TaskError) as error:
        return _original(str(error), run_id=inner.run_id)
    known = {"run_id": found.run_id, "evaluation": found.evaluation}
    if found.winner is None or found.evaluation is None or forward.evaluation is None:
        return _original(f"no kernel for the gradients was faster: {found.reason}", **known)
    step = step_speedup(forward.evaluation, found.evaluation)
    if step is None or step <= 1.0:
        return replace(
            _original("forward and backward together are no faster with kernels", **known), step=step
        )
    return BackwardRun(
        note=f"by a kernel: forward and backward together take 1/{step:.2f} of eager's time or less",
        run_id=found.run_id,
        evaluation=found.evaluation,
        winner=found.winner,
        task=made,
        step=step,
    )


def step_speedup(forward: Evaluation, backward: Evaluation) -> float | None:
    """Return how much faster forward and backward together are than eager; None where it was not measured.

    The eager baseline of a backward task is forward and backward. The kernels' time is the sum of both, the
    backward's at the lower end of its speedup's interval. Geometric mean over the workloads.
    """
    ratios = []
    for ahead, back in zip(forward.results, backward.results, strict=False):
        eager, over = back.baselines.get("eager"), back.speedup("eager")
        if eager is None or over is None:
            return None
        ratios.append(1 / (ahead.candidate.median_ms / eager.median_ms + 1 / over.low))
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else None
