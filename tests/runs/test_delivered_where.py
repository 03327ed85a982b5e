"""What is not faster in an ordinary process is not delivered, and the verdict says so."""

from collections.abc import Mapping

import pytest
from tests import finals

from kernelwright.core.budget import Spent
from kernelwright.core.evaluation import Evaluation, Status
from kernelwright.core.events import RunFinished
from kernelwright.report.story import Story
from kernelwright.report.verdict import evaluation_verdict, run_verdict
from kernelwright.runs.finalists import rules_out_the_next


def final(kept: float, ordinary: float | None = None, alone: float | None = None) -> Evaluation:
    """Return a final with these ratios over eager."""
    there, one = (None if ratio is None else finals.result(eager=ratio) for ratio in (ordinary, alone))
    return finals.final(finals.result(eager=kept), there, one)


@pytest.mark.parametrize(
    ("ratios", "is_delivered"),
    [
        ({"kept": 1.74}, True),
        ({"kept": 1.74, "ordinary": 1.5}, True),
        ({"kept": 1.74, "ordinary": 0.85}, False),
        ({"kept": 1.74, "ordinary": 1.0}, False),
        ({"kept": 1.0, "ordinary": 1.5}, True),
        ({"kept": 0.8, "ordinary": 1.5}, False),
        ({"kept": 1.74, "ordinary": 1.5, "alone": 1.0}, True),
        ({"kept": 1.74, "ordinary": 1.5, "alone": 0.9}, False),
    ],
)
def test_delivered_is_what_is_faster_there_and_slower_nowhere(
    ratios: Mapping[str, float], is_delivered: bool
) -> None:
    assert final(**ratios).is_faster is is_delivered


@pytest.mark.parametrize(
    ("ratios", "is_ruled_out"),
    [
        ({"kept": 1.0}, True),
        ({"kept": 0.9, "ordinary": 0.9}, True),
        ({"kept": 1.01, "ordinary": 0.9}, False),
        ({"kept": 1.5, "ordinary": 1.5, "alone": 0.9}, False),
    ],
)
def test_the_next_finalist_has_its_turn_where_only_ordinary_processes_speak_against_this_one(
    ratios: Mapping[str, float], is_ruled_out: bool
) -> None:
    assert rules_out_the_next(final(**ratios)) is is_ruled_out


def test_a_finalist_that_is_not_verified_says_nothing_of_the_next() -> None:
    wrong = final(1.0).model_copy(update={"status": Status.INCORRECT_NUMERICS, "results": ()})
    assert not rules_out_the_next(wrong)


def test_the_verdict_quotes_the_ordinary_process_first_and_names_the_others() -> None:
    told = evaluation_verdict(final(1.74, 1.5, 1.1))
    assert told.headline == "Verified, 1.50x faster than eager"
    assert told.lines[0].startswith("1.50x") and told.lines[1].startswith("Timed in an ordinary process")
    text = " ".join(told.lines)
    assert "With one thread: 1.10x" in text and "With memory kept between calls: 1.74x" in text
    assert "Peak memory: 1.10 times the original's" in text


def test_a_run_whose_kernel_is_slower_there_says_so() -> None:
    finished = RunFinished(
        reason="the budget is used up", winner=None, spent=Spent(), evaluation=final(1.74, 0.85)
    )
    told = run_verdict(Story(finished=finished))
    assert told.headline == "Nothing faster found: the module stays as it is"
    assert "0.85x" in " ".join(told.lines) and "1.74x" in " ".join(told.lines)
