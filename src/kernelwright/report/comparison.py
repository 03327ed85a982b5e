"""Recipes side by side at one budget: pure functions over the runs that a comparison has ended.

Only cells (task, seed) that every contestant has ended are counted, so that a comparison cut short is as
fair as a whole one. Seeds of one task are averaged first, and intervals come from drawing tasks.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import combinations
from statistics import fmean
from typing import Literal

from kernelwright.core.budget import Budget
from kernelwright.core.frozen import Frozen
from kernelwright.core.models import ModelSettings
from kernelwright.report.estimates import Estimate, estimate
from kernelwright.report.played import Contestant, Played
from kernelwright.report.tables import Ending

FAST_P = (1.0, 1.5, 2.0)
MIN_PAIRED = 6
"""Tasks from which a paired comparison is given a verdict: the fewest on which a two-sided sign test at
5 % could tell two recipes apart at all. Ours."""

Verdict = Literal["better", "worse", "no significant difference", "too few tasks"]


class Conditions(Frozen):
    """What every run of a comparison was given alike."""

    budget: Budget
    memory: Literal["cold", "warm"] = "cold"
    """``cold``: no run knows anything of another one. ``warm``: all know what the store had learned when
    the comparison began, and nothing later."""
    measurements: Literal["fresh", "reused", "replayed"] = "fresh"
    """``reused``: a candidate that came up before in this comparison keeps its first measurement.
    ``replayed``: nothing was measured, a recording was read."""
    target: str = ""
    models: ModelSettings | None = None
    """Of the teams that have a seat for one, as asked for."""
    referee: int | None = None
    """Its version; None where nothing was measured."""

    @property
    def is_timed(self) -> bool:
        """True when the seconds of a run are its own."""
        return self.measurements == "fresh"


class Standing(Frozen):
    """What one contestant came to."""

    name: str
    contestant: Contestant
    n_tasks: int
    n_runs: int
    success: float | None
    """Share of the runs that ended verified or left the module unchanged; a mean over tasks. Shares are
    None where no run is counted."""
    faster: float | None
    """Share that delivered a faster kernel."""
    fast_p: dict[str, float | None]
    """Threshold -> share whose delivered speedup over eager lies above it with its whole interval."""
    geomean: Estimate | None
    """Delivered speedup over eager, where the run did not fail."""
    median: Estimate | None
    area: Estimate | None
    """Geometric mean, over the budget and the tasks, of the best so far: 1 when nothing was found, the
    height reached when it is reached with the first evaluation."""
    curve: tuple[float, ...] = ()
    """At 0, 1, 2 … evaluations: geometric mean over the tasks of the best so far, at least 1."""
    evaluations: float | None
    """Mean per run, as are the next three."""
    model_calls: float | None
    tokens: float | None
    seconds: float | None
    usd: float | None
    """Sum over the runs; None when some price is unknown."""


class Pair(Frozen):
    """Two contestants on the same tasks and seeds."""

    first: str
    second: str
    n_tasks: int
    final: Estimate | None
    """Delivered speedup of the first over that of the second, geometric mean over tasks."""
    area: Estimate | None
    """The same of the areas under their curves."""
    verdict: Verdict
    """What the interval of ``final`` allows to say of the first."""


class TaskLine(Frozen):
    """One task: what each contestant delivered on it."""

    task: str
    speedups: dict[str, float | None]
    """Contestant's name -> geometric mean over its seeds; None when every run failed."""
    device: str = ""
    """Which judged its runs."""


class FailedRun(Frozen):
    """A run that did not end well."""

    name: str
    task: str
    seed: int
    detail: str


class Comparison(Frozen):
    """All of it."""

    standings: tuple[Standing, ...]
    pairs: tuple[Pair, ...]
    tasks: tuple[TaskLine, ...]
    failures: tuple[FailedRun, ...]
    horizon: int
    """Evaluations that the curves and areas span."""
    n_cells: int
    """Pairs of task and seed that every contestant has ended."""
    n_open: int
    """Pairs that only some have ended; left out."""


def compare_runs(
    played: Iterable[Played], contestants: Sequence[Contestant], *, horizon: int | None = None
) -> Comparison:
    """Compare contestants on the cells that all of them have ended.

    Args:
        played: their runs, at most one for each contestant and cell; runs of others are left out.
        contestants: in the order of the tables.
        horizon: evaluations granted to each run; None: the most that any of them used.
    """
    names = {contestant: contestant.name_among(contestants) for contestant in contestants}
    known = [run for run in played if run.contestant in names]
    ended: dict[tuple[str, int], set[Contestant]] = defaultdict(set)
    for run in known:
        ended[run.cell].add(run.contestant)
    full = {cell for cell, who in ended.items() if len(who) == len(names)}
    runs = [run for run in known if run.cell in full]
    span = max((run.evaluations for run in runs), default=0) if horizon is None else horizon
    own = {names[c]: [run for run in runs if run.contestant == c] for c in contestants}
    return Comparison(
        standings=tuple(_standing(names[c], c, own[names[c]], span) for c in contestants),
        pairs=tuple(_pair(a, own[a], b, own[b], span) for a, b in combinations(own, 2)),
        tasks=_task_lines(own),
        failures=tuple(
            FailedRun(name=name, task=run.task, seed=run.seed, detail=run.detail)
            for name, mine in own.items()
            for run in mine
            if not run.is_success
        ),
        horizon=span,
        n_cells=len(full),
        n_open=len(ended) - len(full),
    )


def _standing(name: str, contestant: Contestant, runs: Sequence[Played], span: int) -> Standing:
    finals = list(_by_task(runs, _log_final).values())
    return Standing(
        name=name,
        contestant=contestant,
        n_tasks=len({run.task_id for run in runs}),
        n_runs=len(runs),
        success=_share(runs, lambda run: run.is_success),
        faster=_share(runs, lambda run: run.ending is Ending.FASTER),
        fast_p={f"{p:g}": _share(runs, partial(_is_above, p)) for p in FAST_P},
        geomean=estimate(finals),
        median=estimate(finals, "median"),
        area=estimate(list(_by_task(runs, lambda run: _log_area(run, span)).values())),
        curve=_curve(runs, span),
        evaluations=_mean(run.evaluations for run in runs),
        model_calls=_mean(run.model_calls for run in runs),
        tokens=_mean(run.tokens for run in runs),
        seconds=_mean(run.seconds for run in runs if run.seconds is not None),
        usd=_sum([run.usd for run in runs]),
    )


def _pair(
    first: str, first_runs: Sequence[Played], second: str, second_runs: Sequence[Played], span: int
) -> Pair:
    finals = list(_differences(first_runs, second_runs, _log_final).values())
    areas = list(_differences(first_runs, second_runs, lambda run: _log_area(run, span)).values())
    final = estimate(finals)
    return Pair(
        first=first,
        second=second,
        n_tasks=len(finals),
        final=final,
        area=estimate(areas),
        verdict=_verdict(final, len(finals)),
    )


def _verdict(ratio: Estimate | None, n_tasks: int) -> Verdict:
    if ratio is None or n_tasks < MIN_PAIRED:
        return "too few tasks"
    if ratio.low > 1.0:
        return "better"
    return "worse" if ratio.high < 1.0 else "no significant difference"


def _differences(
    first: Sequence[Played], second: Sequence[Played], measure: Callable[[Played], float | None]
) -> Mapping[str, float]:
    """Return task -> mean over the seeds that both have a figure for of first minus second."""
    theirs = {run.cell: measure(run) for run in second}
    found: dict[str, list[float]] = defaultdict(list)
    for run in first:
        mine, other = measure(run), theirs.get(run.cell)
        if mine is not None and other is not None:
            found[run.task_id].append(mine - other)
    return {task: fmean(values) for task, values in found.items()}


def _by_task(runs: Iterable[Played], measure: Callable[[Played], float | None]) -> Mapping[str, float]:
    """Return task -> mean over its seeds, tasks without a figure left out."""
    found: dict[str, list[float]] = defaultdict(list)
    for run in runs:
        value = measure(run)
        if value is not None:
            found[run.task_id].append(value)
    return {task: fmean(values) for task, values in found.items()}


def _share(runs: Sequence[Played], is_meant: Callable[[Played], bool]) -> float | None:
    shares = _by_task(runs, lambda run: float(is_meant(run)))
    return fmean(shares.values()) if shares else None


def _log_final(run: Played) -> float | None:
    return math.log(run.speedup.ratio) if run.speedup is not None else None


def _log_area(run: Played, span: int) -> float | None:
    return fmean(math.log(run.height(x)) for x in range(1, span + 1)) if span else None


def _is_above(threshold: float, run: Played) -> bool:
    return run.speedup is not None and run.speedup.low > threshold


def _log_height(evaluations: int, run: Played) -> float:
    return math.log(run.height(evaluations))


def _curve(runs: Sequence[Played], span: int) -> tuple[float, ...]:
    if not runs:
        return ()
    heights = (_by_task(runs, partial(_log_height, x)) for x in range(span + 1))
    return tuple(math.exp(fmean(logs.values())) for logs in heights)


def _task_lines(own: Mapping[str, Sequence[Played]]) -> tuple[TaskLine, ...]:
    titles = {run.task_id: run.task for runs in own.values() for run in runs}
    finals = {name: _by_task(runs, _log_final) for name, runs in own.items()}
    judged: dict[str, dict[str, None]] = defaultdict(dict)
    for run in (run for runs in own.values() for run in runs):
        judged[run.task_id][run.device] = None
    return tuple(
        TaskLine(
            task=title,
            speedups={n: math.exp(logs[task]) if task in logs else None for n, logs in finals.items()},
            device=", ".join(filter(None, judged[task])),
        )
        for task, title in titles.items()
    )


def _mean(values: Iterable[float]) -> float | None:
    known = list(values)
    return fmean(known) if known else None


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) if known and len(known) == len(values) else None
