"""KernelSkill's policy: seeds, repair before improving, hysteresis, honest stops."""

from hypothesis import given
from hypothesis import strategies as st

from kernelwright.methods.kernelskill import KernelSkillPolicy
from kernelwright.runs.view import Attempt, RunView

POLICY = KernelSkillPolicy()


def attempt(candidate: str, speedup: float | None, *, mode: str = "optimize", floor: float = 0.1) -> Attempt:
    return Attempt(
        step=1,
        mode=mode,  # type: ignore[arg-type]
        candidate=candidate,
        base=None if mode == "seed" else "base",
        is_verified=speedup is not None,
        speedup=speedup,
        floor_fraction=floor if speedup else None,
    )


SEED = attempt("seed", 1.5, mode="seed")


def test_an_empty_run_starts_with_seeds() -> None:
    assert POLICY.select(RunView()).mode == "seed"


def test_a_verified_seed_is_improved() -> None:
    selection = POLICY.select(RunView(attempts=(SEED,), base="seed"))
    assert (selection.mode, selection.base) == ("optimize", "seed")


def test_a_failing_candidate_is_repaired_before_anything_else() -> None:
    view = RunView(attempts=(SEED, attempt("bad", None)), base="seed")
    selection = POLICY.select(view)
    assert (selection.mode, selection.base) == ("repair", "bad")


def test_a_repair_chain_is_capped_and_the_base_taken_up_again() -> None:
    chain = [attempt("bad", None), *(attempt(f"bad{n}", None, mode="repair") for n in range(3))]
    selection = POLICY.select(RunView(attempts=(SEED, *chain), base="seed"))
    assert (selection.mode, selection.base) == ("optimize", "seed")


def test_a_failed_seed_beside_a_verified_one_costs_no_round() -> None:
    view = RunView(attempts=(SEED, attempt("other", None, mode="seed")), base="seed")
    assert POLICY.select(view).mode == "optimize"


def test_when_every_seed_fails_the_last_one_is_repaired() -> None:
    view = RunView(attempts=(attempt("s", None, mode="seed"),), base=None)
    assert POLICY.select(view).mode == "repair"


def test_it_stops_near_the_floor() -> None:
    near = attempt("near", 3.0, floor=0.95)
    selection = POLICY.select(RunView(attempts=(SEED, near), base="near"))
    assert selection.mode == "stop" and "95 %" in selection.reason


def test_it_goes_on_from_the_incumbent_when_the_base_is_exhausted_and_then_stops() -> None:
    better = attempt("better", 1.6)
    view = RunView(attempts=(SEED, better), base="seed", exhausted=frozenset({"seed"}))
    assert POLICY.select(view).base == "better"
    view = RunView(attempts=(SEED, better), base="better", exhausted=frozenset({"seed", "better"}))
    assert POLICY.select(view).mode == "stop"


def test_it_stops_when_rounds_bring_nothing() -> None:
    rounds = tuple(attempt(f"c{n}", 1.4) for n in range(6))
    selection = POLICY.select(RunView(attempts=(SEED, *rounds), base="seed"))
    assert selection.mode == "stop" and "no improvement" in selection.reason
    assert POLICY.select(RunView(attempts=(SEED, *rounds[:5]), base="seed")).mode == "optimize"


def test_rounds_are_counted_without_seeds() -> None:
    rounds = tuple(attempt(f"c{n}", 1.0) for n in range(15))
    assert POLICY.select(RunView(attempts=(SEED, *rounds), base="seed")).mode == "stop"


@given(st.floats(0.1, 20), st.floats(0.1, 20))
def test_the_base_moves_only_for_the_published_gain(base: float, new: float) -> None:
    accepted = POLICY.accepts_as_base(base, new)
    assert accepted == (new >= 1.3 * base or new - base >= 0.3)
    assert POLICY.accepts_as_base(None, new)
