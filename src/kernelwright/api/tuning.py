"""Tuning: cheap timings choose a point, the referee judges it."""

import json
import math
from pathlib import Path
from statistics import median

from kernelwright.api import playing
from kernelwright.api.capturing import capturing
from kernelwright.api.judging import read_kernel
from kernelwright.api.machines import bound_settings
from kernelwright.api.spaces import source_of, space_of
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import UserError
from kernelwright.core.evaluation import Evaluation
from kernelwright.core.policy import Policy
from kernelwright.core.request import TuneRequest
from kernelwright.core.task import Task
from kernelwright.formats.kernel_tuner import read_results
from kernelwright.machine.probe import probe_machine
from kernelwright.memory.tuned import EarlierTuning
from kernelwright.report.tuned import T4_NAME, TunedPoint, TuneResult
from kernelwright.settings import Settings
from kernelwright.targets.registry import find_target
from kernelwright.tasks.places import load_place
from kernelwright.tuning.search import PointSource, Tried, surface, tune_points
from kernelwright.tuning.sources import OpenSource, SpaceSource
from kernelwright.tuning.timer import PointTimer

JUDGED = 3
"""Points that the referee is asked about at most, the fastest first, until one is verified."""
WORTH = 0.98
"""Time over the default's above which a point is not told apart from it."""


def run_tune(request: TuneRequest, *, settings: Settings | None = None) -> TuneResult:
    """Time points for the request's seconds, and have the best judged.

    Raises:
        TaskError: the task cannot be used.
        UserError: nothing is open, or the kernel does not run with its defaults.
        MachineError: no process, memory or compiler.
    """
    where = bound_settings(settings, request.require_sandbox, confine_tasks=request.confine_tasks)
    task = load_place(
        request.task, workloads=request.workloads, mode=request.mode, tolerance=request.tolerance
    )
    points = _points(request, task, where)
    threads = probe_machine().cores or 1
    earlier = [read_earlier(Path(path)) for path in request.earlier]
    device = find_target(request.target).device.name
    with PointTimer(task, threads=threads, require=where.require_sandbox, device=device) as timer:
        run = tune_points(points, timer, seconds=request.seconds, seed=request.seed, earlier=earlier)
    ranked = [tried for tried in run.ranked[:JUDGED] if (tried.ratio or 1.0) < WORTH]
    chosen = [*ranked, run.tried[0]]
    verdicts: list[Evaluation] = []
    policy = Policy(library_calls=request.library_calls)
    with playing.open_referee(where, policy, device=device) as referee, referee.open(task) as session:
        for tried in chosen:
            verdicts.append(session.evaluate(Candidate(source=tried.source)))
            if verdicts[-1].is_verified:
                break
    best = chosen[len(verdicts) - 1]
    return TuneResult(
        task=task.name,
        source=best.source,
        values=dict(best.values),
        ratio=best.ratio or 1.0,
        points=tuple(_tuned_point(tried) for tried in run.tried),
        parameters=dict(points.parameters()),
        target=find_target(request.target).name,
        seconds=run.seconds,
        is_exhausted=run.is_exhausted,
        surface=tuple(surface(run)),
        open_source=task.source if request.kernel is None else read_kernel(request.kernel),
        illegal=tuple(map(dict, run.illegal)),
        evaluation=verdicts[-1],
    )


def read_earlier(path: Path) -> EarlierTuning:
    """Return what tuning measured before; of a folder, its ``tuned.t4.json``.

    Raises:
        UserError: there is no such file, or it is none in the format T4.
    """
    file = path / T4_NAME if path.is_dir() else path
    try:
        points = read_results(json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise UserError(
            f"--earlier {file}: no T4 file can be read: {error}; name what tune --out wrote"
        ) from error
    timed = [(p.values, p.ratio or (median(p.times_ms) if p.times_ms else None)) for p in points]
    return EarlierTuning.of(str(file), timed)


def _tuned_point(tried: Tried) -> TunedPoint:
    low, high = tried.interval or (None, None)
    is_sound = low is not None and math.isfinite(low)
    return TunedPoint(
        values=dict(tried.values),
        ratio=tried.ratio,
        low=low if is_sound else None,
        high=high if is_sound else None,
        times_ms=tried.times_ms,
        why=tried.why,
    )


def _points(request: TuneRequest, task: Task, where: Settings) -> PointSource:
    if request.kernel is None:
        target = find_target(request.target)
        with capturing(where) as capture:
            space = space_of(task, target, capture)
        return SpaceSource(space, lambda planned: source_of(planned, task, target))
    source = OpenSource(read_kernel(request.kernel))
    if source.size == 1:
        raise UserError(
            f"{request.kernel.title}: it leaves nothing open; write TUNE = {{'NAME': [default, ...]}} at top "
            "level and read TUNE['NAME'][0]"
        )
    return source
