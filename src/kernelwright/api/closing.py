"""Closes what a run's candidates leave open, by the tuner's timings."""

import time

from kernelwright.core.candidate import Candidate
from kernelwright.core.closing import ClosedParameters
from kernelwright.core.errors import TaskError, UserError
from kernelwright.core.task import Task
from kernelwright.machine.probe import probe_machine
from kernelwright.runs.closing import Closer
from kernelwright.tuning.search import responses, tune_points
from kernelwright.tuning.sources import OpenSource
from kernelwright.tuning.timer import PointTimer


def closer() -> Closer:
    """Return what closes the open parameters of a run's candidates, by timings on this machine's processor.

    Only the first workload is timed. A fresh confined process serves each candidate, so none can touch the
    timings of another.
    """

    def close(task: Task, candidate: Candidate, seconds: float) -> ClosedParameters:
        started, points = time.monotonic(), OpenSource(candidate.source)
        problem, run = "", None
        try:
            with PointTimer(task, threads=probe_machine().cores or 1) as timer:
                run = tune_points(points, timer, seconds=seconds)
        except (UserError, TaskError) as error:  # defaults that do not run are the referee's to judge
            problem = str(error)
        spent = time.monotonic() - started
        if run is None:
            return ClosedParameters(
                written=candidate.id, values=dict(points.base()), seconds=spent, problem=problem
            )
        chosen = run.chosen
        low, high = chosen.interval or (1.0, 1.0)
        return ClosedParameters(
            written=candidate.id,
            values=dict(chosen.values),
            low=low,
            high=high,
            n_points=len(run.tried),
            n_failed=run.n_failed,
            n_possible=points.size,
            seconds=spent,
            responses=responses(run),
        )

    return close
