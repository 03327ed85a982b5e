"""What new values cost: pure figures, and what is fed to the process."""

import pytest

from kernelwright.referee.checks.renewed import MOST_PAIRS, allowed_s, extra_of

COUNT = 8
KNOWN_S = [0.012] * MOST_PAIRS


def extra(new_s: list[float], known_s: list[float] | None = None) -> float:
    return extra_of(known_s or KNOWN_S[: len(new_s)], new_s, COUNT, apparent_s=1e-4)


def test_a_candidate_as_fast_on_new_values_is_not_corrected() -> None:
    assert extra([0.012, 0.0125, 0.0118]) == 0.0


@pytest.mark.parametrize("each_s", [2e-4, 1e-3, 1e-2])
def test_what_it_saves_on_values_that_come_again_is_found(each_s: float) -> None:
    assert extra([0.012 + COUNT * each_s] * 9) == pytest.approx(each_s)


def test_a_few_long_series_on_a_busy_machine_are_no_reason() -> None:
    assert extra([0.030, 0.0121, 0.040, 0.012, 0.030, 0.050, 0.0119, 0.030, 0.020]) == 0.0


def test_one_lucky_series_on_known_values_is_no_reason() -> None:
    assert extra([0.012] * 9, [0.006, *[0.012] * 8]) == 0.0


@pytest.mark.parametrize("handing_s", [5e-6, 5e-5, 5e-4])
def test_a_call_that_comes_alone_may_take_what_handing_it_over_takes(handing_s: float) -> None:
    for timed_s in (2e-6, 1e-4, 1e-3):
        assert timed_s + handing_s <= allowed_s(timed_s, 1.0, handing_s)


def test_a_fifth_of_what_a_call_takes_alone_is_not_what_it_takes() -> None:
    alone_s, handing_s = 3e-4, 5e-5
    assert alone_s + handing_s > allowed_s(alone_s / 5, 1.0, handing_s)


def test_threads_that_spin_may_hold_up_the_parent() -> None:
    assert allowed_s(1e-5, 2.0) > 1e-4 > allowed_s(1e-5, 1.0)
