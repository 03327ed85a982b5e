"""The space of programs of a task: its decisions, its size, and points of it."""

from collections.abc import Mapping

from kernelwright.api.capturing import capturing
from kernelwright.api.machines import bound_settings
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import CaptureError, LoweringError, TaskError
from kernelwright.core.plan import ParamValue
from kernelwright.core.request import SpaceRequest
from kernelwright.core.task import Task
from kernelwright.ir.plan_lowering import write_source
from kernelwright.ir.program import Call, Region
from kernelwright.ir.space import PlannedPoint, Space
from kernelwright.machine.probe import probe_machine
from kernelwright.report.spaces import SpaceDecision, SpacePoint, SpaceResult
from kernelwright.settings import Settings
from kernelwright.skills.load import load_skills
from kernelwright.targets.base import Target
from kernelwright.targets.registry import find_target
from kernelwright.tasks.capture import Capture
from kernelwright.tasks.places import load_place


def run_space(request: SpaceRequest, *, settings: Settings | None = None) -> SpaceResult:
    """Return the space of the task's main workload; nothing is compiled or run but the reference itself.

    Args:
        request: what is asked for.
        settings: where things are; default: ``load_settings()``.

    Raises:
        TaskError: the task cannot be captured.
        UserError: there is no such task or target.
    """
    where = bound_settings(settings, request.require_sandbox, confine_tasks=request.confine_tasks)
    target = find_target(request.target, to_run=False)
    task = load_place(request.task, workloads=request.workloads, mode=request.mode)
    with capturing(where) as capture:
        space = space_of(task, target, capture)
    sizes, decisions = space.size(), space.decisions()
    return SpaceResult(
        task=task.name,
        target=str(target),
        sizes=sizes,
        decisions=tuple(
            SpaceDecision(d.name, d.factor, d.values, d.default, d.why, _as_text(d.illegal))
            for d in decisions
        ),
        points=tuple(_shown(point, task, target) for point in space.sample(request.sample, request.seed)),
    )


def space_of(task: Task, target: Target, capture: Capture) -> Space:
    """Return the space of a task's main workload on this machine; raises TaskError where it has none."""
    try:
        captured = capture(task, task.workloads[0])
    except CaptureError as error:
        raise TaskError(f"{task.name}: no programs are generated for it: {error}") from error
    skills = {s.lowering: s.name for s in load_skills().values() if s.lowering and str(target) in s.targets}
    return Space(captured, target.lowering.within(task.tolerance), probe_machine(), skills)


def _as_text(illegal: Mapping[ParamValue, str]) -> dict[str, str]:
    return {str(value): why for value, why in illegal.items()}


def source_of(planned: PlannedPoint, task: Task, target: Target) -> str:
    """Return the source of a point that means a program; LoweringError where it cannot be printed."""
    assert planned.lowered is not None
    has_kernels = any(isinstance(step, Region) for step in planned.lowered.program.steps)
    write = target.writer if has_kernels else target.library_writer
    if write is None:
        raise LoweringError(f"{target} writes no kernels")
    return write_source(task, {task.workloads[0].name: planned.lowered}, planned.plan, write)


def _shown(planned: PlannedPoint, task: Task, target: Target) -> SpacePoint:
    candidate, illegal = None, planned.illegal
    steps: tuple[Call | Region, ...] = ()
    if planned.lowered is not None:
        steps = planned.lowered.program.steps
        has_kernels = any(isinstance(step, Region) for step in steps)
        write = target.writer if has_kernels else target.library_writer
        try:
            if write is not None:
                source = write_source(task, {task.workloads[0].name: planned.lowered}, planned.plan, write)
                candidate = Candidate(source=source, target=target.name).id
        except LoweringError as error:
            illegal = str(error)
    return SpacePoint(
        decides=dict(planned.point.values),
        moves=tuple(move.key for move in planned.plan.moves),
        candidate=candidate,
        regions=sum(isinstance(step, Region) for step in steps),
        calls=sum(isinstance(step, Call) and not step.is_view for step in steps),
        illegal=illegal,
    )
