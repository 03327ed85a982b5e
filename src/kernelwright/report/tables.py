"""What a bench came to: one row a task, sums over rows, both as plain data."""

import random
import statistics
from collections.abc import Iterable, Sequence
from enum import StrEnum

from pydantic import Field, field_serializer

from kernelwright.core.candidate import Candidate
from kernelwright.core.evaluation import Evaluation
from kernelwright.core.frozen import Frozen
from kernelwright.report.measures import (
    RatioInterval,
    baseline_ms,
    floor_fraction,
    geomean,
    latency_ms,
    speedup_over,
)
from kernelwright.report.story import Story
from kernelwright.report.verdict import failed_line
from kernelwright.targets.registry import target_of

FAST_P = (0.0, 0.8, 1.0, 1.5, 2.0)
"""Thresholds of KernelBench's fast_p: share of all tasks that are right and faster than p times eager.
Source: KernelBench, ``score.py``; strict comparison, all tasks in the denominator."""
NEAR_FLOOR = 0.8
"""Fraction of the roofline floor from which a task counts as at or near it; our choice."""
COLLAPSED_FROM = 2.0
"""Arithmetic over what rewrites leave of it, from which algebra collapses a task; our choice."""
RESAMPLES = 2000
EAGER, TORCH_COMPILE = "eager", "torch_compile"
"""Baselines with a column of their own."""


class Ending(StrEnum):
    """How a task's run ended."""

    FASTER = "faster"
    """A verified kernel was delivered. It alone is a success of ours."""
    COMPILED = "compiled"
    """The model was delivered under torch.compile, with no kernel of ours in it."""
    REARRANGED = "rearranged"
    """Calls of torch were delivered in another arrangement, with no kernel of ours."""
    UNCHANGED = "unchanged"
    """Nothing faster was found; the module stays as it is, which is right by definition."""
    FAILED = "failed"
    """The run did not end, or its winner did not pass its final evaluation."""


class BenchRow(Frozen):
    """One task's result."""

    task: str
    task_id: str
    category: str
    group: str
    """Row of the summary it counts in, e.g. ``main`` or ``held-out``."""
    run_id: str | None = None
    device: str = ""
    """Which judged it (``judged_on``); empty: not known."""
    ending: Ending
    detail: str = ""
    """Why the search ended, or what failed."""
    speedup_eager: RatioInterval | None = None
    """Of what was delivered; exactly 1 for an unchanged module. None when failed."""
    speedup_compile: RatioInterval | None = None
    """The same over torch.compile; None where it was not measured."""
    speedups: dict[str, RatioInterval] = Field(default_factory=dict)
    """The same over further baselines, by name."""
    missing: dict[str, str] = Field(default_factory=dict)
    """Baseline -> why there is no figure: it could not be made, or computes something else."""
    floor_fraction: float | None = None
    """Of what was delivered; None when no floor is known."""
    eager_ms: float | None = None
    delivered_ms: float | None = None
    evaluations: int = 0
    seconds: float = 0.0
    is_apart: bool = False
    """It is a network that was taken apart into blocks."""
    algebra_gain: float | None = None
    """Its arithmetic over what rewrites leave of it; None where that is not known."""
    compiler: str = ""
    """What kept the compiler from its work: the module was not captured, or lowering gave up, and why."""

    @field_serializer("speedup_eager", "speedup_compile")
    def _name_the_ends(self, value: RatioInterval | None) -> dict[str, float] | None:
        return None if value is None else value._asdict()

    @field_serializer("speedups")
    def _name_their_ends(self, value: dict[str, RatioInterval]) -> dict[str, dict[str, float]]:
        return {name: interval._asdict() for name, interval in value.items()}

    @property
    def is_success(self) -> bool:
        """True when what was delivered is verified or unchanged."""
        return self.ending is not Ending.FAILED

    @property
    def is_collapsed(self) -> bool:
        """True where algebra alone makes most of the arithmetic needless."""
        return self.algebra_gain is not None and self.algebra_gain >= COLLAPSED_FROM

    @property
    def over_best(self) -> tuple[str, RatioInterval] | None:
        """The fastest baseline, and the speedup over that; None where eager alone was measured."""
        known = dict(self.speedups)
        if self.speedup_compile is not None:
            known[TORCH_COMPILE] = self.speedup_compile
        if not known:
            return None
        if self.speedup_eager is not None:
            known[EAGER] = self.speedup_eager
        best = min(known, key=lambda name: known[name].ratio)
        return best, known[best]


class TaskSpread(Frozen):
    """Speedups of the successful tasks that have one."""

    n: int
    geomean: float
    low: float
    """Lower end of the 95 % bootstrap interval of the geomean over tasks."""
    high: float
    median: float
    mean: float
    smallest: float
    largest: float


class Summary(Frozen):
    """Sums over rows."""

    name: str
    n_tasks: int
    n_success: int
    """Verified or unchanged."""
    n_faster: int
    """With a generated kernel: these alone are successes of ours."""
    n_compiled: int = 0
    """Delivered under torch.compile, without a kernel."""
    n_rearranged: int = 0
    """Delivered as other calls of torch, without a kernel."""
    n_unchanged: int
    n_apart: int = 0
    """Networks that were taken apart, ..."""
    n_apart_faster: int = 0
    """... and those of them that have a generated kernel."""
    n_collapsed: int = 0
    """Algebra makes most of the arithmetic needless."""
    eager: TaskSpread | None
    plain: TaskSpread | None = None
    """Over eager, without the collapsed ones; None where there is none of them."""
    compiled: TaskSpread | None
    over: dict[str, TaskSpread] = Field(default_factory=dict)
    """The same over further baselines, by name."""
    best: TaskSpread | None = None
    """The same over the fastest baseline of each task."""
    fast_p: dict[str, float]
    """Threshold over eager -> share of all tasks; failed ones count as not."""
    fast_p_compile: dict[str, float]
    n_slower: int
    """Delivered kernels whose interval over eager lies below 1; must be 0."""
    n_with_floor: int
    n_near_floor: int


def row_from_story(
    story: Story,
    *,
    task: str,
    task_id: str,
    category: str,
    group: str,
    run_id: str,
    failure: str | None = None,
    winner: Candidate | None = None,
    device: str = "",
) -> BenchRow:
    """Return a task's row; an unfinished or failed run is a failed row.

    ``winner`` is looked at for a kernel of its own; None: it is taken to have one.
    """
    finished = story.finished
    row = BenchRow(
        task=task,
        task_id=task_id,
        category=category,
        group=group,
        run_id=run_id,
        device=device,
        ending=Ending.FAILED,
        detail=failure or (finished.reason if finished else "not finished"),
        evaluations=finished.spent.evaluations if finished else len(story.evaluated),
        seconds=finished.spent.seconds if finished else 0.0,
        is_apart=story.apart is not None and bool(story.apart.blocks),
        algebra_gain=story.prepared.algebra_gain if story.prepared else None,
        compiler=story.compiler,
    )
    if finished is None or failure is not None:
        return row
    if finished.winner is None:
        return row.model_copy(update=_unchanged(story))
    evaluation = finished.evaluation
    if evaluation is None or not evaluation.is_verified:
        return row
    return row.model_copy(
        update={
            "ending": _ending(story, finished.winner, winner),
            "speedup_eager": speedup_over(evaluation, EAGER),
            "speedup_compile": speedup_over(evaluation, TORCH_COMPILE),
            "speedups": {
                name: over for name in _further(evaluation) if (over := speedup_over(evaluation, name))
            },
            "missing": evaluation.missing_baselines,
            "floor_fraction": floor_fraction(evaluation),
            "eager_ms": baseline_ms(evaluation, EAGER),
            "delivered_ms": latency_ms(evaluation),
        }
    )


def _ending(story: Story, winner: str, written: Candidate | None) -> Ending:
    """Say what was delivered: only a kernel is a success of ours."""
    ways = story.apart.compositions if story.apart is not None else ()
    if any(way.is_compiled_alone for way in ways if way.candidate == winner):
        return Ending.COMPILED
    has_kernel = written is None or target_of(written.target).has_kernel(written.source)
    return Ending.FASTER if has_kernel else Ending.REARRANGED


def _unchanged(story: Story) -> dict[str, object]:
    """Return the figures of a module that stays as it is: eager's own."""
    evaluation = story.finished.evaluation if story.finished else None
    prepared = story.prepared
    eager_ms = geomean(prepared.baselines_ms.values()) if prepared else None
    floors = [floor.ms for floor in prepared.floors if floor is not None] if prepared else []
    floor_ms = geomean(floors)
    refused = failed_line(evaluation) if evaluation is not None and not evaluation.is_verified else None
    return {
        **({"detail": f"the last finalist: {refused}"} if refused else {}),
        "ending": Ending.UNCHANGED,
        "speedup_eager": RatioInterval(1.0, 1.0, 1.0),
        "speedup_compile": _eager_over(evaluation, TORCH_COMPILE),
        "speedups": {name: over for name in _further(evaluation) if (over := _eager_over(evaluation, name))},
        "missing": evaluation.missing_baselines if evaluation else {},
        "floor_fraction": floor_ms / eager_ms if floor_ms and eager_ms else None,
        "eager_ms": eager_ms,
        "delivered_ms": eager_ms,
    }


def _further(evaluation: Evaluation | None) -> list[str]:
    """Return the baselines that have no column of their own."""
    names = dict.fromkeys(s.baseline for r in (evaluation.told if evaluation else ()) for s in r.speedups)
    return [name for name in names if name not in (EAGER, TORCH_COMPILE)]


def _eager_over(evaluation: Evaluation | None, baseline: str) -> RatioInterval | None:
    """Return how eager compares with another baseline: both were measured against one candidate."""
    eager = speedup_over(evaluation, EAGER) if evaluation else None
    other = speedup_over(evaluation, baseline) if evaluation else None
    if eager is None or other is None:
        return None
    return RatioInterval(other.ratio / eager.ratio, other.low / eager.high, other.high / eager.low)


def summarise(name: str, rows: Sequence[BenchRow]) -> Summary:
    """Sum up rows; speedups count over successful tasks, shares over all of them."""
    won = [row for row in rows if row.is_success]
    eager = [row.speedup_eager.ratio for row in won if row.speedup_eager is not None]
    plain = [r.speedup_eager.ratio for r in won if r.speedup_eager is not None and not r.is_collapsed]
    compiled = [row.speedup_compile.ratio for row in won if row.speedup_compile is not None]
    further: dict[str, list[float]] = {}
    for row in won:
        for baseline, over in row.speedups.items():
            further.setdefault(baseline, []).append(over.ratio)
    floors = [row.floor_fraction for row in won if row.floor_fraction is not None]
    return Summary(
        name=name,
        n_tasks=len(rows),
        n_success=len(won),
        n_faster=sum(row.ending is Ending.FASTER for row in rows),
        n_compiled=sum(row.ending is Ending.COMPILED for row in rows),
        n_rearranged=sum(row.ending is Ending.REARRANGED for row in rows),
        n_unchanged=sum(row.ending is Ending.UNCHANGED for row in rows),
        n_apart=sum(row.is_apart for row in rows),
        n_apart_faster=sum(row.is_apart and row.ending is Ending.FASTER for row in rows),
        n_collapsed=sum(row.is_collapsed for row in rows),
        eager=spread(eager),
        plain=spread(plain) if len(plain) < len(eager) else None,
        compiled=spread(compiled),
        best=spread([best[1].ratio for row in won if (best := row.over_best)]),
        over={baseline: found for baseline, ratios in further.items() if (found := spread(ratios))},
        fast_p=fast_p(eager, len(rows)),
        fast_p_compile=fast_p(compiled, len(rows)),
        n_slower=sum(row.speedup_eager is not None and row.speedup_eager.is_slower for row in won),
        n_with_floor=len(floors),
        n_near_floor=sum(fraction >= NEAR_FLOOR for fraction in floors),
    )


def summaries(rows: Sequence[BenchRow]) -> list[Summary]:
    """Return a summary for each group, then one for each category of the first group."""
    groups = _grouped(rows, "group")
    first = next(iter(groups.values()), [])
    categories = _grouped(first, "category")
    parts = categories.items() if len(categories) > 1 else ()
    return [summarise(name, members) for name, members in (*groups.items(), *parts)]


def _grouped(rows: Iterable[BenchRow], field: str) -> dict[str, list[BenchRow]]:
    groups: dict[str, list[BenchRow]] = {}
    for row in rows:
        groups.setdefault(getattr(row, field), []).append(row)
    return groups


def spread(ratios: Sequence[float]) -> TaskSpread | None:
    """Return mean values and their spread; None for no ratios."""
    middle = geomean(ratios)
    if middle is None:
        return None
    low, high = bootstrap_geomean(ratios)
    return TaskSpread(
        n=len(ratios),
        geomean=middle,
        low=low,
        high=high,
        median=statistics.median(ratios),
        mean=statistics.fmean(ratios),
        smallest=min(ratios),
        largest=max(ratios),
    )


def fast_p(ratios: Sequence[float], n_tasks: int) -> dict[str, float]:
    """Return the share of all tasks above each threshold; ``ratios`` are the successful ones'."""
    return {f"{p:g}": sum(ratio > p for ratio in ratios) / n_tasks if n_tasks else 0.0 for p in FAST_P}


def bootstrap_geomean(
    ratios: Sequence[float], *, seed: int = 0, resamples: int = RESAMPLES
) -> tuple[float, float]:
    """Return the 95 % interval of the geomean under resampling of the tasks, reproducibly."""
    rng = random.Random(seed)
    means = sorted(geomean(rng.choices(ratios, k=len(ratios))) or 0.0 for _ in range(resamples))
    return means[round(0.025 * (resamples - 1))], means[round(0.975 * (resamples - 1))]
