"""Our own search: build on every improvement; when the fastest has nothing left, go on from the next."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright.core.events import StepMode
from kernelwright.methods.kernelwright import KernelwrightPolicy
from kernelwright.runs.view import Attempt, RunView
from kernelwright.testing.policy_contract import Luck, play

LOTS = st.builds(random.Random, st.integers(0, 2**32))
LUCK = st.builds(
    Luck, *[st.sampled_from((0.0, 0.1, 0.5)) for _ in range(2)], st.sampled_from((0.0, 0.3, 1.0))
)


def attempt(
    name: str, speedup: float, step: int, mode: StepMode | None = None, base: str | None = None
) -> Attempt:
    return Attempt(
        step=step,
        mode=mode or ("optimize" if step > 1 else "seed"),
        candidate=name,
        base=base,
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


def tuned_run(behind: float, **more: object) -> RunView:
    """A seed, what tuning made of it (1.1 times as fast), and another seed."""
    attempts = (
        attempt("lead", 3.6, 1),
        attempt("other", behind, 1),
        attempt("tuned", 3.96, 2, mode="tune", base="lead"),
    )
    view = RunView(
        attempts=attempts,
        base="tuned",
        can_tune=True,
        exhausted=frozenset({"lead"}),
        settled=frozenset({"lead", "tuned"}),
        tunable=frozenset({"other"}),
    )
    return replace(view, **more)  # type: ignore[arg-type]


def test_seeds_and_moves_that_differ_by_a_schedule_alone_are_left_to_cheap_timings() -> None:
    policy = KernelwrightPolicy()
    assert policy.select(RunView(can_tune=True)).leaves_schedules
    assert not policy.select(RunView()).leaves_schedules
    assert policy.select(RunView(can_tune=True)).count == policy.select(RunView()).count + 1
    chosen = policy.select(tuned_run(1.0))
    assert (chosen.mode, chosen.base, chosen.needed) == ("optimize", "tuned", None)
    assert chosen.leaves_schedules


def test_schedules_that_nobody_can_tune_are_judged_one_by_one() -> None:
    view = tuned_run(1.0, settled=frozenset(), tunable=frozenset())
    assert not KernelwrightPolicy().select(view).leaves_schedules


def test_what_is_far_behind_gets_the_moves_that_may_catch_up() -> None:
    view = tuned_run(2.69, exhausted=frozenset({"lead", "tuned"}))
    chosen = KernelwrightPolicy().select(view)
    assert (chosen.mode, chosen.base, chosen.leaves_schedules) == ("optimize", "other", True)
    assert chosen.needed == pytest.approx(3.96 / (1.25 * 2.69))


def test_what_is_behind_by_less_than_tuning_gains_is_tuned_also_after_a_move() -> None:
    view = tuned_run(1.0, tunable=frozenset({"moved"}))
    near = replace(view, attempts=(*view.attempts, attempt("moved", 3.3, 3, base="tuned")))
    assert KernelwrightPolicy().select(near).mode == "tune"
    far = replace(view, attempts=(*view.attempts, attempt("moved", 3.0, 3, base="tuned")))
    assert KernelwrightPolicy().select(far).mode == "optimize"


def test_what_tuning_has_gained_in_this_run_is_expected_of_it_again() -> None:
    view = tuned_run(2.69)
    assert KernelwrightPolicy().select(view).mode == "optimize"
    better = (*view.attempts[:2], attempt("tuned", 7.2, 2, mode="tune", base="lead"))
    assert KernelwrightPolicy().select(replace(view, attempts=better)).mode == "optimize"
    near = replace(view, attempts=(*better[:1], attempt("other", 3.7, 1), *better[2:]))
    assert (KernelwrightPolicy().select(near).mode, KernelwrightPolicy().select(near).base) == (
        "tune",
        "other",
    )


def test_the_search_ends_when_nothing_is_left_that_may_lead() -> None:
    ended = KernelwrightPolicy().select(tuned_run(2.69, exhausted=frozenset({"lead", "tuned", "other"})))
    assert ended.mode == "stop" and "promises" in ended.reason


@settings(max_examples=40)
@given(LOTS, LUCK)
def test_any_run_ends_with_a_reason_within_its_rounds(lots: random.Random, luck: Luck) -> None:
    game = play(lambda: KernelwrightPolicy(rounds=10), lots, luck)
    assert game.reason
    assert sum(a.mode != "seed" for a in game.last.attempts) <= 10
