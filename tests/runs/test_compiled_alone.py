"""Where torch.compile of the module beats all that was found, that is delivered, and counted apart."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.runs.test_run import SPEC, Killed, events, tools
from tests.runs.test_time_budget import Clock

from kernelwright.core.budget import Budget
from kernelwright.core.candidate import Candidate
from kernelwright.core.evaluation import Evaluation, Speedup, Status
from kernelwright.core.events import CandidateEvaluated, Event, ModelTakenApart
from kernelwright.report.story import tell
from kernelwright.report.tables import Ending, row_from_story
from kernelwright.report.verdict import run_verdict
from kernelwright.runs import loop
from kernelwright.runs.loop import RunOutcome, continue_run, create_run, start_run
from kernelwright.store.base import Store
from kernelwright.store.sqlstore import open_store
from kernelwright.testing.fake_run import FakeReferee, ScriptedTeam

COMPILED = Candidate(source="compiled")


class ComparingReferee(FakeReferee):
    """Compares finals with torch.compile, which is so many times as fast as eager."""

    def __init__(self, verdicts: Mapping[str, float | Status], over_eager: float) -> None:
        super().__init__(verdicts)
        self.over_eager = over_eager

    def evaluate(self, candidate: Candidate, *, final: bool = False, **how: Any) -> Evaluation:
        """Look the verdict up."""
        found = super().evaluate(candidate, final=final, **how)
        if not final or not found.results:
            return found
        (result,) = found.results
        ratio = result.speedups[0].ratio / self.over_eager
        over = Speedup(baseline="torch_compile", ratio=ratio, low=0.98 * ratio, high=1.02 * ratio)
        return found.model_copy(
            update={"results": (result.model_copy(update={"speedups": (*result.speedups, over)}),)}
        )


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path / "runs.db")


def play(store: Store, referee: FakeReferee) -> RunOutcome:
    how = tools(store, referee, ScriptedTeam(["a"], []), print_compiled=lambda: COMPILED)
    return start_run(SPEC, how)


def play_past_its_seconds(
    store: Store, monkeypatch: pytest.MonkeyPatch, verdicts: Mapping[str, float | Status], over_eager: float
) -> tuple[RunOutcome, FakeReferee]:
    """Play a run whose first two verdicts take all of its seconds; ``over_eager``: torch.compile's."""
    clock = Clock()
    monkeypatch.setattr(loop, "time", clock)

    class SlowReferee(ComparingReferee):
        """A stub that takes six seconds for every verdict."""

        def evaluate(self, candidate: Candidate, **how: Any) -> Evaluation:
            clock.now += 6.0
            return super().evaluate(candidate, **how)

    referee = SlowReferee(verdicts, over_eager)
    how = tools(store, referee, ScriptedTeam(["a"], []), print_compiled=lambda: COMPILED)
    return start_run(SPEC.model_copy(update={"budget": Budget(seconds=10.0)}), how), referee


def finals(referee: FakeReferee) -> list[str]:
    return [source for source, is_final in referee.asked if is_final]


def ending(store: Store, run_id: str) -> Ending:
    story = tell(events(store, run_id))
    return row_from_story(story, task="t", task_id="", category="", group="", run_id=run_id).ending


def test_an_unchanged_module_is_compiled_where_that_is_faster(store: Store) -> None:
    outcome = play(store, ComparingReferee({"a": 0.99, "compiled": 1.3}, over_eager=1.3))
    assert outcome.winner == COMPILED and outcome.evaluation is not None
    (apart,) = (event for event in events(store, outcome.run_id) if isinstance(event, ModelTakenApart))
    assert not apart.blocks and [way.candidate for way in apart.compositions] == [COMPILED.id]
    assert ending(store, outcome.run_id) is Ending.COMPILED
    told = run_verdict(tell(events(store, outcome.run_id)))
    assert "torch.compile of the model as it is, without a kernel" in told.lines[0]


def test_a_kernel_that_is_slower_than_the_compiler_is_not_delivered(store: Store) -> None:
    referee = ComparingReferee({"a": 1.2, "compiled": 1.5}, over_eager=1.5)
    assert play(store, referee).winner == COMPILED
    assert finals(referee) == ["a", "compiled"]


@pytest.mark.parametrize("found", [1.2, 0.99])
def test_what_a_final_shows_to_be_slower_than_the_compiler_is_not_delivered_for_want_of_seconds(
    store: Store, monkeypatch: pytest.MonkeyPatch, found: float
) -> None:
    outcome, referee = play_past_its_seconds(store, monkeypatch, {"a": found, "compiled": 1.5}, 1.5)
    assert finals(referee) == ["a", "compiled"] and outcome.winner == COMPILED


def test_past_its_seconds_a_run_tries_no_compiler_that_may_be_no_faster(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdicts: dict[str, float | Status] = {"a": 0.99, "compiled": 1.5}
    outcome, referee = play_past_its_seconds(store, monkeypatch, verdicts, 1.005)
    assert finals(referee) == ["a"] and outcome.winner is None
    in_time = ComparingReferee(verdicts, 1.005)
    assert play(store, in_time).winner == COMPILED and finals(in_time) == ["a", "compiled"]


def test_past_its_seconds_a_run_without_a_final_tries_no_compiler(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = {"a": Status.CRASHED, "a+fix": Status.CRASHED}
    outcome, referee = play_past_its_seconds(store, monkeypatch, failing | {"compiled": 1.5}, 1.5)
    assert finals(referee) == [] and outcome.winner is None


@pytest.mark.parametrize(
    ("verdicts", "over_eager", "judged", "winner"),
    [
        ({"a": 2.0, "compiled": 1.5}, 1.5, ["a"], "a"),
        ({"a": 1.2, "compiled": 1.1}, 1.5, ["a", "compiled"], "a"),
        ({"a": 1.2, "compiled": Status.REJECTED}, 1.5, ["a", "compiled"], "a"),
        ({"a": 0.99, "compiled": 1.0}, 0.9, ["a"], None),
        ({"a" + n * "+fix": Status.CRASHED for n in range(9)} | {"compiled": 0.9}, 0.9, ["compiled"], None),
    ],
)
def test_else_the_run_ends_as_ever(
    store: Store,
    verdicts: dict[str, float | Status],
    over_eager: float,
    judged: list[str],
    winner: str | None,
) -> None:
    referee = ComparingReferee(verdicts, over_eager)
    outcome = play(store, referee)
    assert finals(referee) == judged
    assert (outcome.winner.source if outcome.winner else None) == winner
    assert not any(isinstance(event, ModelTakenApart) for event in events(store, outcome.run_id))


def test_a_run_that_was_killed_after_its_verdict_does_not_repeat_it(store: Store) -> None:
    referee = ComparingReferee({"a": 0.99, "compiled": 1.3}, over_eager=1.3)
    run_id = create_run(SPEC, store)

    def kill(event: Event) -> None:
        if isinstance(event, CandidateEvaluated) and event.candidate == COMPILED.id:
            raise Killed

    team = ScriptedTeam(["a"], [])
    with pytest.raises(Killed):
        continue_run(run_id, tools(store, referee, team, print_compiled=lambda: COMPILED, on_event=kill))
    outcome = continue_run(run_id, tools(store, referee, team, print_compiled=lambda: COMPILED))
    assert outcome.winner == COMPILED and finals(referee).count("compiled") == 1
