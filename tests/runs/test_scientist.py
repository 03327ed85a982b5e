"""GPU Kernel Scientist played with scripted verdicts: picks, experiments, the population, resuming."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.runs.playing import evaluated, events, play_killed_after, spec_of, tools_of

from kernelwright.agents.roles import Choice, Design, Experiment, Pick, Situation, Team
from kernelwright.core.budget import Budget
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import UnusableAnswer
from kernelwright.core.evaluation import Status
from kernelwright.core.events import CandidateWritten, Event, MoveFailed, Noted
from kernelwright.core.plan import Move
from kernelwright.methods.scientist import SCIENTIST, ScientistPolicy
from kernelwright.runs.loop import RunOutcome, start_run
from kernelwright.store.base import Store
from kernelwright.store.sqlstore import open_store
from kernelwright.testing.fake_run import FakeReferee, ScriptedTeam

RATED = {"new": (0.0, 0.1, 0.9), "bold": (0.0, 0.9, 0.1), "sure": (0.3, 0.4, 0.1), "dull": (0.1, 0.2, 0.2)}
VERDICTS: dict[str, float | Status] = {
    "a": 1.0, "b": 1.2, "b>new": Status.CRASHED, "b>bold": 1.5, "b>sure": 1.4,
    "b>bold>new": 2.0, "b>bold>sure": 1.6, "b>bold>dull": 1.3, "b>bold>new>sure": 2.2,
}  # fmt: skip


class Scientist(ScriptedTeam):
    """Rates the moves of its script; remembers what its roles were told."""

    def __init__(self, **more: object) -> None:
        super().__init__(["a", "b"], list(RATED), **more)  # type: ignore[arg-type]
        self.designed_on: list[Situation] = []
        self.selected_from: list[Situation] = []

    def select(self, situation: Situation) -> Pick | None:
        self.selected_from.append(situation)
        return super().select(situation)

    def design(self, situation: Situation, avenues: int, experiments: int) -> Design:
        self.designed_on.append(situation)
        assert situation.base is not None
        done = {move.skill for move in situation.base.candidate.plan.moves}
        moves = [move for move in self._untried(situation) if move.skill not in done]
        return Design((), tuple(Experiment(move, *RATED[move.skill]) for move in moves[:experiments]))

    def plays(self) -> Team:
        return replace(self.team(), name="scientist")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path / "runs.db")


def play(store: Store, team: ScriptedTeam, generations: int = 2, **more: object) -> RunOutcome:
    tools = tools_of(
        SCIENTIST, ScientistPolicy(generations=generations), store, FakeReferee(VERDICTS), team.team()
    )
    return start_run(spec_of(SCIENTIST, **more), tools)


def notes(store: Store, outcome: RunOutcome, role: str) -> list[str]:
    return [e.text for e in events(store, outcome.run_id) if isinstance(e, Noted) and e.role == role]


def test_three_of_the_experiments_are_run_in_the_published_order(store: Store) -> None:
    outcome = play(store, Scientist(), generations=1)
    assert evaluated(store, outcome.run_id)[:5] == ["a", "b", "b>new", "b>bold", "b>sure"]


def test_each_coder_of_a_generation_is_told_what_was_judged_before(store: Store) -> None:
    told = []

    class Watching(Scientist):
        def write(self, situation: Situation, choice: Choice) -> Candidate:
            told.append(len(situation.run))
            return super().write(situation, choice)

    play(store, Watching(), generations=1)
    assert told == [2, 3, 4]


def test_the_next_generation_starts_from_the_best_and_the_best_is_delivered(store: Store) -> None:
    outcome = play(store, Scientist(), generations=3)
    assert outcome.winner is not None and outcome.winner.source == "b>bold>new>sure"
    assert outcome.reason == "all 3 generations done"


def test_children_have_base_and_reference_as_parents(store: Store) -> None:
    outcome = play(store, Scientist(), generations=1)
    written = [e for e in events(store, outcome.run_id) if isinstance(e, CandidateWritten)]
    a, b, child = (store.get_candidate(e.candidate) for e in written[:3])
    assert child.source == "b>new" and child.parents == (b.id, a.id)


def test_the_roles_get_timings_and_no_analysis(store: Store) -> None:
    team = Scientist()
    outcome = play(store, team)
    told = [*team.selected_from, *team.designed_on]
    assert all(s.timings_only and s.analysis is None for s in told)
    assert not [e for e in events(store, outcome.run_id) if e.kind == "diagnosed"]
    assert [n.relation for n in team.designed_on[0].window] == ["reference"]


def test_picks_and_designs_are_recorded_with_their_reasons(store: Store) -> None:
    outcome = play(store, Scientist(), generations=1)
    assert "scripted" in notes(store, outcome, "selector")[0]
    assert "experiment: bold[*](): gain 0 to 90 %, innovation 0.10" in notes(store, outcome, "designer")[0]


def test_a_failing_child_stays_in_the_population_but_is_never_a_base(store: Store) -> None:
    class Stubborn(Scientist):
        def select(self, situation: Situation) -> Pick | None:
            super().select(situation)
            last = situation.window[-1].candidate.id
            failing = [n.candidate.id for n in situation.window if not n.evaluation.is_verified]
            return Pick(failing[0] if failing else last, failing[0] if failing else last, "stubborn")

    team = Stubborn()
    outcome = play(store, team)
    assert any(not n.evaluation.is_verified for n in team.selected_from[-1].window)
    assert all(s.base is not None and s.base.evaluation.is_verified for s in team.designed_on)
    assert all(not s.window for s in team.designed_on), "a failing reference is none"
    assert "the fastest stands in" in notes(store, outcome, "selector")[-1]


def test_an_experiment_that_cannot_be_carried_out_is_replaced(store: Store) -> None:
    outcome = play(store, Scientist(unliftable=["bold"]), generations=1)
    assert evaluated(store, outcome.run_id)[2:5] == ["b>new", "b>sure", "b>dull"]
    failed = [e for e in events(store, outcome.run_id) if isinstance(e, MoveFailed)]
    assert [e.move.skill for e in failed] == ["bold"]


def test_a_kernel_that_was_evaluated_is_not_evaluated_again(store: Store) -> None:
    class Forgetful(Scientist):
        def write(self, situation: Situation, choice: Choice) -> Candidate:
            return super().write(situation, Choice(Move(skill="bold")))

    referee = FakeReferee(VERDICTS)
    tools = tools_of(SCIENTIST, ScientistPolicy(), store, referee, Forgetful().team())
    start_run(spec_of(SCIENTIST), tools)
    assert len(referee.asked) == len(set(referee.asked))


def test_bases_without_an_experiment_left_become_references_until_none_is_left(store: Store) -> None:
    team = Scientist()
    outcome = play(store, team, generations=99, budget=Budget())
    assert "no experiment is left" in outcome.reason
    relations = {n.relation for n in team.selected_from[-1].window}
    assert relations == {"member", "reference"}


@pytest.mark.parametrize("role", ["select", "design"])
def test_a_role_that_talks_nonsense_ends_the_run_with_its_best(
    store: Store, role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nonsense(*args: object) -> None:
        raise UnusableAnswer("prose")

    monkeypatch.setattr(Scientist, role, nonsense)
    outcome = play(store, Scientist(), generations=99)
    assert outcome.winner is not None and outcome.winner.source == "b"
    assert "generations in a row gave no new kernel" in outcome.reason
    assert notes(store, outcome, "selector" if role == "select" else "designer")[-1] == "prose"


@pytest.mark.parametrize("evaluations", range(1, 10))
def test_the_budget_ends_a_run_anywhere_and_keeps_its_best(store: Store, evaluations: int) -> None:
    outcome = play(store, Scientist(), generations=9, budget=Budget(evaluations=evaluations))
    judged = evaluated(store, outcome.run_id)[:evaluations]
    best = max(judged, key=lambda source: v if isinstance(v := VERDICTS.get(source, 1.0), float) else 0.0)
    assert outcome.reason == "the budget of evaluations is used up"
    assert outcome.winner is None if best == "a" else outcome.winner is not None
    assert outcome.winner is None or outcome.winner.source == best


@pytest.mark.parametrize("killed_after", range(1, 10))
def test_a_killed_run_ends_as_it_would_have(tmp_path: Path, killed_after: int) -> None:
    whole = open_store(tmp_path / "whole.db")
    expected = play(whole, Scientist())
    broken, asked = open_store(tmp_path / "broken.db"), FakeReferee(VERDICTS)

    def tools_with(on_event: Callable[[Event], None]) -> object:
        policy, team = ScientistPolicy(generations=2), Scientist().team()
        return tools_of(SCIENTIST, policy, broken, asked, team, on_event)

    outcome = play_killed_after(killed_after, spec_of(SCIENTIST), tools_with)  # type: ignore[arg-type]
    assert len(asked.asked) == len(set(asked.asked)), "nothing is measured twice"
    assert evaluated(broken, outcome.run_id) == evaluated(whole, expected.run_id)
    assert (outcome.winner, outcome.reason) == (expected.winner, expected.reason)
