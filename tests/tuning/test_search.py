"""Generations and rungs on a stand-in timer: the fast point is found, and failures do no harm."""

import random
from collections.abc import Callable, Mapping, Sequence

import pytest

from kernelwright.core.errors import UserError
from kernelwright.core.open_parameters import open_parameters
from kernelwright.referee.point_worker import build_patience_s
from kernelwright.tuning.halving import halve, median_interval
from kernelwright.tuning.search import BASE, FirstCall, Values, surface, tune_points
from kernelwright.tuning.sources import OpenSource

SOURCE = 'TUNE = {"TILE": [16, 32, 64, 128], "UNROLL": [1, 2, 4, 8], "BAD": [0, 1]}\n'


class StubTimer:
    """Stub: a point's time is a function of its values, with noise that all points of a turn share."""

    def __init__(self) -> None:
        self.rng = random.Random(1)
        self.points: dict[int, dict[str, object]] = {}
        self.timed: list[int] = []
        self.now, self.build_s, self.began = 0.0, 1.0, 1.0

    def load(
        self,
        sources: Mapping[int, str],
        limit_s: float,
        keep: Sequence[int],
        meanwhile: Callable[[], None] = lambda: None,
    ) -> dict[int, FirstCall]:
        meanwhile()
        self.points = {number: values for number, values in self.points.items() if number in keep}
        found = {}
        for number, source in sources.items():
            if self.now >= self.began + limit_s and number:
                continue
            self.now += self.build_s
            self.points[number] = {name: values[0] for name, values in open_parameters(source).items()}
            is_bad = bool(self.points[number].get("BAD"))
            found[number] = (
                FirstCall(why="does not build") if is_bad else FirstCall(ratio=self.cost(number) / 2.4)
            )
        return found

    def time(self, points: Sequence[int], rounds: int, limit_s: float) -> dict[int, list[float]]:
        assert set(points) <= set(self.points), "only what was kept can be timed"
        self.timed.append(len(points))
        noise = [self.rng.uniform(1, 4) for _ in range(rounds)]
        return {p: [self.cost(p) * n * self.rng.uniform(0.99, 1.01) for n in noise] for p in points}

    def cost(self, point: int) -> float:
        values = self.points[point]
        return (1 + abs(int(str(values["TILE"])) - 64) / 64) * (1 + abs(int(str(values["UNROLL"])) - 4) / 8)


def test_the_fastest_point_is_found_whatever_the_machine_does_meanwhile() -> None:
    timer = StubTimer()
    run = tune_points(OpenSource(SOURCE), timer, seconds=200, clock=lambda: timer.now)
    assert run.ranked[0].values == {"TILE": 64, "UNROLL": 4, "BAD": 0}
    assert run.ranked[0].ratio == pytest.approx(1 / (1.75 * 1.375), rel=0.05)
    assert any(tried.why == "does not build" and tried.ratio is None for tried in run.tried)
    assert run.chosen is run.ranked[0] and run.chosen.is_faster
    assert len({tried.source for tried in run.tried}) == len(run.tried)
    assert surface(run)[0].startswith("TILE: ")


def test_points_that_are_no_program_are_remembered_and_not_tried() -> None:
    class Picky(OpenSource):
        """Stub: a tile of 128 is no program."""

        def source(self, values: Values) -> str | None:
            return None if values["TILE"] == 128 else super().source(values)

    run = tune_points(Picky(SOURCE), StubTimer(), seconds=1e9)
    assert run.illegal and all(values["TILE"] == 128 for values in run.illegal)
    assert all(tried.values["TILE"] != 128 for tried in run.tried)


def test_few_points_end_the_search_before_the_seconds_do() -> None:
    timer = StubTimer()
    run = tune_points(OpenSource('TUNE = {"TILE": [16, 64], "UNROLL": [4]}\n'), timer, seconds=1e9)
    assert run.is_exhausted and len(run.tried) == 2 and run.ranked[0].values["TILE"] == 64


def test_defaults_that_do_not_run_are_the_users_to_mend() -> None:
    with pytest.raises(UserError, match="does not build"):
        tune_points(OpenSource('TUNE = {"BAD": [1, 0], "TILE": [16], "UNROLL": [1]}'), StubTimer(), seconds=1)


def test_nothing_goes_on_after_the_seconds_and_what_was_not_begun_was_not_tried() -> None:
    timer = StubTimer()
    timer.build_s = 3.0
    run = tune_points(OpenSource(SOURCE), timer, seconds=10, clock=lambda: timer.now)
    assert timer.now <= 3.0 + 10 + 3.0  # the default, the seconds, and the point under way
    assert 2 <= len(run.tried) <= 5 and not run.is_exhausted
    assert all(tried.ratio is not None or tried.why for tried in run.tried)


def test_points_that_are_slow_in_one_call_are_timed_no_more() -> None:
    class SlowTimer(StubTimer):
        def load(
            self,
            sources: Mapping[int, str],
            limit_s: float,
            keep: Sequence[int],
            meanwhile: Callable[[], None] = lambda: None,
        ) -> dict[int, FirstCall]:
            found = super().load(sources, limit_s, keep, meanwhile)
            return {n: FirstCall(ratio=9.0) if n and c.ratio else c for n, c in found.items()}

    timer = SlowTimer()
    run = tune_points(OpenSource(SOURCE), timer, seconds=100, clock=lambda: timer.now)
    assert not timer.timed and run.chosen is run.tried[BASE]
    assert all(tried.ratio == 9.0 for tried in run.tried[1:] if tried.why is None)


def test_rungs_leave_out_what_is_above_the_bar() -> None:
    rungs = halve(
        lambda points, rounds: {p: [1.0 + p] * rounds for p in points},
        range(9),
        0,
        is_over=lambda: False,
        bar=3.0,
    )
    assert rungs.survivors == (1, 2) and rungs.ratios[8] == 9.0 and len(rungs.times[8]) == 3


def test_rungs_time_fewer_points_more_often() -> None:
    asked: list[tuple[int, int]] = []

    def time(points: Sequence[int], rounds: int) -> dict[int, list[float]]:
        asked.append((len(points) - 1, rounds))
        return {p: [1.0 + p] * rounds for p in points if p != 7}

    rungs = halve(time, range(20), 0, is_over=lambda: False)
    assert [n for n, _ in asked] == sorted((n for n, _ in asked), reverse=True) and asked[0][0] == 19
    assert [r for _, r in asked] == sorted({r for _, r in asked})
    assert rungs.survivors[0] == 1 and rungs.failed == {7} and 7 not in rungs.ratios


def test_a_base_that_cannot_be_timed_ends_the_rungs() -> None:
    assert halve(lambda points, rounds: {}, range(5), 0, is_over=lambda: False).ratios == {}


def test_disturbed_turns_do_not_widen_the_interval_of_a_median() -> None:
    turns = [0.8, 0.81, 0.79, 0.82, 0.78, 0.80, 0.81, 0.79, 0.8, 0.83, 9.0, 0.01]
    assert median_interval(turns) == (0.79, 0.82)
    assert median_interval([1.0, 3.0, 2.0]) == (1.0, 3.0), "too few for 95 %: the range"
    assert median_interval([2.0]) == (2.0, 2.0)


def test_the_seconds_left_and_the_defaults_say_how_long_a_point_may_take_to_build() -> None:
    assert build_patience_s(1e6, 0.5) == 6.0  # twelve times as long as the defaults
    assert build_patience_s(30.0, 3.0) == pytest.approx(6.0)  # a fifth of what is left
    assert build_patience_s(0.5, 0.01) == 2.0  # long enough for any compiler to begin
    assert build_patience_s(5.0, None) == build_patience_s(1e6, 100.0) == 60.0


def test_the_next_generation_is_drawn_while_one_is_built_and_none_is_tried_twice() -> None:
    class Drawing(OpenSource):
        n_drawn = 0

        def draw(self, rng: random.Random, best: Sequence[Values]) -> Values | None:
            self.n_drawn += 1
            return super().draw(rng, best)

    points = Drawing(SOURCE)
    drawn: list[tuple[int, int]] = []

    class Watching(StubTimer):
        def load(
            self,
            sources: Mapping[int, str],
            limit_s: float,
            keep: Sequence[int],
            meanwhile: Callable[[], None] = lambda: None,
        ) -> dict[int, FirstCall]:
            before = points.n_drawn
            found = super().load(sources, limit_s, keep, meanwhile)
            drawn.append((before, points.n_drawn))
            return found

    timer = Watching()
    run = tune_points(points, timer, seconds=200, clock=lambda: timer.now)
    default, first, *_ = drawn
    assert default[0] == default[1], "nothing is drawn before the default runs"
    assert first[0] < first[1]
    assert len({tuple(tried.values.items()) for tried in run.tried}) == len(run.tried)


def test_what_it_took_to_start_counts_but_half_of_the_seconds_are_for_points() -> None:
    def n_tried(begun: float | None) -> int:
        class Starting(StubTimer):
            def load(
                self,
                sources: Mapping[int, str],
                limit_s: float,
                keep: Sequence[int],
                meanwhile: Callable[[], None] = lambda: None,
            ) -> dict[int, FirstCall]:
                self.build_s, self.began = (4.0 if BASE in sources else 1.0), 4.0
                return super().load(sources, limit_s, keep, meanwhile)

        timer = Starting()
        return len(
            tune_points(OpenSource(SOURCE), timer, seconds=10.0, begun=begun, clock=lambda: timer.now).tried
        )

    apart, counted, waited, long_waited = map(n_tried, (None, 0.0, -1.0, -1000.0))
    assert apart > counted > waited == long_waited > 1
