"""What tuning measured before: failures, choice of the most telling points, the best of several machines."""

import math

from hypothesis import given
from hypothesis import strategies as st

from kernelwright.memory.tuned import EarlierTuning, best_elsewhere, most_telling

TIMES = st.lists(st.one_of(st.none(), st.floats(1e-6, 1e6)), max_size=30)


def earlier(*times: float | None, machine: str = "m") -> EarlierTuning:
    return EarlierTuning.of(machine, [({"TILE": number}, time) for number, time in enumerate(times)])


def test_a_point_that_failed_is_remembered_as_slow_as_the_slowest() -> None:
    assert [log for _, log in earlier(1.0, None, math.e).points] == [0.0, 1.0, 1.0]


def test_nothing_is_remembered_where_nothing_ran() -> None:
    assert earlier(None, None).points == () == earlier().points


@given(TIMES, st.integers(1, 12))
def test_few_points_tell_of_the_fastest_and_of_the_others(times: list[float | None], count: int) -> None:
    known = earlier(*times)
    told = most_telling(known, count)
    assert len(told) == min(count, len(known.points))
    assert all(point in known.points for point in told)
    assert not told or min(log for _, log in told) == min(log for _, log in known.points)


def test_machines_take_turns_and_no_point_comes_twice() -> None:
    one, other = earlier(1.0, 2.0, 3.0), earlier(3.0, 1.0, 2.0)
    assert best_elsewhere([one, other], 9) == [{"TILE": 0}, {"TILE": 1}, {"TILE": 2}]
    assert best_elsewhere([one, other], 2) == [{"TILE": 0}, {"TILE": 1}]
    assert best_elsewhere([], 5) == [] == best_elsewhere([earlier()], 5)
