"""cuPilot's search: a population of plans, tournament and elitism, plan-level crossover, epochs.

Source: cuPilot (arXiv 2512.16465), after third-party notes and the published kernels: population 50, epochs
0 to 3 in the released data, elites kept, parents by tournament, a bounded revision loop, and every epoch
beginning with the best kernels. Not known, hence ours: tournament size, share of elites, generations of an
epoch, length of the revision loop, and every stop.

docs/recipes/cupilot.md maps the method to this code.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil

from kernelwright.core.budget import Budget
from kernelwright.runs.recipe import Recipe
from kernelwright.runs.steps.evolution import Cross, Populate, Revise
from kernelwright.runs.steps.seeding import Seeds
from kernelwright.runs.view import Attempt, RunView, Selection, stop


@dataclass(frozen=True)
class Individual:
    """A plan carried out, with all its revisions."""

    born: Attempt
    """How it came into the run: seed, populate or cross."""
    last: Attempt
    """The candidate it stands at: the last of its revisions, or ``born``."""
    revisions: int = 0

    @property
    def candidate(self) -> str:
        """Id of the candidate it stands at."""
        return self.last.candidate

    @property
    def fitness(self) -> float | None:
        """Speedup over eager; None while it fails."""
        return self.last.speedup


@dataclass(frozen=True)
class Population:
    """Where the evolution stands."""

    epoch: int
    """Epochs begun: 0 before the first population."""
    generation: int
    """Generations of crossed children that this epoch has completed."""
    parents: tuple[Individual, ...]
    """Verified individuals that may be crossed, oldest first."""
    children: tuple[Individual, ...]
    """Crossed so far in the generation under way."""


def individuals(view: RunView) -> tuple[Individual, ...]:
    """Return the individuals in the order of their birth; a repair belongs to what it mended."""
    found: list[Individual] = []
    at: dict[str, int] = {}
    for attempt in view.attempts:
        mended = at.get(attempt.base or "") if attempt.mode == "repair" else None
        if mended is None:
            at[attempt.candidate] = len(found)
            found.append(Individual(attempt, attempt))
        else:
            at[attempt.candidate] = mended
            old = found[mended]
            found[mended] = Individual(old.born, attempt, old.revisions + 1)
    return tuple(found)


@dataclass(frozen=True)
class CuPilotPolicy:
    """Vanilla kernel, population, generations of crossed plans, epochs."""

    seed: int = 0
    """Of the draws: the same view and seed give the same selection."""
    population: int = 6
    """Published: 50, on eight GPUs and for hours a kernel; ours fits some forty evaluations on a CPU."""
    epochs: int = 4
    """Source: the released data (epochs 0 to 3)."""
    generations: int = 1
    """Of crossed children in an epoch; our choice."""
    tournament: int = 3
    """Individuals drawn, of which the fastest becomes a parent; our choice."""
    elite_share: float = 0.25
    """Of the population, rounded up, kept into the next generation; ours: two of six."""
    chain_cap: int = 3
    """Revisions per individual: the paper's loop is bounded, its length is ours."""
    patience: int = 4
    """Crossings in a row without a new kernel that end a generation early, and the run where the best
    kernel yields no new plan either; our choice."""

    @property
    def n_elites(self) -> int:
        """Individuals kept into the next generation, at least one."""
        return max(ceil(self.elite_share * self.population), 1)

    @property
    def n_children(self) -> int:
        """Individuals crossed in a generation, at least one."""
        return max(self.population - self.n_elites, 1)

    def select(self, view: RunView) -> Selection:
        """Return the next selection (see SearchPolicy)."""
        everyone = individuals(view)
        failing = self._failing(everyone, view.exhausted)
        if failing is not None:
            return Selection(mode="repair", base=failing)
        vanilla = [i for i in everyone if i.born.mode == "seed"]
        if not vanilla and view.fruitless.get("seed", 0) < self.chain_cap:
            return Selection(mode="seed", count=1)
        if view.incumbent is None:
            return stop("no vanilla kernel could be verified")
        now = self.standing(view)
        if now.epoch == 0 or now.generation >= self.generations or self._is_barren(view, now):
            return self._next_epoch(view, now, view.incumbent.candidate)
        return self._cross(view, now)

    def accepts_as_base(self, base_speedup: float | None, new_speedup: float) -> bool:
        """Say yes to a faster one; parents are drawn from the population whatever the base is."""
        return base_speedup is None or new_speedup > base_speedup

    def standing(self, view: RunView) -> Population:
        """Return epoch, generation, parents and children, worked out from the attempts alone."""
        epoch, generation, step = 0, 0, 0
        pool: list[Individual] = []
        children: list[Individual] = []
        for individual in individuals(view):
            mode = individual.born.mode
            if mode == "populate":
                if individual.born.step != step:
                    epoch, generation, step = epoch + 1, 0, individual.born.step
                    pool, children = self._elites([*pool, *children]), []
                pool.append(individual)
            elif mode == "cross":
                children.append(individual)
                if len(children) >= self.n_children:
                    pool, children = [*self._elites(pool), *children], []
                    generation += 1
        parents = tuple(i for i in pool if i.fitness is not None and i.candidate not in view.exhausted)
        return Population(epoch, generation, parents, tuple(children))

    def _elites(self, pool: Sequence[Individual]) -> list[Individual]:
        """Return the fastest verified, oldest first, the older on ties."""
        verified = [i for i in pool if i.fitness is not None]
        best = sorted(verified, key=lambda i: -(i.fitness or 0.0))[: self.n_elites]
        return [i for i in pool if i in best]

    def _failing(self, everyone: Sequence[Individual], exhausted: frozenset[str]) -> str | None:
        """Return the oldest failing candidate that may be revised; one whose revision failed is exhausted."""
        for individual in everyone:
            is_open = not individual.last.is_verified and individual.candidate not in exhausted
            if is_open and individual.revisions < self.chain_cap:
                return individual.candidate
        return None

    def _next_epoch(self, view: RunView, now: Population, best: str) -> Selection:
        if now.epoch >= self.epochs:
            return stop(f"all {self.epochs} epochs done")
        if view.fruitless.get("populate", 0) > 0:
            return stop("the gene pool is used up: the best kernel yields no new plan")
        count = self.population if now.epoch == 0 else self.n_children
        return Selection(mode="populate", base=best, count=count)

    def _is_barren(self, view: RunView, now: Population) -> bool:
        """Tell whether this generation cannot go on: fewer than two parents, or nothing new for long.

        Fruitless crossings are counted up to the last fruitful one, so that every epoch begun since then
        is granted its own patience.
        """
        if len(now.parents) < 2:
            return True
        granted = self.patience * _epochs_since_cross(view)
        return view.fruitless.get("cross", 0) >= granted

    def _cross(self, view: RunView, now: Population) -> Selection:
        fruitless = view.fruitless.get("cross", 0)
        draw = random.Random(f"{self.seed}:{len(view.attempts)}:{fruitless}")
        crossed = {frozenset((a.base, a.reference)) for a in view.attempts if a.mode == "cross"}
        first = self._winner(draw, now.parents, fruitless)
        others = [i for i in now.parents if i is not first]
        fresh = [i for i in others if frozenset((first.candidate, i.candidate)) not in crossed]
        second = self._winner(draw, others if fruitless else fresh or others, fruitless)
        return Selection(mode="cross", base=first.candidate, reference=second.candidate)

    def _winner(self, draw: random.Random, pool: Sequence[Individual], fruitless: int) -> Individual:
        """Return the fastest of a few drawn; of fewer after fruitless crossings, so that others come up."""
        size = max(self.tournament - fruitless, 1)
        drawn = draw.sample(list(pool), min(size, len(pool)))
        return max(drawn, key=lambda i: i.fitness or 0.0)


def _epochs_since_cross(view: RunView) -> int:
    """Return how many epochs were at work since the last crossing that gave a kernel, its own included."""
    steps = {a.step for a in _since_cross(view.attempts) if a.mode == "populate"}
    return len(steps) + any(a.mode == "cross" for a in view.attempts)


def _since_cross(attempts: Sequence[Attempt]) -> Iterator[Attempt]:
    for attempt in reversed(attempts):
        if attempt.mode == "cross":
            return
        yield attempt


CUPILOT = Recipe(
    name="cupilot",
    summary="A population of plans, crossed without seeing code, translated, revised and aligned.",
    make_policy=lambda seed: CuPilotPolicy(seed=seed),
    pipelines={"seed": Seeds(), "populate": Populate(), "cross": Cross(), "repair": Revise()},
    budget=Budget(evaluations=40),
)
"""The budget is ours: the vanilla kernel, four epochs of populations of six, and a few revisions."""

RECIPES = (CUPILOT,)
