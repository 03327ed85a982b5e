"""Which experiments are run: the published rule, whatever the ratings."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from kernelwright.runs.steps.experiment_choice import running_order


@dataclass(frozen=True)
class Proposal:
    """A rated proposal; ``n`` tells equal ratings apart."""

    n: int
    gain_low: float
    gain_high: float
    innovation: float


RATING = st.floats(-1, 1, allow_nan=False)
PROPOSALS = st.lists(st.tuples(RATING, RATING, RATING), max_size=8).map(
    lambda ratings: [Proposal(n, *rating) for n, rating in enumerate(ratings)]
)


def test_the_published_pick_is_newest_then_boldest_then_surest() -> None:
    dull, new = Proposal(0, 0.05, 0.1, 0.1), Proposal(1, 0.0, 0.2, 0.9)
    bold, sure, middling = Proposal(2, 0.0, 0.8, 0.3), Proposal(3, 0.2, 0.3, 0.2), Proposal(4, 0.1, 0.4, 0.5)
    assert running_order([dull, new, bold, sure, middling])[:3] == (new, bold, sure)


def test_one_that_is_best_in_everything_is_run_once() -> None:
    best, second, third = Proposal(0, 0.5, 0.9, 1.0), Proposal(1, 0.1, 0.8, 0.2), Proposal(2, 0.2, 0.3, 0.1)
    assert running_order([third, second, best]) == (best, second, third)


@given(PROPOSALS)
def test_every_experiment_comes_up_once(proposals: list[Proposal]) -> None:
    assert sorted(p.n for p in running_order(proposals)) == list(range(len(proposals)))


@given(PROPOSALS)
def test_each_pick_is_the_best_of_what_was_left_by_its_own_rating(proposals: list[Proposal]) -> None:
    picked = running_order(proposals)[:3]
    for position, rating in enumerate(("innovation", "gain_high", "gain_low")[: len(picked)]):
        left = [p for p in proposals if p not in picked[:position]]
        assert getattr(picked[position], rating) == max(getattr(p, rating) for p in left)


@given(PROPOSALS, st.floats(0.01, 10))
def test_only_the_order_of_ratings_matters(proposals: list[Proposal], factor: float) -> None:
    same = [Proposal(p.n, p.gain_low, p.gain_high, 1.0) for p in proposals]
    scaled = [Proposal(p.n, factor * p.gain_low, factor * p.gain_high, 0.5) for p in same]
    tied = len({p.gain_low for p in scaled}) < len(same) or len({p.gain_high for p in scaled}) < len(same)
    if not tied:
        assert [p.n for p in running_order(same)] == [p.n for p in running_order(scaled)]
