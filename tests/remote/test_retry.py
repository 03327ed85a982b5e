"""Pauses between tries: they grow, they end, and no header changes that."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright.remote.retry import LONGEST_DELAY_S, SHORTEST_DELAY_S, Delays

HEADERS = st.one_of(st.none(), st.text(max_size=8), st.integers(0, 10**9).map(str))


@settings(max_examples=60)
@given(st.floats(0, 100), HEADERS)
def test_trying_ends_whatever_the_service_says(total_s: float, header: str | None) -> None:
    slept: list[float] = []
    delays = Delays(total_s, slept.append)
    while delays.pause(header):
        assert len(slept) <= total_s / SHORTEST_DELAY_S + 1
    assert sum(slept) <= total_s + 1e-6
    assert all(SHORTEST_DELAY_S <= seconds <= LONGEST_DELAY_S for seconds in slept)


def test_each_pause_is_twice_the_last() -> None:
    slept: list[float] = []
    delays = Delays(10.0, slept.append)
    while delays.pause():
        pass
    assert slept == [0.5, 1.0, 2.0, 4.0]


@pytest.mark.parametrize(
    ("header", "seconds"), [("2", 2.0), ("0", 0.1), ("999999999", 60.0), ("-1", 0.5), ("²", 0.5)]
)
def test_the_service_says_how_long_within_reason(header: str, seconds: float) -> None:
    slept: list[float] = []
    assert Delays(100.0, slept.append).pause(header)
    assert slept == [seconds]
