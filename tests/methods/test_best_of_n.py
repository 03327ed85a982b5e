"""Best of N: seeds until there are N, and nothing else."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright.methods.best_of_n import BestOfNPolicy
from kernelwright.runs.view import RunView
from kernelwright.testing.policy_contract import Luck, play

LOTS = st.builds(random.Random, st.integers(0, 2**32))


def test_it_asks_for_all_samples_at_once() -> None:
    selection = BestOfNPolicy(n=7).select(RunView())
    assert (selection.mode, selection.base, selection.count) == ("seed", None, 7)


def test_it_gives_up_when_no_further_sample_comes() -> None:
    selection = BestOfNPolicy().select(RunView(fruitless={"seed": 3}))
    assert selection.mode == "stop" and "no further sample" in selection.reason


@settings(max_examples=40)
@given(LOTS, st.integers(1, 20), st.sampled_from((0.0, 0.5)))
def test_it_never_takes_more_than_n_and_builds_on_none(lots: random.Random, n: int, fruitless: float) -> None:
    game = play(lambda: BestOfNPolicy(n=n), lots, Luck(fruitless=fruitless))
    assert len(game.last.attempts) <= n
    assert all(a.mode == "seed" and a.base is None for a in game.last.attempts)
    if not fruitless:
        assert len(game.last.attempts) == n and str(n) in game.reason
    assert not BestOfNPolicy().accepts_as_base(1.0, 9.0)
