"""cuPilot's policy: vanilla kernel, population, tournament, elites, epochs, an end with a reason."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.core.events import StepMode
from kernelwright.methods import find_recipe
from kernelwright.methods.cupilot import CuPilotPolicy, individuals
from kernelwright.runs.view import Attempt, RunView, Selection

POLICY = CuPilotPolicy(population=4, generations=2, epochs=2)
"""One elite, three children a generation."""


@dataclass
class World:
    """Keeps a view as the engine does; ``fitness`` says what the nth candidate comes to."""

    fitness: Callable[[int], float | None]
    view: RunView = field(default_factory=RunView)
    selections: list[Selection] = field(default_factory=list)

    def play(self, selection: Selection, count: int) -> None:
        """Carry a selection out: so many new candidates, none of them for a step that comes to nothing."""
        assert selection.mode != "stop"
        step, n = len(self.selections) + 1, len(self.view.attempts)
        self.selections.append(selection)
        new = tuple(self._attempt(selection, step, n + i) for i in range(count))
        gone = {str(selection.base)} if selection.mode == "repair" and not new else set()
        fruitless = 0 if new or gone else self.view.fruitless.get(selection.mode, 0) + 1
        self.view = replace(
            self.view,
            attempts=(*self.view.attempts, *new),
            exhausted=self.view.exhausted | gone,
            fruitless={**self.view.fruitless, selection.mode: fruitless},
        )

    def _attempt(self, selection: Selection, step: int, n: int) -> Attempt:
        speedup = self.fitness(n)
        mode: StepMode = selection.mode  # type: ignore[assignment]
        is_verified = speedup is not None
        return Attempt(step, mode, f"k{n}", selection.base, is_verified, speedup, None, selection.reference)


def played(policy: CuPilotPolicy, speedups: Iterable[float | None]) -> World:
    """Play one full step after another until the speedups are used up."""
    given_out = list(speedups)
    world = World(lambda n: given_out[n])
    while len(world.view.attempts) < len(given_out):
        selection = policy.select(world.view)
        world.play(selection, min(selection.count, len(given_out) - len(world.view.attempts)))
    return world


def test_it_begins_with_one_vanilla_kernel_then_a_population_from_it() -> None:
    assert POLICY.select(RunView()) == Selection(mode="seed", count=1)
    selection = POLICY.select(played(POLICY, [1.0]).view)
    assert (selection.mode, selection.base, selection.count) == ("populate", "k0", 4)


def test_a_failing_vanilla_kernel_is_repaired_and_given_up_in_the_end() -> None:
    assert POLICY.select(played(POLICY, [None]).view) == Selection(mode="repair", base="k0")
    selection = POLICY.select(played(POLICY, [None] * 4).view)
    assert selection.mode == "stop" and "vanilla" in selection.reason


def test_failing_individuals_are_revised_one_chain_after_the_other() -> None:
    world = played(POLICY, [1.0, 1.1, None, None, 1.2])
    assert POLICY.select(world.view) == Selection(mode="repair", base="k2")
    world = played(POLICY, [1.0, 1.1, None, None, 1.2, None])
    assert POLICY.select(world.view) == Selection(mode="repair", base="k5")
    world = played(POLICY, [1.0, 1.1, None, None, 1.2, None, 1.4])
    assert POLICY.select(world.view) == Selection(mode="repair", base="k3")


def test_a_repaired_kernel_stands_for_its_individual() -> None:
    world = played(POLICY, [1.0, 1.1, None, 1.2, 1.2, None, 1.4])
    mended = individuals(world.view)[2]
    assert (mended.born.candidate, mended.candidate, mended.fitness, mended.revisions) == ("k2", "k6", 1.4, 2)
    assert "k6" in {p.candidate for p in POLICY.standing(world.view).parents}


def test_parents_are_two_verified_members_of_the_population() -> None:
    world = played(POLICY, [1.0, 1.1, 1.3, 1.2, 1.2])
    selection = POLICY.select(world.view)
    assert selection.mode == "cross" and selection.base != selection.reference
    assert {selection.base, selection.reference} <= {"k1", "k2", "k3", "k4"}, "never the vanilla kernel"


def test_elites_survive_a_generation_and_the_others_make_room() -> None:
    world = played(POLICY, [1.0, 1.1, 1.9, 1.2, 1.2, 1.0, 1.3, 1.4])
    now = POLICY.standing(world.view)
    assert (now.epoch, now.generation) == (1, 1)
    assert [p.candidate for p in now.parents] == ["k2", "k5", "k6", "k7"]


def test_an_epoch_begins_with_a_population_from_the_best_kernel() -> None:
    two_generations = [1.0, 1.1, 1.9, 1.2, 1.2, *[1.0, 2.5, 1.4], *[1.1, 1.2, 1.3]]
    selection = POLICY.select(played(POLICY, two_generations).view)
    assert (selection.mode, selection.base, selection.count) == ("populate", "k6", 3)
    now = POLICY.standing(played(POLICY, [*two_generations, 2.6, 2.7, 2.8]).view)
    assert (now.epoch, now.generation) == (2, 0)
    assert [p.candidate for p in now.parents] == ["k6", "k11", "k12", "k13"]


def test_all_epochs_done_ends_the_run() -> None:
    everything = [1.0, *[1.1, 1.9, 1.2, 1.2], *[1.3] * 6, *[1.4] * 3, *[1.5] * 6]
    selection = POLICY.select(played(POLICY, everything).view)
    assert selection.reason == "all 2 epochs done"


def test_a_crossing_that_gives_nothing_is_followed_by_another_draw() -> None:
    policy = replace(POLICY, population=12, patience=20)
    world = played(policy, [1.0, *(1.0 + n / 10 for n in range(12))])
    pairs = set()
    for _ in range(8):
        selection = policy.select(world.view)
        pairs.add((selection.base, selection.reference))
        world.play(selection, 0)
    assert len(pairs) > 2


def test_a_pair_is_not_crossed_twice_while_another_mate_is_left() -> None:
    policy = replace(POLICY, population=4, elite_share=0.01)
    world = played(policy, [1.0, 1.1, 1.9, 1.2, 1.3, *[0.9, 0.9]])
    crossed = [frozenset((a.base, a.reference)) for a in world.view.attempts if a.mode == "cross"]
    assert len(set(crossed)) == len(crossed)


def test_when_crossing_gives_nothing_the_best_kernel_is_asked_and_then_the_pool_is_used_up() -> None:
    world = played(POLICY, [1.0, 1.1, 1.9, 1.2, 1.2])
    for _ in range(POLICY.patience):
        selection = POLICY.select(world.view)
        assert selection.mode == "cross"
        world.play(selection, 0)
    selection = POLICY.select(world.view)
    assert (selection.mode, selection.base) == ("populate", "k2")
    world.play(selection, 0)
    selection = POLICY.select(world.view)
    assert selection.mode == "stop" and "gene pool is used up" in selection.reason


def test_new_plans_of_an_early_epoch_are_crossed_with_patience_of_their_own() -> None:
    world = played(POLICY, [1.0, 1.1, 1.9, 1.2, 1.2, 2.0])
    for _ in range(POLICY.patience):
        world.play(POLICY.select(world.view), 0)
    world.fitness = lambda n: 1.5
    world.play(POLICY.select(world.view), 2)
    assert POLICY.select(world.view).mode == "cross"


FORTUNE = st.lists(
    st.tuples(st.sampled_from([None, 0.9, 1.1, 1.5, 3.0]), st.floats(0, 1)), min_size=1, max_size=30
)


@given(FORTUNE, st.integers(0, 5), st.integers(1, 7), st.integers(1, 3))
def test_any_run_ends_and_never_crosses_a_failing_kernel(
    fortune: list[tuple[float | None, float]], seed: int, size: int, generations: int
) -> None:
    """Fortune says, over and over, what a kernel comes to and which share of a step's count is made."""
    policy = CuPilotPolicy(seed=seed, population=size, generations=generations)
    world = World(lambda n: fortune[n % len(fortune)][0])
    for step in range(400):
        share = fortune[step % len(fortune)][1]
        selection = policy.select(world.view)
        assert policy.select(world.view) == selection, "pure"
        if selection.mode == "stop":
            assert selection.reason
            return
        _check(policy, world.view, selection)
        world.play(selection, round(share * selection.count))
    pytest.fail("the run never ended")


def _check(policy: CuPilotPolicy, view: RunView, selection: Selection) -> None:
    now = policy.standing(view)
    assert now.epoch <= policy.epochs and now.generation <= policy.generations
    assert len(now.parents) <= policy.population + policy.n_elites
    assert len(now.children) < policy.n_children
    verified = {a.candidate for a in view.attempts if a.is_verified}
    if selection.mode == "cross":
        assert selection.base != selection.reference
        assert {selection.base, selection.reference} <= verified - view.exhausted
        fastest = max(i.fitness or 0.0 for i in individuals(view) if i.born.mode != "seed")
        kept = max(i.fitness or 0.0 for i in (*now.parents, *now.children))
        assert kept == fastest, "elitism"
    elif selection.mode == "repair":
        assert selection.base not in verified | view.exhausted
    elif selection.mode == "populate":
        assert selection.base in verified


def test_the_published_population_fits_its_budget() -> None:
    policy = find_recipe("cupilot-published").make_policy(0)
    world = World(lambda n: 1.0 + n / 100)
    while (selection := policy.select(world.view)).mode != "stop":
        world.play(selection, selection.count)
    sizes = [selection.count for selection in world.selections if selection.mode == "populate"]
    assert sizes == [50, 37, 37, 37]
    granted = find_recipe("cupilot-published").budget.evaluations
    assert granted is not None and 300 < len(world.view.attempts) <= granted
