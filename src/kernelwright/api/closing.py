"""Closes what a run's candidates leave open, by the tuner's timings: parameters of a source, or schedules."""

import time
from collections.abc import Callable

from kernelwright.api.capturing import capturing
from kernelwright.api.spaces import source_of
from kernelwright.core.candidate import Candidate
from kernelwright.core.closing import ClosedParameters, Closer
from kernelwright.core.errors import CaptureError, LoweringError, TaskError, UserError
from kernelwright.core.machine import Machine
from kernelwright.core.target import TargetName
from kernelwright.core.task import Task
from kernelwright.ir.plan_lowering import LIBRARY_SEED, lower_plan
from kernelwright.ir.space import Space
from kernelwright.machine.built_elsewhere import BuildElsewhere
from kernelwright.machine.probe import probe_machine
from kernelwright.runs.closing import defaults_of
from kernelwright.settings import Settings, load_settings
from kernelwright.skills.load import load_skills
from kernelwright.targets.registry import target_of
from kernelwright.tuning.search import TuningRun, responses, tune_points
from kernelwright.tuning.sources import OpenSource, SpaceSource
from kernelwright.tuning.timer import PointTimer

REASONS = 3
"""Reasons why points failed that are recorded."""


def closer(
    target: TargetName,
    machine: Callable[[], Machine],
    where: Settings | None = None,
    elsewhere: BuildElsewhere | None = None,
) -> Closer:
    """Return what closes what a run's candidates leave open, by timings on the target's device.

    Only the first workload is timed. A fresh confined process serves each candidate, so none can touch the
    timings of another. ``machine`` is what schedules are for; ``where`` says how tasks are captured;
    ``elsewhere`` builds points.
    """

    def close(task: Task, candidate: Candidate, seconds: float) -> ClosedParameters:
        started = time.monotonic()
        problem, run, points = "", None, None
        try:
            points = (
                OpenSource(candidate.source)
                if defaults_of(candidate)
                else schedules_of(task, candidate, target, machine(), where)
            )
            required = None if where is None else where.require_sandbox
            threads = probe_machine().cores or 1
            timer = PointTimer(
                task, threads=threads, require=required, device=target.device, elsewhere=elsewhere
            )
            with timer:
                run = tune_points(points, timer, seconds=seconds, begun=started)
        except (UserError, TaskError, LoweringError, CaptureError) as error:
            problem = str(error)  # defaults that do not run are the referee's to judge
        spent = time.monotonic() - started
        if run is None or points is None:
            values = {} if points is None else dict(points.base())
            return ClosedParameters(written=candidate.id, values=values, seconds=spent, problem=problem)
        return _closed(candidate, points, run, spent)

    return close


def schedules_of(
    task: Task, candidate: Candidate, target: TargetName, machine: Machine, where: Settings | None = None
) -> SpaceSource:
    """Return the schedules that the candidate's plan leaves to decide.

    Raises:
        LoweringError: its plan is none that we lower, or nothing is generated.
        CaptureError: the task is not captured.
    """
    own = target_of(target)
    skills = {s.lowering: s.name for s in load_skills().values() if s.lowering and str(target) in s.targets}
    lowering_of = {name: lowering for lowering, name in skills.items()}
    lowering_of |= {s.name: s.lowering for s in load_skills().values() if s.lowering}
    lowering_of["library-seed"] = f"fusion:{LIBRARY_SEED}"
    with capturing(where or load_settings()) as capture:
        captured = capture(task, task.workloads[0])
    lowered = lower_plan(captured, candidate.plan, lowering_of, own.lowering, machine)
    space = Space(captured, own.lowering.within(task.tolerance), machine, skills)
    schedules = space.schedules(candidate.plan, lowered)
    if not any(len(decision.legal) > 1 for decision in schedules.decisions()):
        raise LoweringError("its plan leaves no schedule open")
    return SpaceSource(space, lambda planned: source_of(planned, task, own), schedules)


def _closed(
    candidate: Candidate, points: OpenSource | SpaceSource, run: TuningRun, seconds: float
) -> ClosedParameters:
    chosen = run.chosen
    low, high = chosen.interval or (1.0, 1.0)
    return ClosedParameters(
        written=candidate.id,
        values=dict(chosen.values),
        low=low,
        high=high,
        n_points=len(run.tried),
        n_failed=run.n_failed,
        failures=run.failures[:REASONS],
        n_possible=points.size,
        seconds=seconds,
        responses=responses(run),
        plan=points.plan(chosen.values) if isinstance(points, SpaceSource) else None,
    )
