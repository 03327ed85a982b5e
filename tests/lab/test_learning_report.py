"""Evaluations to a speedup, cold against warm, worked out by hand."""

import math
import re

import pytest
from lab.learning_report import LearningRow, learned, learning_markdown, learning_row

from kernelwright.report.played import Contestant, Played
from kernelwright.report.tables import Ending


def run(*best_so_far: float | None) -> Played:
    return Played(
        run_id="r", task="t", task_id="t", contestant=Contestant(recipe="a", team="expert"), seed=0,
        ending=Ending.FASTER, best_so_far=best_so_far, model_calls=0, tokens=0, usd=0.0, seconds=None,
    )  # fmt: skip


def test_counted_is_what_each_needs_for_95_percent_of_the_better_one() -> None:
    row = learning_row("B", cold=run(None, 1.2, 1.2, 1.92), warm=run(1.91, 2.0), budget=8)
    assert row.target == pytest.approx(1.9)
    assert (row.cold, row.warm, row.best_cold, row.best_warm) == (4, 1, 1.92, 2.0)
    assert row.log_ratio == pytest.approx(math.log(4.0))


def test_never_there_counts_as_one_more_than_granted() -> None:
    row = learning_row("B", cold=run(1.5, 3.0), warm=run(1.5, 1.5, 1.6), budget=8)
    assert (row.cold, row.warm) == (2, None)
    assert row.log_ratio == pytest.approx(math.log(2 / 9))


@pytest.mark.parametrize("best", [(None, None), (0.8, 0.9), (1.0, 1.0), ()])
def test_where_nothing_faster_was_found_there_is_nothing_to_reach(best: tuple[float | None, ...]) -> None:
    row = learning_row("A", cold=run(*best), warm=run(*best), budget=8)
    assert (row.target, row.cold, row.warm, row.log_ratio) == (None, None, None, None)
    assert learned("all", [row]).ratio is None


def rows(pairs: list[tuple[int | None, int | None]]) -> list[LearningRow]:
    return [
        LearningRow(
            task="t", half="A", best_cold=2.0, best_warm=2.0, target=1.9, cold=cold, warm=warm, budget=16
        )
        for cold, warm in pairs
    ]


@pytest.mark.parametrize(
    ("pairs", "verdict"),
    [
        ([(8, 2)] * 6, "memory saves evaluations"),
        ([(1, 3)] * 6, "memory costs evaluations"),
        ([(1, 3), (3, 1)] * 4, "no significant difference"),
        ([(8, 2)] * 5, "too few tasks"),
    ],
)
def test_the_verdict_is_the_intervals(pairs: list[tuple[int | None, int | None]], verdict: str) -> None:
    assert learned("all", rows(pairs)).verdict == verdict


def test_sums_count_who_was_sooner_and_who_arrived() -> None:
    total = learned("all", rows([(8, 2), (2, 8), (4, 4), (4, None)]))
    assert (total.n_fewer, total.n_more, total.n_reached_cold, total.n_reached_warm) == (1, 2, 4, 3)
    assert total.ratio is not None and total.ratio.value == pytest.approx((4 / 17) ** 0.25)


def test_the_document_tells_the_rule_and_marks_what_never_arrived() -> None:
    some = rows([(8, 2), (4, None)])
    text = learning_markdown(
        some, [learned("both", some)], title="Learning", rule="The rule.", date="today", command="run",
        environment={"processor": "Example CPU"}, notes=["Learned from half A: 12 outcomes."],
    )  # fmt: skip
    assert "The rule. Each half is played once" in text
    assert re.search(r"\| t \| A \| 2.00x \| 2.00x \| 1.90x \| 4 \| > 16 \|", text)
    assert "- Learned from half A: 12 outcomes." in text
