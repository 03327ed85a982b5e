"""Finals: the best of the search are timed in turn with each other, and the choice says every ratio."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.runs.test_run import SPEC, Killed, events, tools

from kernelwright.core.budget import Budget
from kernelwright.core.candidate import Candidate
from kernelwright.core.evaluation import Evaluation, Speedup
from kernelwright.core.events import Event, FinalistsTimed
from kernelwright.core.finalists import Alternation
from kernelwright.core.plan import Move, Plan
from kernelwright.core.task import Task
from kernelwright.report.story import Story
from kernelwright.report.verdict import run_verdict
from kernelwright.runs.finalists import choose, contenders
from kernelwright.runs.loop import continue_run, create_run, start_run
from kernelwright.runs.recording import RecordedEvaluator, Recording, recording_of
from kernelwright.store.sqlstore import open_store
from kernelwright.testing.fake_run import FakeReferee, ScriptedTeam, fake_evaluation

TASK = Task(name="t", source="")
SIMPLE, LONG = Plan(moves=(Move(skill="a"),)), Plan(moves=(Move(skill="a"), Move(skill="b")))
PLANS = {"first": LONG, "second": SIMPLE, "third": SIMPLE}


def lead(name: str, low: float, ratio: float, high: float) -> Speedup:
    return Speedup(baseline=name, ratio=ratio, low=low, high=high)


def timed(*leads: Speedup, order: Sequence[str] = ("first", "second", "third")) -> Alternation:
    return Alternation(order=tuple(order), leads=leads, seconds=1.0)


def test_the_fastest_is_chosen_where_it_can_be_told() -> None:
    found = choose(
        timed(lead("second", 1.05, 1.1, 1.15), lead("third", 1.2, 1.3, 1.4)),
        PLANS,
        ["third", "second", "first"],
    )
    assert found.order == ("first", "second", "third")
    assert "1.10x [1.05, 1.15] as fast as second" in found.reason


def test_of_those_that_are_alike_the_simpler_is_chosen_then_the_earlier() -> None:
    alike = timed(lead("second", 0.98, 1.01, 1.04), lead("third", 0.97, 1.02, 1.07))
    found = choose(alike, PLANS, ["first", "third", "second"])
    assert found.order == ("third", "first", "second")
    assert "no difference to third could be told (1.02x [0.97, 1.07])" in found.reason
    assert choose(alike, PLANS, ["first", "second", "third"]).order[0] == "second"
    same = dict.fromkeys(PLANS, SIMPLE)
    assert choose(alike, same, ["second", "first", "third"]).order[0] == "second"


def verdict(speedup: float, low: float, high: float) -> Evaluation:
    known = fake_evaluation(Candidate(source="x"), TASK, speedup)
    (result,) = known.results
    interval = Speedup(baseline="eager", ratio=speedup, low=low, high=high)
    return known.model_copy(update={"results": (result.model_copy(update={"speedups": (interval,)}),)})


def test_only_those_that_may_be_as_fast_as_the_first_are_timed() -> None:
    evaluations = {"a": verdict(2.0, 1.7, 2.4), "b": verdict(1.9, 1.6, 2.2), "c": verdict(1.2, 1.0, 1.4)}
    assert contenders(["a", "b", "c"], evaluations) == ("a", "b")
    assert contenders(["a", "b", "b2", "b3"], {**evaluations, "b2": evaluations["b"]}) == ("a", "b", "b2")


@pytest.mark.parametrize("ranking", [["a"], ["a", "c"]])
def test_a_clear_winner_is_alone(ranking: list[str]) -> None:
    evaluations = {"a": verdict(2.0, 1.7, 2.4), "c": verdict(1.2, 1.0, 1.4)}
    assert contenders(ranking, evaluations) == ("a",)


class AlternatingReferee(FakeReferee):
    """Times in turn by a script of its own, whatever the search measured."""

    def __init__(self, verdicts: dict[str, float], truth: dict[str, float]) -> None:
        super().__init__(verdicts)
        self.truth, self.n_alternated = truth, 0
        self.limit_s: float | None = None

    def alternate(self, candidates: Sequence[Candidate], limit_s: float | None = None) -> Alternation:
        """Order by the script."""
        self.limit_s = limit_s
        self.n_alternated += 1
        ordered = sorted(candidates, key=lambda candidate: -self.truth[candidate.source])
        best = self.truth[ordered[0].source]
        ratios = [(candidate, best / self.truth[candidate.source]) for candidate in ordered[1:]]
        leads = tuple(lead(candidate.id, 0.98 * ratio, ratio, 1.02 * ratio) for candidate, ratio in ratios)
        return Alternation(order=tuple(candidate.id for candidate in ordered), leads=leads, seconds=2.0)


SEARCH = {"a": 1.0, "b": 2.50, "c": 2.49}
TRUTH = {"b": 2.0, "c": 2.4}


def test_a_candidate_that_was_lucky_in_the_search_is_not_delivered(tmp_path: Path) -> None:
    store = open_store(tmp_path / "runs.db")
    referee = AlternatingReferee(SEARCH, TRUTH)
    outcome = start_run(SPEC, tools(store, referee, ScriptedTeam(["a", "b", "c"], [])))
    assert outcome.winner is not None and outcome.winner.source == "c"
    assert [source for source, is_final in referee.asked if is_final] == ["c"]
    story = Story()
    for event in events(store, outcome.run_id):
        story.add(event)
    assert any("1.20x [1.18, 1.22] as fast as" in line for line in run_verdict(story).lines)


def test_a_run_that_was_killed_after_the_alternation_does_not_repeat_it(tmp_path: Path) -> None:
    store = open_store(tmp_path / "runs.db")
    referee = AlternatingReferee(SEARCH, TRUTH)
    run_id = create_run(SPEC, store)

    def kill(event: Event) -> None:
        if isinstance(event, FinalistsTimed):
            raise Killed

    team = ScriptedTeam(["a", "b", "c"], [])
    with pytest.raises(Killed):
        continue_run(run_id, tools(store, referee, team, on_event=kill))
    outcome = continue_run(run_id, tools(store, referee, team))
    assert outcome.winner is not None and outcome.winner.source == "c" and referee.n_alternated == 1
    assert sum(isinstance(event, FinalistsTimed) for event in events(store, run_id)) == 1


def test_a_recorded_run_chooses_the_same_and_measures_nothing(tmp_path: Path) -> None:
    store = open_store(tmp_path / "runs.db")
    start_run(SPEC, tools(store, AlternatingReferee(SEARCH, TRUTH), ScriptedTeam(["a", "b", "c"], [])))
    again = open_store(tmp_path / "again.db")
    served = replace(
        tools(again, FakeReferee({}), ScriptedTeam(["a", "b", "c"], [])),
        referee=RecordedEvaluator(None, recording_of(store)),
    )
    outcome = start_run(SPEC, served)
    assert outcome.winner is not None and outcome.winner.source == "c"


def test_a_recording_of_before_there_were_alternations_still_plays(tmp_path: Path) -> None:
    store = open_store(tmp_path / "runs.db")
    team = ScriptedTeam(["a", "b", "c"], [])
    start_run(SPEC, tools(store, FakeReferee(SEARCH), team))
    inner = AlternatingReferee(SEARCH, TRUTH)
    for evaluator in (None, inner):
        again = open_store(tmp_path / f"again{evaluator is None}.db")
        judge = RecordedEvaluator(evaluator, Recording(recording_of(store).entries()))
        outcome = start_run(SPEC, replace(tools(again, FakeReferee({}), team), referee=judge))
        assert outcome.winner is not None and outcome.winner.source == "b"
    assert inner.n_alternated == 0 and not inner.asked


def test_one_that_is_clearly_the_fastest_is_not_timed_again(tmp_path: Path) -> None:
    referee = AlternatingReferee({"a": 1.0, "b": 2.5}, TRUTH)
    start_run(SPEC, tools(open_store(tmp_path / "runs.db"), referee, ScriptedTeam(["a", "b"], [])))
    assert referee.n_alternated == 0


def test_timing_in_turn_leaves_time_for_the_final(tmp_path: Path) -> None:
    referee = AlternatingReferee(SEARCH, TRUTH)
    spec = SPEC.model_copy(update={"budget": Budget(evaluations=9, seconds=300)})
    team = ScriptedTeam(["a", "b", "c"], [])
    outcome = start_run(spec, tools(open_store(tmp_path / "runs.db"), referee, team))
    assert outcome.evaluation is not None and outcome.evaluation.is_final
    assert referee.limit_s is not None and 0 < referee.limit_s <= 100
