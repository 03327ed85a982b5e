"""Our own search: build on every improvement; when the fastest has nothing left, go on from the next."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright.methods.kernelwright import KernelwrightPolicy
from kernelwright.runs.view import Attempt, RunView
from kernelwright.testing.policy_contract import Luck, play

LOTS = st.builds(random.Random, st.integers(0, 2**32))
LUCK = st.builds(
    Luck, *[st.sampled_from((0.0, 0.1, 0.5)) for _ in range(2)], st.sampled_from((0.0, 0.3, 1.0))
)


def attempt(name: str, speedup: float, step: int) -> Attempt:
    return Attempt(
        step=step,
        mode="optimize" if step > 1 else "seed",
        candidate=name,
        base=None,
        is_verified=True,
        speedup=speedup,
        floor_fraction=0.3,
    )


def test_every_improvement_becomes_the_base() -> None:
    policy = KernelwrightPolicy()
    assert policy.accepts_as_base(1.50, 1.55)
    assert not policy.accepts_as_base(1.55, 1.50)


def test_it_goes_on_from_the_fastest_and_then_from_the_next() -> None:
    attempts = (attempt("a", 1.2, 1), attempt("b", 1.5, 2), attempt("c", 1.3, 3))
    policy = KernelwrightPolicy()
    assert policy.select(RunView(attempts=attempts, base="b")).base == "b"
    tired = RunView(attempts=attempts, base="b", exhausted=frozenset("b"))
    assert policy.select(tired).base == "c"
    spent = RunView(attempts=attempts, base="b", exhausted=frozenset("abc"))
    assert policy.select(spent).mode == "stop"


@settings(max_examples=40, deadline=None)
@given(LOTS, LUCK)
def test_any_run_ends_with_a_reason_within_its_rounds(lots: random.Random, luck: Luck) -> None:
    game = play(lambda: KernelwrightPolicy(rounds=10), lots, luck)
    assert game.reason
    assert sum(a.mode != "seed" for a in game.last.attempts) <= 10
