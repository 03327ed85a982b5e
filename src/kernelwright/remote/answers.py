"""What may lie in a drop folder's inbox, and the honest evaluation that it makes."""

import json
import math
from typing import Annotated, Any

from pydantic import Field, ValidationError

from kernelwright.core.evaluation import Evaluation, Speedup, Stage, Status, Timing, WorkloadResult
from kernelwright.core.frozen import Frozen
from kernelwright.core.roofline import Floor
from kernelwright.core.target import TargetName
from kernelwright.core.task import Task
from kernelwright.remote.lines import first_fault, one_line

Milliseconds = Annotated[float, Field(ge=1e-6, le=1e9)]
"""From a nanosecond to eleven days: anything else is in another unit, or nonsense; our choice."""

EARLIEST_STAGE = {
    Status.PARSE_ERROR: Stage.GUARD,
    Status.COMPILE_ERROR: Stage.BUILD,
    Status.LOAD_ERROR: Stage.LOAD,
    Status.REJECTED: Stage.GUARD,
}
"""Furthest stage that a failing candidate has surely entered; VERIFY for the others."""


class DropRequest(Frozen):
    """``request.json``: all of a request but the kernel, which lies beside it as ``kernel.py``."""

    task: Task
    candidate_id: str
    """Content hash of target and kernel: a kernel that was cut short is found out."""
    target: TargetName
    final: bool = False
    floors: dict[str, Floor] = Field(default_factory=dict)
    baselines: tuple[str, ...] = ("eager",)


class PlainAnswer(Frozen):
    """The least that a platform has to say; a whole ``Evaluation`` is welcome instead."""

    status: Status
    detail: str = ""
    latency_ms: dict[str, Milliseconds] = Field(default_factory=dict)
    """Workload -> the kernel's latency; needed for every workload when the status is ``verified``."""
    baseline_ms: dict[str, Milliseconds] = Field(default_factory=dict)
    """Workload -> eager latency; for every workload or for none."""


class Refused(Frozen):
    """The task itself is refused."""

    refused: str


class Failed(Frozen):
    """The platform failed; the same request may be answered another time."""

    failed: str


class MalformedAnswer(Frozen):
    """There is a file, and it is no answer to this request."""

    why: str


def read_answer(
    text: str, request: DropRequest, *, margin: float
) -> Evaluation | Refused | Failed | MalformedAnswer:
    """Read an answer; nothing raises, whatever the text is.

    Args:
        text: The file's content.
        request: What was asked.
        margin: See ``FileDropEvaluator``.
    """
    try:
        document = json.loads(text)
        if not isinstance(document, dict):
            return MalformedAnswer(why="it is no JSON object")
        return _read(document, text, request, margin)
    except ValidationError as error:
        return MalformedAnswer(why=first_fault(error))
    except (ValueError, RecursionError) as error:
        return MalformedAnswer(why=one_line(error))


def _read(
    document: dict[str, Any], text: str, request: DropRequest, margin: float
) -> Evaluation | Refused | Failed | MalformedAnswer:
    if "refused" in document:
        return Refused.model_validate_json(text)
    if "failed" in document:
        return Failed.model_validate_json(text)
    if "candidate_id" not in document:
        return _from_plain(PlainAnswer.model_validate_json(text), request, margin)
    evaluation = Evaluation.model_validate_json(text)
    theirs = (evaluation.task_id, evaluation.candidate_id, evaluation.is_final)
    if theirs != (request.task.id, request.candidate_id, request.final):
        return MalformedAnswer(why="it is the evaluation of another request")
    return evaluation


def _from_plain(answer: PlainAnswer, request: DropRequest, margin: float) -> Evaluation | MalformedAnswer:
    is_verified = answer.status is Status.VERIFIED
    names = [workload.name for workload in request.task.timed_workloads]
    if is_verified and set(answer.latency_ms) != set(names):
        return MalformedAnswer(why=f"latency_ms is not of exactly the workloads {', '.join(names)}")
    if is_verified and answer.baseline_ms and set(answer.baseline_ms) != set(names):
        return MalformedAnswer(why=f"baseline_ms is of some other workloads than {', '.join(names)}")
    words = [answer.detail, _caveat(answer, margin)] if is_verified else [answer.detail or "no reason given"]
    return Evaluation(
        candidate_id=request.candidate_id,
        task_id=request.task.id,
        stage=Stage.DONE if is_verified else EARLIEST_STAGE.get(answer.status, Stage.VERIFY),
        status=answer.status,
        detail="; ".join(" ".join(word.split()) for word in words if word),
        results=tuple(_result(name, answer, margin) for name in names) if is_verified else (),
        is_final=request.final,
    )


def _caveat(answer: PlainAnswer, margin: float) -> str:
    if not answer.baseline_ms:
        return "single latencies without a baseline: no speedup can be stated"
    if math.isinf(margin):
        return "single latencies without a spread: no speedup is taken for significant"
    return f"single latencies without a spread: speedups are taken to be uncertain by a factor of {margin:g}"


def _result(name: str, answer: PlainAnswer, margin: float) -> WorkloadResult:
    """Without a floor: the request's is of the machine that asks."""
    candidate = _single(answer.latency_ms[name])
    if not answer.baseline_ms:
        return WorkloadResult(workload=name, candidate=candidate, baselines={}, speedups=())
    ratio = answer.baseline_ms[name] / answer.latency_ms[name]
    speedup = Speedup(baseline="eager", ratio=ratio, low=ratio / margin, high=ratio * margin)
    eager = _single(answer.baseline_ms[name])
    return WorkloadResult(workload=name, candidate=candidate, baselines={"eager": eager}, speedups=(speedup,))


def _single(ms: float) -> Timing:
    """One sample: its quantiles are itself, and ``n_samples`` says how little that means."""
    return Timing(median_ms=ms, p10_ms=ms, p90_ms=ms, n_samples=1, calls_per_sample=1)
