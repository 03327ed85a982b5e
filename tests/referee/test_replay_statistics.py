"""What passes of a replay say, as figures: no process, no clock."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.referee.checks.replay import n_calls
from kernelwright.referee.checks.replay_statistics import (
    LEAST_PASSES,
    MOST_FINE,
    MOST_PASSES,
    ON_A_GPU,
    ON_THE_PROCESSOR,
    RANK,
    SLACK_S,
    UNANIMOUS,
    Pass,
    Timed,
    conclude,
    is_over,
    problem_of,
)

MS = 1e-3
TIMED = Timed(seconds=1 * MS, cpu_s=2 * MS, eager_s=3 * MS)
FINE = Pass(
    known=1 * MS, unseen=1 * MS, unseen_cpu=2 * MS, reference=3 * MS, warm=3 * MS, late=0.0,
    near_known=1 * MS, near_unseen=1 * MS,
)  # fmt: skip
CALLS = 10

recognises_inputs = dataclasses.replace(FINE, known=0.1 * MS)
remembers_at_places = dataclasses.replace(FINE, near_known=0.1 * MS)
works_on_reading = dataclasses.replace(FINE, late=5 * MS)
skips_calls = dataclasses.replace(FINE, known=4 * MS, unseen=4 * MS, unseen_cpu=8 * MS)


def test_equal_times_are_fine() -> None:
    assert problem_of(FINE, TIMED, CALLS) is None


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (recognises_inputs, "never seen"),
        (remembers_at_places, "at the addresses that were timed"),
        (works_on_reading, "not complete when the call returned"),
        (skips_calls, "when it was timed"),
    ],
)
def test_each_way_of_being_slower_where_inputs_are_new_is_named(seen: Pass, words: str) -> None:
    assert words in (problem_of(seen, TIMED, CALLS) or "")
    assert words in (conclude([seen] * MOST_PASSES, TIMED, CALLS) or "")


def test_a_thread_that_waits_is_not_slow_and_a_busy_core_is_not_work() -> None:
    spins = dataclasses.replace(FINE, unseen_cpu=20 * MS)
    interrupted = dataclasses.replace(FINE, known=4 * MS, unseen=4 * MS)
    assert problem_of(spins, TIMED, CALLS) is None
    assert problem_of(interrupted, TIMED, CALLS) is None


def test_what_the_reference_loses_too_is_no_difference() -> None:
    colder = dataclasses.replace(skips_calls, reference=6 * MS)
    slower_machine = dataclasses.replace(skips_calls, reference=6 * MS, warm=6 * MS)
    assert problem_of(colder, TIMED, CALLS) is None
    assert problem_of(slower_machine, TIMED, CALLS) is None


def test_a_machine_that_became_slower_excuses_only_so_much() -> None:
    is_told_much = dataclasses.replace(
        skips_calls, unseen=9 * MS, known=9 * MS, unseen_cpu=18 * MS, warm=90 * MS
    )
    assert "when it was timed" in (problem_of(is_told_much, TIMED, CALLS) or "")


def test_a_few_fine_passes_are_enough_and_fewer_are_not() -> None:
    assert not is_over([FINE] * (LEAST_PASSES - 1), TIMED, CALLS)
    assert is_over([FINE] * LEAST_PASSES, TIMED, CALLS)
    assert conclude([FINE] * LEAST_PASSES, TIMED, CALLS) is None


def test_there_are_more_passes_while_something_is_found_but_not_for_ever() -> None:
    most = [FINE, *[recognises_inputs] * (MOST_PASSES - 2)]
    assert not is_over(most, TIMED, CALLS)
    assert is_over([*most, recognises_inputs], TIMED, CALLS)


def test_passes_that_agree_need_not_be_as_many() -> None:
    assert not is_over([recognises_inputs] * (UNANIMOUS - 1), TIMED, CALLS)
    assert is_over([recognises_inputs] * UNANIMOUS, TIMED, CALLS)
    assert "never seen" in (conclude([recognises_inputs] * UNANIMOUS, TIMED, CALLS) or "")


def test_interruptions_on_known_values_alone_acquit_no_one() -> None:
    """The first passes look fine, for both sides were slow in some."""
    interrupted = dataclasses.replace(recognises_inputs, known=1 * MS)
    passes = [interrupted] * (LEAST_PASSES - 1) + [recognises_inputs]
    assert problem_of(interrupted, TIMED, CALLS) is None
    assert not is_over(passes, TIMED, CALLS)
    more = [interrupted] * MOST_FINE + [recognises_inputs] * (MOST_PASSES - MOST_FINE)
    assert "never seen" in (conclude(more, TIMED, CALLS) or "")


def test_interruptions_on_unseen_values_accuse_no_one() -> None:
    """All passes but one look bad; in the least of all of them nothing is left."""
    interrupted = dataclasses.replace(FINE, unseen=7 * MS)
    assert is_over([interrupted] * (LEAST_PASSES - 1) + [FINE], TIMED, CALLS)
    assert conclude([interrupted] * (MOST_PASSES - 1) + [FINE], TIMED, CALLS) is None


def test_luck_of_known_values_alone_accuses_no_one() -> None:
    """A crowded machine: tenfold times in nearly all passes, and undisturbed ones with known values only."""
    crowded = dataclasses.replace(FINE, known=10 * MS, unseen=10 * MS)
    lucky = dataclasses.replace(crowded, known=1 * MS)
    passes = [crowded] * (MOST_PASSES - RANK + 1) + [lucky] * (RANK - 1)
    assert "never seen" in (problem_of(lucky, TIMED, CALLS) or "")
    assert conclude(passes, TIMED, CALLS) is None


def test_a_machine_that_was_busy_now_and_then_excuses_nothing() -> None:
    """The reference was slow in some passes."""
    busy = dataclasses.replace(skips_calls, warm=9 * MS, reference=9 * MS)
    passes = [busy] * MOST_FINE + [skips_calls] * (MOST_PASSES - MOST_FINE)
    assert problem_of(busy, TIMED, CALLS) is None
    assert "when it was timed" in (conclude(passes, TIMED, CALLS) or "")


def test_a_candidate_that_looks_fine_in_more_passes_than_a_few_is_not_accused() -> None:
    interrupted = dataclasses.replace(recognises_inputs, known=1 * MS)
    passes = [interrupted] * (MOST_FINE + 1) + [recognises_inputs] * (MOST_PASSES - MOST_FINE - 1)
    assert conclude(passes, TIMED, CALLS) is None


figures = st.floats(1e-6, 1e-1)
passes_ = st.builds(
    Pass, figures, figures, figures, figures, figures, st.floats(-1e-2, 1e-1), figures, figures
)


@given(st.lists(passes_, min_size=1, max_size=MOST_PASSES), st.integers(1, 24))
def test_passes_in_which_nothing_is_slower_take_nothing_back(others: list[Pass], calls: int) -> None:
    """Disturbed passes beside an undisturbed one change nothing: every figure is at least as large there."""
    assert conclude([FINE, *(disturbed(FINE, one) for one in others)], TIMED, calls) is None


def disturbed(seen: Pass, other: Pass) -> Pass:
    """Return the pass with the figures that are larger in the other."""
    pairs = zip(dataclasses.astuple(seen), dataclasses.astuple(other), strict=True)
    return Pass(*(max(pair) for pair in pairs))


@pytest.mark.parametrize(
    ("timed_s", "set_bytes", "calls"),
    [(1e-6, 4, 24), (1e-3, 4, 10), (1e-3, 16 << 20, 3), (1e-3, 64 << 20, 1), (0.02, 4, 3), (0.05, 4, 1)],
)
def test_a_pass_on_the_processor_is_short(timed_s: float, set_bytes: int, calls: int) -> None:
    assert n_calls(timed_s, set_bytes, 4, ON_THE_PROCESSOR) == calls


@given(st.floats(1e-6, 1.0), st.integers(1, 1 << 30), st.integers(1, 1 << 30))
def test_on_a_gpu_a_pass_has_no_fewer_calls_and_no_more_bytes_than_it_may(
    timed_s: float, set_bytes: int, output_bytes: int
) -> None:
    short, long = (n_calls(timed_s, set_bytes, output_bytes, size) for size in (ON_THE_PROCESSOR, ON_A_GPU))
    assert 1 <= short <= long <= ON_A_GPU.calls
    assert long == 1 or long * max(set_bytes, output_bytes) <= ON_A_GPU.bytes


def test_what_a_short_pass_hides_behind_its_slack_is_found_by_a_long_one() -> None:
    """Figures as a candidate would have that knows small inputs again: 10 us instead of 25."""
    timed = Timed(seconds=1e-5, cpu_s=1e-5, eager_s=3e-5)
    knows = Pass(
        known=1e-5, unseen=2.5e-5, unseen_cpu=2.5e-5, reference=3e-5, warm=3e-5, late=0.0,
        near_known=1e-5, near_unseen=1e-5,
    )  # fmt: skip
    short, long = (n_calls(timed.seconds, 4096, 4096, size) for size in (ON_THE_PROCESSOR, ON_A_GPU))
    assert problem_of(knows, timed, short) is None and SLACK_S / long < 1e-6
    assert "never seen" in (problem_of(knows, timed, long) or "")
