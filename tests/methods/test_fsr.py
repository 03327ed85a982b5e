"""FSR's policy: rounds of N, the best of a round leads, errors are fed back when none passed."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright.core.evaluation import Stage
from kernelwright.methods.fsr import FsrPolicy
from kernelwright.runs.view import Attempt, RunView
from kernelwright.testing.policy_contract import Luck, play

LOTS = st.builds(random.Random, st.integers(0, 2**32))
POLICY = FsrPolicy(width=3, depth=4)
LUCK = st.builds(
    Luck, *[st.sampled_from((0.0, 0.1, 0.5)) for _ in range(2)], st.sampled_from((0.0, 0.3, 1.0))
)


def attempt(candidate: str, step: int, speedup: float | None = None, stage: Stage = Stage.DONE) -> Attempt:
    return Attempt(
        step=step,
        mode="seed",
        candidate=candidate,
        base=None,
        is_verified=speedup is not None,
        speedup=speedup,
        floor_fraction=None,
        stage=stage,
    )


def select(*attempts: Attempt, exhausted: tuple[str, ...] = ()) -> tuple[str, str | None, int]:
    selection = POLICY.select(RunView(attempts=attempts, exhausted=frozenset(exhausted)))
    return selection.mode, selection.base, selection.count


def test_the_first_round_asks_for_n_candidates() -> None:
    selection = POLICY.select(RunView())
    assert (selection.mode, selection.count) == ("seed", 3)


def test_the_fastest_of_the_last_round_leads_even_past_a_faster_one_before() -> None:
    first = attempt("before", 1, 5.0)
    assert select(first, attempt("a", 2, 2.0), attempt("b", 2, 3.0)) == ("rewrite", "b", 3)


def test_when_none_passes_the_one_that_came_furthest_is_repaired() -> None:
    failing = [attempt("v", 2, stage=Stage.VERIFY), attempt("b", 2, stage=Stage.BUILD)]
    assert select(attempt("ok", 1, 2.0), *failing) == ("repair", "v", 3)
    assert select(attempt("v2", 1, stage=Stage.VERIFY), *failing) == ("repair", "v", 3)


def test_a_round_with_nothing_left_to_try_goes_back_to_the_best_of_the_run() -> None:
    attempts = (attempt("a", 1, 2.0), attempt("b", 1, 1.5), attempt("c", 2, 1.0))
    assert select(*attempts, exhausted=("c",)) == ("rewrite", "a", 3)
    assert select(*attempts, exhausted=("a", "b", "c"))[0] == "stop"


def test_it_ends_at_its_depth() -> None:
    selection = POLICY.select(RunView(attempts=tuple(attempt(f"c{n}", n, 1.0) for n in range(4))))
    assert selection.mode == "stop" and "4 rounds" in selection.reason


def test_it_gives_up_when_nothing_is_ever_written() -> None:
    assert POLICY.select(RunView(fruitless={"seed": 3})).mode == "stop"


@settings(max_examples=40)
@given(LOTS, LUCK)
def test_every_game_ends_within_n_times_d(lots: random.Random, luck: Luck) -> None:
    game = play(lambda: POLICY, lots, luck)
    assert len(game.last.attempts) <= POLICY.width * POLICY.depth
    assert not POLICY.accepts_as_base(1.0, 9.0)
