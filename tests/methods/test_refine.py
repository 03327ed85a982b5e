"""Refine: one chain from its last candidate."""

import random
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright.methods.refine import RefinePolicy
from kernelwright.runs.view import RunView
from kernelwright.testing.policy_contract import Luck, play

LOTS = st.builds(random.Random, st.integers(0, 2**32))
LUCK = st.builds(
    Luck, *[st.sampled_from((0.0, 0.1, 0.5)) for _ in range(2)], st.sampled_from((0.0, 0.3, 1.0))
)


def test_it_starts_with_one_seed() -> None:
    selection = RefinePolicy().select(RunView())
    assert (selection.mode, selection.count) == ("seed", 1)


def test_it_gives_up_when_nothing_is_ever_written() -> None:
    assert RefinePolicy().select(RunView(fruitless={"seed": 3})).mode == "stop"


@settings(max_examples=40)
@given(LOTS)
def test_the_chain_goes_on_from_its_last_candidate_good_or_bad(lots: random.Random) -> None:
    game = play(lambda: RefinePolicy(attempts=10), lots, Luck(fruitless=0.1, exhausted=0.0))
    assert all(later.base == earlier.candidate for earlier, later in pairwise(game.last.attempts))
    assert game.reason == "all 10 attempts used" or not game.last.attempts


@settings(max_examples=40)
@given(LOTS, LUCK)
def test_a_dead_end_is_stepped_back_from(lots: random.Random, luck: Luck) -> None:
    game = play(lambda: RefinePolicy(attempts=10), lots, luck)
    assert len(game.last.attempts) <= 10
    for view, selection in game.rounds[:-1]:
        live = [a.candidate for a in view.attempts if a.candidate not in view.exhausted]
        assert selection.base == (live[-1] if live else None)
    assert not RefinePolicy().accepts_as_base(1.0, 9.0)
