"""Which archived plans to start from: those of the tasks that look most like this one.

cuPilot seeds its population with the strategies of earlier kernels (systems.md, D.2; its retriever is not
published). Ours compares facts of the captured graph; every weight and scale here is ours.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Literal, NamedTuple

from kernelwright.core.evidence import FactValue
from kernelwright.core.learned import ArchivedPlan
from kernelwright.core.plan import Move, Plan
from kernelwright.store.base import LearnedStore


class Trait(NamedTuple):
    """How much a fact says about which tasks are alike."""

    weight: float
    scale: Literal["equal", "fraction", "count", "size"]
    """How two values are compared: the same or not; difference; difference of logarithms, where a factor
    of COUNT_UNIT (counts, one added to each) or SIZE_UNIT (sizes) is half of the largest difference."""


COUNT_UNIT = 2.0
SIZE_UNIT = 16.0
"""Flops and bytes: which kernel is best changes with orders of magnitude, not with per cents."""
UNKNOWN = 0.5
"""Difference to a fact that only one of the two knows."""

TRAITS: dict[str, Trait] = {
    "graph.structure": Trait(4.0, "equal"),
    "task.bound_by": Trait(1.0, "equal"),
    "task.working_set_fits_cache": Trait(0.5, "equal"),
    "task.flops": Trait(0.5, "size"),
    "task.min_bytes": Trait(1.0, "size"),
    "graph.anchor_flops_fraction": Trait(1.0, "fraction"),
    "graph.rewrite_gain": Trait(1.0, "count"),
    "graph.n_reductions": Trait(1.0, "count"),
    "graph.n_scans": Trait(1.0, "count"),
    "graph.n_windows": Trait(1.0, "count"),
    "graph.n_matmuls": Trait(1.0, "count"),
    "graph.n_convolutions": Trait(1.0, "count"),
    "graph.n_attentions": Trait(1.0, "count"),
    "graph.n_pointwise": Trait(0.5, "count"),
    "graph.n_transcendentals": Trait(0.5, "count"),
    "graph.n_opaque": Trait(0.5, "count"),
}
"""What a signature consists of. Left out: what follows from these (``task.intensity``), and what depends
on the machine's measured rates (``task.floor_ms``, ``task.ridge``)."""


def signature_of(facts: Mapping[str, FactValue]) -> dict[str, FactValue]:
    """Return the facts that say which tasks are alike, unknown ones left out.

    They must be those of the task before any move: rewrites and fusion change what a graph counts.
    """
    return {name: facts[name] for name in TRAITS if facts.get(name) is not None}


def distance(a: Mapping[str, FactValue], b: Mapping[str, FactValue]) -> float:
    """Return how unlike two signatures are: 0 for equal ones, at most 1, symmetric.

    It grows with the difference of every single fact. A fact that neither knows says nothing.
    """
    total = sum(trait.weight for trait in TRAITS.values())
    parts = (
        trait.weight * _difference(trait.scale, a.get(name), b.get(name)) for name, trait in TRAITS.items()
    )
    return math.fsum(parts) / total


def skills_in_order(plan: Plan) -> tuple[str, ...]:
    """Return the plan's skills, each once, in the order in which they first come up."""
    return tuple(dict.fromkeys(move.skill for move in plan.moves))


def distil(plan: Plan) -> Plan:
    """Return what of a plan holds for another task: skills and parameters in order.

    Regions, reasons, numbers and instructions belong to the task it was made for and are dropped, and a
    move that is thereby said again is said once. The result is a proposal: whoever uses it finds each
    skill's sites on the new task and drops the moves that have none.
    """
    bare = (Move(skill=move.skill, params=move.params) for move in plan.moves)
    return Plan(moves=tuple({move.key: move for move in bare}.values()))


class PlanArchive:
    """Archived plans, asked for those of tasks like a given one. Immutable."""

    def __init__(self, plans: Iterable[ArchivedPlan] = ()) -> None:
        self._plans = tuple(plans)

    def __len__(self) -> int:
        return len(self._plans)

    def alike(
        self,
        signature: Mapping[str, FactValue],
        target: str,
        count: int,
        *,
        without_task: str | None = None,
    ) -> tuple[ArchivedPlan, ...]:
        """Return up to ``count`` plans for the target, the most alike task's first.

        Left out are the plans of ``without_task``, empty ones, and those that come to the same on another
        task (``distil``) as one further ahead. Equally alike ones: the faster first, then by ids.
        """
        fitting = [p for p in self._plans if p.target == target]
        ordered = sorted(fitting, key=lambda plan: _order(signature, plan))
        return _first_apart(ordered, count, without_task)


class StoredPlans:
    """The plans in a store, asked as a PlanArchive is; only what the answer needs is read.

    Args:
        until: number of the last plan that counts; None: all do.
    """

    def __init__(self, store: LearnedStore, until: int | None = None) -> None:
        self._store, self._until = store, until
        self._answers: dict[object, tuple[ArchivedPlan, ...]] = {}

    @property
    def is_empty(self) -> bool:
        """True where no plan counts."""
        return self._until == 0

    def alike(
        self,
        signature: Mapping[str, FactValue],
        target: str,
        count: int,
        *,
        without_task: str | None = None,
    ) -> tuple[ArchivedPlan, ...]:
        """Return what a PlanArchive of these plans returns; the same question is answered once."""
        asked = tuple(sorted(signature.items())), target, count, without_task
        if asked not in self._answers:
            self._answers[asked] = _first_apart(self._ordered(signature, target), count, without_task)
        return self._answers[asked]

    def _ordered(self, signature: Mapping[str, FactValue], target: str) -> Iterator[ArchivedPlan]:
        apart: dict[float, list[str]] = defaultdict(list)
        for key, plan in self._store.plan_signatures(target, until=self._until).items():
            apart[distance(signature, plan.signature)].append(key)
        for unlike in sorted(apart):
            plans = self._store.iter_plans_of(target, apart[unlike], until=self._until)
            for _, tied in groupby(plans, key=lambda plan: plan.speedup):
                yield from sorted(tied, key=lambda plan: _order(signature, plan))


def _first_apart(
    plans: Iterable[ArchivedPlan], count: int, without_task: str | None
) -> tuple[ArchivedPlan, ...]:
    """Return the first plans that differ once they are distilled, without the empty ones and a task's own."""
    found: dict[str, ArchivedPlan] = {}
    for plan in plans:
        if len(found) >= count:
            break
        if plan.plan.moves and plan.task_id != without_task:
            found.setdefault(distil(plan.plan).id, plan)
    return tuple(found.values())


def _order(signature: Mapping[str, FactValue], plan: ArchivedPlan) -> tuple[float, float, str, str, str]:
    unlike = distance(signature, plan.signature)
    return unlike, -plan.speedup, plan.task_id, plan.run_id, plan.plan.id


def _difference(scale: str, a: FactValue, b: FactValue) -> float:
    """Return 0 (equal) to 1."""
    a, b = _known(a), _known(b)
    if a is None or b is None:
        return 0.0 if a is b else UNKNOWN
    if scale == "equal" or isinstance(a, str) or isinstance(b, str):
        return float(a != b)
    if scale == "fraction":
        return min(abs(a - b), 1.0)
    unit = COUNT_UNIT if scale == "count" else SIZE_UNIT
    apart = abs(math.log1p(max(a, 0.0)) - math.log1p(max(b, 0.0))) / math.log(unit)
    return apart / (1.0 + apart)


def _known(value: FactValue) -> FactValue:
    """Return the value, None also for a number that is none."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
