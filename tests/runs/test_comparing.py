"""A candidate that its verdict cannot tell from its base is timed in turn with it."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.runs.test_run import SPEC, Killed, events, tools

from kernelwright.core.candidate import Candidate
from kernelwright.core.evaluation import Evaluation, Speedup, Status
from kernelwright.core.events import BaseReplaced, ComparedWithBase, Event
from kernelwright.core.finalists import Alternation
from kernelwright.core.task import Task
from kernelwright.methods.kernelwright import KernelwrightPolicy
from kernelwright.runs.comparing import comparing_seconds
from kernelwright.runs.evaluator import ComparingSession
from kernelwright.runs.evaluators import Around, compose
from kernelwright.runs.loop import Tools, continue_run, create_run, start_run
from kernelwright.runs.recording import RecordedAlternation, RecordedEvaluator, Recording, recording_of
from kernelwright.store.base import Store
from kernelwright.store.sqlstore import open_store
from kernelwright.testing.fake_run import FakeReferee, ScriptedTeam

SEARCH = {"a": 2.0, "a>x": 2.05, "a>x>x": 1.0, "a>x>y": 1.0, "a>y": 1.0}
CLEAR = {**SEARCH, "a>x": 3.0}


class ComparingReferee(FakeReferee):
    """Times a candidate in turn with its base by a script of ratios; evaluations take a second."""

    def __init__(self, verdicts: dict[str, float | Status], ratio: float) -> None:
        super().__init__(verdicts)
        self.ratio = ratio
        self.compared: list[tuple[str, str, float]] = []

    def evaluate(self, candidate: Candidate, **how: object) -> Evaluation:
        known = super().evaluate(candidate, **how)  # type: ignore[arg-type]
        return known.model_copy(update={"phases_s": {"time": 1.0}})

    def compare(self, candidate: Candidate, base: Candidate, limit_s: float) -> Alternation:
        self.compared.append((candidate.source, base.source, limit_s))
        first, second = (candidate, base) if self.ratio >= 1 else (base, candidate)
        ratio = max(self.ratio, 1 / self.ratio)
        lead = Speedup(baseline=second.id, ratio=ratio, low=0.96 * ratio, high=1.04 * ratio)
        return Alternation(order=(first.id, second.id), leads=(lead,), seconds=0.1)


def wanted(store: Store, referee: FakeReferee, moves: tuple[str, ...] = ("x",)) -> Tools:
    played = tools(store, referee, ScriptedTeam(["a"], moves))
    return replace(played, policy=KernelwrightPolicy(rounds=3))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path / "runs.db")


def bases(store: Store, run_id: str) -> list[str]:
    replaced = [event.candidate for event in events(store, run_id) if isinstance(event, BaseReplaced)]
    return [store.get_candidate(name, run_id).source for name in replaced]


@pytest.mark.parametrize(
    ("ratio", "expected"),
    [(1.10, ["a", "a>x"]), (1.01, ["a"]), (0.9, ["a"])],
    ids=["faster", "alike", "slower"],
)
def test_what_is_timed_in_turn_decides_which_is_the_base(
    store: Store, ratio: float, expected: list[str]
) -> None:
    referee = ComparingReferee(dict(SEARCH), ratio)
    outcome = start_run(SPEC, wanted(store, referee))
    assert referee.compared[0][:2] == ("a>x", "a")
    assert [source for source in bases(store, outcome.run_id) if source in SEARCH] == expected


def test_a_clear_difference_costs_nothing(store: Store) -> None:
    referee = ComparingReferee(dict(CLEAR), 0.5)
    outcome = start_run(SPEC, wanted(store, referee))
    assert ("a>x", "a") not in [pair[:2] for pair in referee.compared]
    assert bases(store, outcome.run_id) == ["a", "a>x"]


def test_a_failing_one_is_not_timed_and_its_repair_is_timed_with_the_base_of_the_idea(store: Store) -> None:
    referee = ComparingReferee({"a": 2.0, "a>x": Status.INCORRECT_NUMERICS, "a>x+fix": 2.01}, 1.2)
    start_run(SPEC, wanted(store, referee))
    assert [pair[:2] for pair in referee.compared][:1] == [("a>x+fix", "a")]


def test_the_limit_of_all_timings_is_a_share_of_what_evaluations_took() -> None:
    assert comparing_seconds([1.0, 1.0, 1.0, 1.0], 0.0, None) == 2.0
    assert comparing_seconds([1.0, 1.0, 1.0, 1.0], 0.7, None) == pytest.approx(1.3)
    assert comparing_seconds([1.0, 1.0, 1.0, 1.0], 1.1, None) is None
    assert comparing_seconds([1.0] * 9, 0.0, left_s=0.5) is None
    assert comparing_seconds([], 0.0, None) is None


def told(store: Store, run_id: str) -> tuple[list[ComparedWithBase], list[str]]:
    found = [event for event in events(store, run_id) if isinstance(event, ComparedWithBase)]
    return found, bases(store, run_id)


def test_a_killed_run_does_not_repeat_it(store: Store) -> None:
    referee = ComparingReferee(dict(SEARCH), 1.10)
    run_id = create_run(SPEC, store)

    def kill(event: Event) -> None:
        if isinstance(event, ComparedWithBase):
            raise Killed

    with pytest.raises(Killed):
        continue_run(run_id, replace(wanted(store, referee), on_event=kill))
    continue_run(run_id, wanted(store, referee))
    assert [pair[:2] for pair in referee.compared].count(("a>x", "a")) == 1
    assert bases(store, run_id)[:2] == ["a", "a>x"]


def test_a_run_that_went_on_without_it_is_resumed_without_it(store: Store) -> None:
    run_id = create_run(SPEC, store)

    def kill(event: Event) -> None:
        if isinstance(event, BaseReplaced) and event.step > 1:
            raise Killed

    with pytest.raises(Killed):
        continue_run(run_id, replace(wanted(store, FakeReferee(dict(SEARCH))), on_event=kill))
    later = ComparingReferee(dict(SEARCH), 0.5)
    continue_run(run_id, wanted(store, later))
    assert bases(store, run_id) == ["a", "a>x"]
    assert ("a>x", "a") not in [pair[:2] for pair in later.compared]


def test_a_recorded_run_takes_the_same_bases_and_measures_nothing(store: Store) -> None:
    first = start_run(SPEC, wanted(store, ComparingReferee(dict(SEARCH), 1.01)))
    again = open_store("sqlite://")
    served = replace(wanted(again, FakeReferee({})), referee=RecordedEvaluator(None, recording_of(store)))
    second = start_run(SPEC, served)
    assert told(again, second.run_id) == told(store, first.run_id)
    assert told(store, first.run_id)[0]


def test_a_recording_without_it_plays_as_before(store: Store) -> None:
    start_run(SPEC, wanted(store, FakeReferee(dict(SEARCH))))
    inner = ComparingReferee(dict(SEARCH), 0.5)
    for evaluator in (None, inner):
        again = open_store("sqlite://")
        judge = RecordedEvaluator(evaluator, Recording(recording_of(store).entries()))
        outcome = start_run(SPEC, replace(wanted(again, FakeReferee({})), referee=judge))
        assert bases(again, outcome.run_id) == ["a", "a>x"]
    assert not inner.compared


def test_finalists_of_a_recording_are_no_comparison_of_a_search() -> None:
    base, child = Candidate(source="a"), Candidate(source="a>x")
    task = Task(name="t", source="reference")
    lead = Speedup(baseline=base.id, ratio=1.2, low=1.1, high=1.3)
    timed = Alternation(order=(child.id, base.id), leads=(lead,))
    session = RecordedEvaluator(
        None, Recording([RecordedAlternation(task_id=task.id, alternation=timed)])
    ).open(task)
    assert session.alternate((child, base)) == timed and session.compare(child, base, 1.0) is None


class InTurn(FakeReferee):
    """Has all it is given as fast as each other, in the order given."""

    def alternate(self, candidates: Sequence[Candidate], limit_s: float | None = None) -> Alternation:
        return Alternation(order=tuple(candidate.id for candidate in candidates), seconds=limit_s or 0.0)


def test_whoever_can_time_in_turn_can_compare_and_a_quick_run_measures_nothing() -> None:
    base, child = Candidate(source="a"), Candidate(source="a>x")
    task = Task(name="t", source="reference")
    timed = compose(InTurn({}), Around()).open(task)
    assert isinstance(timed, ComparingSession)
    assert timed.compare(child, base, 3.0) == Alternation(order=(child.id, base.id), seconds=3.0)
    quick = compose(InTurn({}), Around(is_quick=True)).open(task)
    assert isinstance(quick, ComparingSession) and quick.compare(child, base, 3.0) is None


def test_the_run_tells_both_in_words() -> None:
    lead = Speedup(baseline="b", ratio=1.08, low=1.03, high=1.13)
    assert lead.against("its base") == "1.08x [1.03, 1.13] of its base"
    unclear = Speedup(baseline="b", ratio=1.01, low=0.98, high=1.04)
    assert unclear.against("its base") == "not distinguishable from its base (1.01x [0.98, 1.04])"
    reverse = Alternation(order=("b", "c"), leads=(Speedup(baseline="c", ratio=2.0, low=1.6, high=2.5),))
    assert reverse.speedup("c", "b") == Speedup(baseline="b", ratio=0.5, low=0.4, high=0.625)
    assert reverse.speedup("c", "d") is None
