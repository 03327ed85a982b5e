"""cuPilot played with scripted verdicts: population, blind crossover, revision, alignment, resuming."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.runs.playing import evaluated, events, play_killed_after, spec_of, tools_of

from kernelwright.agents.roles import Situation
from kernelwright.core.budget import Budget
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import LoweringError, UnusableAnswer
from kernelwright.core.evaluation import Status
from kernelwright.core.events import CandidateWritten, Event, Noted, StepStarted
from kernelwright.core.models import ModelSettings
from kernelwright.core.plan import Move, Plan
from kernelwright.methods.cupilot import CUPILOT, CuPilotPolicy
from kernelwright.runs.loop import RunOutcome, Tools, start_run
from kernelwright.store.base import Store
from kernelwright.store.sqlstore import open_store
from kernelwright.testing.fake_run import FakeReferee, ScriptedTeam

MOVES = ["x", "y", "z", "w"]
SPEED = {"x": 1.2, "y": 1.3, "z": 1.1, "w": 0.9}
POLICY = CuPilotPolicy(population=4, epochs=2)


class Verdicts(dict[str, "float | Status"]):
    """Each move of a kernel multiplies its speed; what ``failing`` names fails until it is repaired once."""

    def __init__(self, *failing: str) -> None:
        super().__init__()
        self.failing = failing

    def get(self, source: str, default: object = None) -> float | Status:
        if source in self.failing:
            return Status.CRASHED
        speed = 1.0
        for skill in source.removesuffix("+fix").split(">")[1:]:
            speed *= SPEED.get(skill, 1.0)
        return speed


class Evolution(ScriptedTeam):
    """Remembers what the Breeder was told; the Aligner says that every kernel also does ``seen``."""

    def __init__(self, moves: list[str] = MOVES, unliftable: tuple[str, ...] = ()) -> None:
        super().__init__(["k"], moves)
        self.refused = unliftable
        self.crossed: list[tuple[Situation, Plan, Plan]] = []

    def cross(self, situation: Situation, first: Plan, second: Plan) -> Plan | None:
        self.crossed.append((situation, first, second))
        return super().cross(situation, first, second)

    def translate(self, situation: Situation, plan: Plan) -> Candidate:
        if any(move.skill in self.refused for move in plan.moves):
            raise LoweringError("no such place")
        return super().translate(situation, plan)

    def align(self, situation: Situation, candidate: Candidate) -> Plan:
        return candidate.plan.then(Move(skill="seen"))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path / "runs.db")


def tools(
    store: Store,
    team: ScriptedTeam,
    referee: FakeReferee,
    on_event: Callable[[Event], None] = lambda event: None,
) -> Tools:
    return tools_of(CUPILOT, POLICY, store, referee, team.team(), on_event)


def play(store: Store, team: ScriptedTeam, *failing: str, **more: object) -> RunOutcome:
    return start_run(spec_of(CUPILOT, **more), tools(store, team, FakeReferee(Verdicts(*failing))))


def notes(store: Store, outcome: RunOutcome, role: str) -> list[Noted]:
    return [e for e in events(store, outcome.run_id) if isinstance(e, Noted) and e.role == role]


def modes(store: Store, outcome: RunOutcome) -> list[str]:
    return [e.mode for e in events(store, outcome.run_id) if isinstance(e, StepStarted)]


def test_a_vanilla_kernel_then_the_population_then_crossing(store: Store) -> None:
    outcome = play(store, Evolution())
    assert evaluated(store, outcome.run_id)[:5] == ["k", "k>x", "k>y", "k>z", "k>w"]
    assert modes(store, outcome)[:3] == ["seed", "populate", "cross"]


@pytest.mark.parametrize(("concurrency", "known"), [(1, [1, 2, 3, 4]), (2, [1, 1, 1, 1])])
def test_a_translator_is_told_what_was_judged_before_unless_its_prompt_was_sent(
    concurrency: int, known: list[int], store: Store
) -> None:
    told = []

    class Watching(Evolution):
        def translate(self, situation: Situation, plan: Plan) -> Candidate:
            told.append(len(situation.run))
            return super().translate(situation, plan)

    play(store, Watching(), models=ModelSettings(model="openai:scripted", concurrency=concurrency))
    assert told[:4] == known


def test_the_best_recombination_wins(store: Store) -> None:
    outcome = play(store, Evolution())
    assert outcome.winner is not None
    assert {"x", "y"} <= {move.skill for move in outcome.winner.plan.moves}


def test_the_breeder_crosses_what_the_sources_really_do_and_never_sees_them(store: Store) -> None:
    team = Evolution()
    play(store, team)
    assert team.crossed
    for situation, first, second in team.crossed:
        assert situation.base is None
        assert situation.window and all(node.candidate.source == "" for node in situation.window)
        assert situation.analysis is not None, "the roofline class and what limits the base are shown"
        assert "seen" in {m.skill for m in first.moves} and "seen" in {m.skill for m in second.moves}


def test_a_crossed_child_has_both_parents(store: Store) -> None:
    outcome = play(store, Evolution(), budget=Budget(evaluations=6))
    written = [e.candidate for e in events(store, outcome.run_id) if isinstance(e, CandidateWritten)]
    child, population = store.get_candidate(written[5]), written[1:5]
    assert len(set(child.parents)) == 2 and set(child.parents) <= set(population)


def test_a_failing_individual_is_revised_and_then_aligned(store: Store) -> None:
    outcome = play(store, Evolution(), "k>x")
    assert evaluated(store, outcome.run_id)[5] == "k>x+fix"
    written = [e.candidate for e in events(store, outcome.run_id) if isinstance(e, CandidateWritten)]
    aligned = [note.candidate for note in notes(store, outcome, "aligner")]
    assert written[5] in aligned and written[1] not in aligned


def test_revision_is_bounded(store: Store) -> None:
    chain = ["k>x" + n * "+fix" for n in range(9)]
    outcome = play(store, Evolution(), *chain)
    judged = evaluated(store, outcome.run_id)
    assert [source for source in judged if source in chain] == chain[: POLICY.chain_cap + 1]
    assert outcome.winner is not None


def test_a_plan_that_cannot_be_translated_costs_no_evaluation(store: Store) -> None:
    outcome = play(store, Evolution(unliftable=("z",)))
    assert not [source for source in evaluated(store, outcome.run_id) if "z" in source]
    assert "cannot be carried out: no such place" in notes(store, outcome, "coder")[0].text


def test_a_gene_pool_of_one_move_is_used_up_with_a_reason(store: Store) -> None:
    outcome = play(store, Evolution(["x"]))
    assert "gene pool is used up" in outcome.reason
    assert outcome.winner is not None and outcome.winner.source == "k>x"


def test_nothing_is_judged_twice(store: Store) -> None:
    referee = FakeReferee(Verdicts())
    start_run(spec_of(CUPILOT), tools(store, Evolution(), referee))
    assert len(referee.asked) == len(set(referee.asked))


@pytest.mark.parametrize("role", ["populate", "cross", "translate", "repair"])
def test_a_role_that_talks_nonsense_costs_little_and_ends_the_run(
    store: Store, role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def nonsense(*args: object) -> None:
        asked.append(role)
        raise UnusableAnswer("prose")

    monkeypatch.setattr(Evolution, role, nonsense)
    outcome = play(store, Evolution(), "k>x")
    assert outcome.reason and 1 <= len(asked) <= 12
    assert "prose" in str(events(store, outcome.run_id))


def test_without_a_word_from_the_aligner_a_kernel_keeps_its_own_plan(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nonsense(*args: object) -> None:
        raise UnusableAnswer("prose")

    monkeypatch.setattr(Evolution, "align", nonsense)
    team = Evolution()
    play(store, team)
    assert team.crossed and all("seen" not in str(plans) for _, *plans in team.crossed)


@pytest.mark.parametrize("evaluations", range(1, 9))
def test_the_budget_ends_a_run_anywhere_and_keeps_its_best(store: Store, evaluations: int) -> None:
    outcome = play(store, Evolution(), "k>x", budget=Budget(evaluations=evaluations))
    judged = evaluated(store, outcome.run_id)[:evaluations]
    verdicts = Verdicts("k>x")
    speeds = [v for source in judged if isinstance(v := verdicts.get(source), float)]
    assert outcome.reason == "the budget of evaluations is used up"
    if max(speeds, default=0.0) > 1.03:
        assert outcome.winner is not None and verdicts.get(outcome.winner.source) == max(speeds)
    else:
        assert outcome.winner is None


@pytest.mark.parametrize("killed_after", range(1, 12))
def test_a_killed_run_ends_as_it_would_have(tmp_path: Path, killed_after: int) -> None:
    whole, broken = open_store(tmp_path / "whole.db"), open_store(tmp_path / "broken.db")
    spec = spec_of(CUPILOT, budget=Budget(evaluations=12))
    referee = FakeReferee(Verdicts("k>x", "k>y"))
    expected = start_run(spec, tools(whole, Evolution(), FakeReferee(Verdicts("k>x", "k>y"))))
    outcome = play_killed_after(killed_after, spec, lambda kill: tools(broken, Evolution(), referee, kill))
    assert len(referee.asked) == len(set(referee.asked)), "nothing is measured twice"
    assert evaluated(broken, outcome.run_id) == evaluated(whole, expected.run_id)
    assert (outcome.winner, outcome.reason) == (expected.winner, expected.reason)


def test_another_seed_evolves_differently(tmp_path: Path) -> None:
    def order(seed: int) -> list[str]:
        store = open_store(tmp_path / f"{seed}.db")
        policy = CUPILOT.make_policy(seed)
        team = Evolution(["x", "y", "z", "w", "v", "u"])
        referee = FakeReferee(Verdicts())
        outcome = start_run(
            spec_of(CUPILOT, seed=seed), tools_of(CUPILOT, policy, store, referee, team.team())
        )
        return evaluated(store, outcome.run_id)

    assert order(0) != order(1) or order(0) != order(2)
