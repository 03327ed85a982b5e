"""STARK's policy: the published rules of its tree, over every view that luck can bring."""

import random
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright.methods.stark import NO_PLAN, FromRootPolicy, StarkPolicy, Tree
from kernelwright.runs.steps.rewriting import Rewriting
from kernelwright.runs.view import Attempt, RunView
from kernelwright.testing.policy_contract import Luck, play

LUCK = st.builds(
    Luck, *[st.sampled_from((0.0, 0.1, 0.5)) for _ in range(2)], st.sampled_from((0.0, 0.3, 1.0))
)
LOTS = st.builds(random.Random, st.integers(0, 2**32))
MANY = settings(max_examples=40)


def node(candidate: str, base: str | None = "root", speedup: float | None = None) -> Attempt:
    return Attempt(
        step=1,
        mode="root" if base is None else "optimize",
        candidate=candidate,
        base=base,
        is_verified=speedup is not None,
        speedup=speedup,
        floor_fraction=None,
    )


ROOT = node("root", None, 1.0)


def view(*nodes: Attempt, exhausted: Iterable[str] = ()) -> RunView:
    return RunView(attempts=(ROOT, *nodes), exhausted=frozenset(exhausted))


def picks(seen: RunView, policy: StarkPolicy, n: int) -> list[str | None]:
    return [
        StarkPolicy(seed=seed, epsilon=policy.epsilon, n_root=policy.n_root).select(seen).base
        for seed in range(n)
    ]


def test_the_first_node_is_the_reference() -> None:
    assert StarkPolicy().select(RunView()).mode == "root"


def test_without_chance_the_fastest_node_is_gone_on_from() -> None:
    greedy = StarkPolicy(epsilon=0.0)
    seen = view(node("slow", speedup=0.5), node("fast", speedup=2.0), node("bad"))
    assert {greedy.select(seen).base} == {"fast"} == set(picks(seen, greedy, 20))


def test_the_root_is_left_alone_once_it_has_its_children() -> None:
    slower = [node(f"c{n}", speedup=0.5) for n in range(5)]
    greedy = StarkPolicy(epsilon=0.0, n_root=5)
    assert greedy.select(view(*slower[:4])).base == "root"
    assert greedy.select(view(*slower)).base == "c0"


def test_a_branch_is_dead_when_more_than_n_child_children_all_failed() -> None:
    fast, greedy = node("fast", speedup=2.0), StarkPolicy(epsilon=0.0, n_child=3)
    failed = [node(f"bad{n}", "fast") for n in range(4)]
    assert greedy.select(view(fast, *failed[:3])).base == "fast"
    assert greedy.select(view(fast, *failed)).base == "root"
    assert greedy.select(view(fast, *failed[:3], node("good", "fast", 1.5))).base == "fast"


def test_a_failing_node_is_debugged_and_a_correct_one_improved() -> None:
    always = StarkPolicy(epsilon=1.0)
    assert always.select(view(node("bad"))).mode == "repair"
    assert always.select(view(node("good", speedup=0.1))).mode == "optimize"


def test_without_a_plan_agent_a_correct_node_is_rewritten() -> None:
    assert StarkPolicy(improve="rewrite").select(view()).mode == "rewrite"


def test_leaves_are_drawn_evenly_with_probability_epsilon() -> None:
    inner = node("inner", speedup=3.0)
    seen = view(inner, node("leaf", "inner", 2.0), node("bad leaf", "inner"), node("slow leaf", speedup=0.1))
    n = 2000
    found = picks(seen, StarkPolicy(epsilon=0.35), n)
    leaves = ("leaf", "bad leaf", "slow leaf")
    assert set(found) == {"inner", *leaves}
    assert sum(f in leaves for f in found) / n == pytest.approx(0.35, abs=0.04)
    for leaf in leaves:
        assert found.count(leaf) / n == pytest.approx(0.35 / 3, abs=0.03)


def test_steps_that_come_to_nothing_do_not_repeat_one_choice_for_ever() -> None:
    nodes = tuple(node(f"c{n}", speedup=1.0 + n) for n in range(4))
    chosen = {
        StarkPolicy().select(RunView(attempts=(ROOT, *nodes), fruitless={"optimize": n})).base
        for n in range(30)
    }
    assert len(chosen) > 2


def test_it_ends_when_no_node_is_left_and_says_so() -> None:
    selection = StarkPolicy().select(view(node("bad"), exhausted=("root", "bad")))
    assert selection.mode == "stop" and "no node" in selection.reason


def test_a_root_that_cannot_be_written_ends_the_search() -> None:
    assert StarkPolicy().select(RunView(fruitless={"root": 1})).mode == "stop"


@MANY
@given(LOTS, LUCK, st.integers(0, 5), st.sampled_from((0.0, 0.35, 1.0)))
def test_every_tree_is_throttled_pruned_and_finite(
    lots: random.Random, luck: Luck, seed: int, epsilon: float
) -> None:
    def policy() -> StarkPolicy:
        return StarkPolicy(seed=seed, epsilon=epsilon, attempts=12, n_root=3, n_child=2)

    game = play(policy, lots, luck)
    assert sum(a.mode != "root" for a in game.last.attempts) <= 12
    assert len(game.last.children("c0")) <= 3
    for seen, selection in game.rounds[1:-1]:
        tree = Tree(seen)
        children = seen.children(selection.base or "")
        assert len(children) <= 2 or any(c.is_verified for c in children) or selection.base == "c0"
        assert any(n.candidate == selection.base for n in tree.nodes)


@MANY
@given(LOTS, LUCK)
def test_without_search_every_attempt_starts_from_the_root(lots: random.Random, luck: Luck) -> None:
    game = play(lambda: FromRootPolicy(attempts=9), lots, luck)
    assert {a.base for a in game.last.attempts if a.mode != "root"} <= {"c0"}
    assert len(game.last.attempts) <= 10


def test_no_candidate_becomes_the_base_of_a_tree() -> None:
    assert not StarkPolicy().accepts_as_base(1.0, 9.0)


def test_without_a_plan_agent_no_ranking_stands_in_for_the_plan() -> None:
    step = NO_PLAN.pipelines["rewrite"]
    assert isinstance(step, Rewriting) and not step.is_guided and "optimize" not in NO_PLAN.pipelines
