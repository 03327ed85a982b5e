"""GPU Kernel Scientist's policy: seeds until one holds, generations, an end with a reason."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.core.events import StepMode
from kernelwright.methods.scientist import ScientistPolicy
from kernelwright.runs.view import Attempt, RunView

POLICY = ScientistPolicy()


def attempt(candidate: str, speedup: float | None, step: int = 1, mode: StepMode = "seed") -> Attempt:
    return Attempt(
        step=step,
        mode=mode,
        candidate=candidate,
        base=None if mode == "seed" else "a",
        is_verified=speedup is not None,
        speedup=speedup,
        floor_fraction=0.99 if speedup else None,
    )


def test_a_run_starts_with_naive_kernels() -> None:
    selection = POLICY.select(RunView())
    assert (selection.mode, selection.count) == ("seed", 3)


def test_base_and_reference_are_left_to_the_selector() -> None:
    selection = POLICY.select(RunView(attempts=(attempt("a", 1.2), attempt("b", None))))
    assert (selection.mode, selection.base, selection.reference) == ("experiment", None, None)
    assert selection.count == 3


def test_failing_children_are_not_repaired() -> None:
    view = RunView(attempts=(attempt("a", 1.2), attempt("b", None, 2, "experiment")))
    assert POLICY.select(view).mode == "experiment"


def test_seeds_are_asked_for_again_until_one_holds_but_not_for_ever() -> None:
    failing = tuple(attempt(f"s{step}", None, step) for step in (1, 2))
    assert POLICY.select(RunView(attempts=failing)).mode == "seed"
    selection = POLICY.select(RunView(attempts=failing, fruitless={"seed": 1}))
    assert selection.mode == "stop" and "no seed" in selection.reason


def test_it_ends_when_no_member_has_an_experiment_left() -> None:
    view = RunView(attempts=(attempt("a", 1.2), attempt("b", 1.1), attempt("c", None)))
    assert POLICY.select(replace(view, exhausted=frozenset("a"))).mode == "experiment"
    selection = POLICY.select(replace(view, exhausted=frozenset("ab")))
    assert selection.mode == "stop" and "no experiment is left" in selection.reason


def test_it_ends_when_generations_give_nothing_new() -> None:
    view = RunView(attempts=(attempt("a", 1.2),), fruitless={"experiment": POLICY.patience})
    assert POLICY.select(view).mode == "stop"


def test_generations_are_counted_by_step() -> None:
    policy = ScientistPolicy(generations=2)
    first = [attempt("a", 1.2), *(attempt(f"x{n}", 1.3, 2, "experiment") for n in range(3))]
    assert policy.select(RunView(attempts=tuple(first))).mode == "experiment"
    second = [*first, attempt("y", None, 3, "experiment")]
    assert policy.select(RunView(attempts=tuple(second))).reason == "all 2 generations done"


@pytest.mark.parametrize(
    ("base", "new", "accepted"), [(None, 0.5, True), (1.5, 1.6, True), (1.5, 1.5, False)]
)
def test_the_fastest_is_followed(base: float | None, new: float, accepted: bool) -> None:
    assert POLICY.accepts_as_base(base, new) is accepted


@given(st.data())
def test_any_run_ends_with_a_reason(data: st.DataObject) -> None:
    """Play against a world that fails, gives nothing or exhausts bases as hypothesis likes."""
    policy, view, n = ScientistPolicy(generations=5), RunView(), 0
    for step in range(1, 60):
        selection = policy.select(view)
        assert policy.select(view) == selection
        if selection.mode == "stop":
            assert selection.reason
            return
        outcomes = data.draw(st.lists(st.sampled_from([None, 0.8, 1.5]), max_size=selection.count))
        new = tuple(attempt(f"k{n + i}", o, step, selection.mode) for i, o in enumerate(outcomes))
        n += len(new)
        fruitless = 0 if new else view.fruitless.get(selection.mode, 0) + 1
        view = replace(
            view,
            attempts=(*view.attempts, *new),
            fruitless={**view.fruitless, selection.mode: fruitless},
        )
    pytest.fail("the run never ended")
