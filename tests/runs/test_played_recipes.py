"""The search recipes on the real loop: each ends with a reason, resumes as it was, and repeats nothing."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import pytest

from kernelwright.agents.roles import Choice, Design, Node, Situation
from kernelwright.core.budget import Budget
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import UnusableAnswer
from kernelwright.core.evaluation import Status
from kernelwright.core.events import CandidateEvaluated, Event, MoveChosen, StepStarted
from kernelwright.core.plan import Move, Plan
from kernelwright.core.run import RunSpec
from kernelwright.core.task import Task
from kernelwright.methods import recipes
from kernelwright.runs.knowledge import Knowledge
from kernelwright.runs.loop import Crew, RunOutcome, Tools, continue_run, start_run
from kernelwright.store.base import Store
from kernelwright.store.sqlstore import open_store
from kernelwright.testing.fake_run import FakeReferee, ScriptedTeam, fake_prepare

NAMES = ("stark", "stark-no-search", "stark-no-plan", "fsr", "best-of-n", "refine")
BUDGET = 14


class Killed(BaseException):
    """Stands for kill -9: nothing may catch it."""


class LuckyVerdicts(dict[str, float | Status]):
    """A verdict for every source, drawn by its hash: a third of them fails."""

    def get(self, source: str, default: object = None) -> float | Status:
        lot = sha256(source.encode()).digest()
        return Status.CRASHED if lot[0] < 85 and ">" in source else 0.5 + lot[1] / 64


class Team(ScriptedTeam):
    """Notes what its roles were shown."""

    def __init__(self, moves: str = "uvwxyz") -> None:
        super().__init__("abcdefgh", moves)
        self.coded: list[tuple[Situation, Choice]] = []

    def write(self, situation: Situation, choice: Choice) -> Candidate:
        self.coded.append((situation, choice))
        return super().write(situation, choice)

    def rewrite(self, situation: Situation, count: int) -> tuple[Candidate, ...]:
        assert situation.base is not None
        if situation.base.evaluation.is_verified:
            return super().rewrite(situation, count)
        repaired = self.repair(situation, ())
        return () if repaired is None else (repaired[0],)


@dataclass
class Played:
    outcome: RunOutcome
    events: list[Event]
    referee: FakeReferee

    def sources(self) -> list[str]:
        return [source for source, is_final in self.referee.asked if not is_final]


def tools(store: Store, name: str, team: ScriptedTeam, referee: FakeReferee, **more: object) -> Tools:
    recipe = recipes()[name]
    return Tools(
        store=store,
        referee=referee,
        assemble=lambda meter, tape: Crew(team.team()),
        policy=recipe.make_policy(3),
        pipelines=recipe.pipelines,
        cache_dir=Path("unused"),
        prepare=fake_prepare,
        **more,  # type: ignore[arg-type]
    )


def spec(name: str, evaluations: int = BUDGET) -> RunSpec:
    task = Task(name="t", source="reference")
    return RunSpec(task=task, recipe=name, budget=Budget(evaluations=evaluations), seed=3)


def played(
    folder: Path,
    name: str,
    team: ScriptedTeam | None = None,
    verdicts: Mapping[str, float | Status] | None = None,
    evaluations: int = BUDGET,
) -> Played:
    store = open_store(folder / "played.db")
    referee = FakeReferee(LuckyVerdicts() if verdicts is None else verdicts)
    outcome = start_run(spec(name, evaluations), tools(store, name, team or Team(), referee))
    return Played(outcome, [stored.event for stored in store.iter_events(outcome.run_id)], referee)


@pytest.mark.parametrize("name", NAMES)
def test_it_ends_with_a_reason_within_its_budget_and_repeats_nothing(name: str, tmp_path: Path) -> None:
    game = played(tmp_path, name)
    assert game.outcome.reason and game.outcome.winner is not None
    assert len(game.sources()) <= BUDGET
    assert max(Counter(game.sources()).values()) == 1
    modes = {e.step: e.mode for e in game.events if isinstance(e, StepStarted)}
    moves = [e for e in game.events if isinstance(e, MoveChosen) and modes[e.step] != "repair"]
    assert max(Counter((e.base, e.move.key) for e in moves).values(), default=0) <= 1


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("killed_after", [1, 4, 6])
def test_a_killed_run_ends_as_one_that_was_not(name: str, killed_after: int, tmp_path: Path) -> None:
    whole = played(tmp_path, name)
    store, seen = open_store(tmp_path / "killed.db"), list[str]()

    def kill(event: Event) -> None:
        if isinstance(event, CandidateEvaluated):
            seen.append(event.candidate)
            if len(seen) == killed_after:
                raise Killed

    first, second = FakeReferee(LuckyVerdicts()), FakeReferee(LuckyVerdicts())
    with pytest.raises(Killed):
        start_run(spec(name), tools(store, name, Team(), first, on_event=kill))
    run_id = next(store.iter_runs()).run_id
    outcome = continue_run(run_id, tools(store, name, Team(), second))
    assert (outcome.winner, outcome.reason) == (whole.outcome.winner, whole.outcome.reason)
    assert [*first.asked, *second.asked] == whole.referee.asked


@pytest.mark.parametrize("name", [name for name in NAMES if name != "best-of-n"])
def test_a_team_without_moves_ends_the_search_early_and_says_so(name: str, tmp_path: Path) -> None:
    game = played(tmp_path, name, ScriptedTeam(["a"], []), {"a": 1.5})
    assert game.sources() == ["a"]
    assert (
        "was tried" in game.outcome.reason
        or "selected" in game.outcome.reason
        or "left" in game.outcome.reason
    )
    assert game.outcome.winner is not None and game.outcome.winner.source == "a"


class Watching(Team):
    """Notes who was not shown the fastest kernel of the run, as the base or beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.blind: list[str] = []

    def _look(self, who: str, situation: Situation) -> None:
        if situation.base is None or not situation.run:
            return
        self.asked.append(who)
        shown = (situation.base, *situation.window)
        if max(map(_speedup, shown)) < max(map(_speedup, situation.run)):
            self.blind.append(who)

    def plan(self, situation: Situation) -> Choice | None:
        self._look("planner", situation)
        return super().plan(situation)

    def write(self, situation: Situation, choice: Choice) -> Candidate:
        self._look("coder", situation)
        return super().write(situation, choice)

    def rewrite(self, situation: Situation, count: int) -> tuple[Candidate, ...]:
        self._look("coder", situation)
        return super().rewrite(situation, count)

    def translate(self, situation: Situation, plan: Plan) -> Candidate:
        self._look("coder", situation)
        return super().translate(situation, plan)

    def design(self, situation: Situation, avenues: int, experiments: int) -> Design:
        self._look("designer", situation)
        return super().design(situation, avenues, experiments)

    def repair(self, situation: Situation, tried: tuple[str, ...]) -> tuple[Candidate, Move] | None:
        self._look("debugger", situation)
        return super().repair(situation, tried)


def _speedup(node: Node) -> float:
    return node.evaluation.geomean_speedup() or 0.0


@pytest.mark.parametrize(
    "name", ["kernelwright", "kernelskill", "stark", "stark-no-plan", "scientist", "cupilot", "fsr", "refine"]
)
def test_whoever_plans_or_writes_sees_the_fastest_kernel(name: str, tmp_path: Path) -> None:
    team = Watching()
    played(tmp_path, name, team, evaluations=24)
    assert team.asked and not team.blind


def test_starks_agents_are_shown_their_windows_and_asked_for_anchors(tmp_path: Path) -> None:
    team = Team()
    played(tmp_path, "stark", team)
    shown = {node.relation for situation, _ in team.coded for node in situation.window}
    assert shown <= {"root", "child", "nephew", "leader"} and {"root", "child"} <= shown
    assert all(situation.wants_anchors for situation, _ in team.coded)


def test_the_planners_anchors_reach_the_coder(tmp_path: Path) -> None:
    class Anchoring(Team):
        def plan(self, situation: Situation) -> Choice | None:
            choice = super().plan(situation)
            return Choice(choice.move, anchored=f"<here>{choice.move.skill}") if choice else None

    team = Anchoring()
    played(tmp_path, "stark", team)
    assert all(choice.anchored == f"<here>{choice.move.skill}" for _, choice in team.coded)


def test_without_a_plan_agent_the_planner_is_never_asked(tmp_path: Path) -> None:
    class NoPlanner(Team):
        def plan(self, situation: Situation) -> Choice | None:
            raise AssertionError("the planner was asked")

    assert played(tmp_path, "stark-no-plan", NoPlanner()).outcome.reason


def test_fsr_feeds_a_failing_round_back_and_credits_the_repair_to_the_idea(tmp_path: Path) -> None:
    verdicts: dict[str, float | Status] = {
        "a": 1.0, "a>x": Status.CRASHED, "a>y": Status.COMPILE_ERROR, "a>x+fix": 1.7, "a>y+fix": 1.2,
    }  # fmt: skip
    store, referee = open_store(tmp_path / "fsr.db"), FakeReferee(verdicts)

    class OneSeed(Team):
        def seeds(self, situation: Situation, count: int) -> tuple[Candidate, ...]:
            return super().seeds(situation, 1)

    start_run(spec("fsr"), tools(store, "fsr", OneSeed("xy"), referee))
    outcomes = {o.skill: o for _, o in store.iter_outcomes() if o.move_key.count(">") == 0}
    assert [source for source, _ in referee.asked[:3]] == ["a", "a>x", "a>y"]
    assert any(o.verified for o in outcomes.values())
    assert "fix" not in outcomes


def test_refine_goes_on_from_a_slower_candidate_and_keeps_the_best(tmp_path: Path) -> None:
    verdicts: dict[str, float | Status] = {"a": 1.0, "a>x": 2.0, "a>x>x": 0.5, "a>x>x>x": 0.6}
    game = played(tmp_path, "refine", Team("x"), verdicts, evaluations=4)
    assert game.sources() == ["a", "a>x", "a>x>x", "a>x>x>x"]
    assert game.outcome.winner is not None and game.outcome.winner.source == "a>x"


def test_an_unusable_answer_ends_the_step_not_the_run(tmp_path: Path) -> None:
    class Mumbling(Team):
        asked = 0

        def rewrite(self, situation: Situation, count: int) -> tuple[Candidate, ...]:
            self.asked += 1
            if self.asked % 2:
                raise UnusableAnswer("no_code: prose only")
            return super().rewrite(situation, count)

    game = played(tmp_path, "refine", Mumbling(), evaluations=5)
    assert len(game.sources()) == 5
    assert [e.kind for e in game.events].count("noted") >= 3


def test_a_generator_that_never_answers_ends_the_run(tmp_path: Path) -> None:
    class Silent(Team):
        def seeds(self, situation: Situation, count: int) -> tuple[Candidate, ...]:
            raise UnusableAnswer("refusal: no")

    game = played(tmp_path, "best-of-n", Silent())
    assert game.outcome.reason == "no further sample could be written" and game.sources() == []


@pytest.mark.parametrize(("team", "coder"), [("expert", "expert"), ("expert+coder=llm", "llm")])
def test_outcomes_name_the_coder_who_carried_the_move_out(team: str, coder: str, tmp_path: Path) -> None:
    store, referee = open_store(tmp_path / "played.db"), FakeReferee({"a": 1.0, "a>x": 2.0})
    played_by = spec("refine", 3).model_copy(update={"team": team})
    start_run(played_by, tools(store, "refine", Team("xy"), referee))
    outcomes = [outcome for _, outcome in store.iter_outcomes()]
    assert outcomes and {outcome.coder for outcome in outcomes} == {coder}
    assert Knowledge.of(store, played_by, has_long_term=True).coder == coder


class Noting(Team):
    """Keeps the situations that its Planner and its Debugger were shown."""

    def __init__(self, moves: str = "uvwxyz") -> None:
        super().__init__(moves)
        self.planned: list[Situation] = []
        self.repaired: list[Situation] = []

    def plan(self, situation: Situation) -> Choice | None:
        self.planned.append(situation)
        return super().plan(situation)

    def repair(self, situation: Situation, tried: tuple[str, ...]) -> tuple[Candidate, Move] | None:
        self.repaired.append(situation)
        return super().repair(situation, tried)


def test_a_repair_is_told_the_diagnosis_of_the_base_that_the_idea_was_tried_on(tmp_path: Path) -> None:
    team = Noting("x")
    verdicts: dict[str, float | Status] = {"a": 1.0, "a>x": Status.CRASHED, "a>x+fix": Status.CRASHED}
    played(tmp_path, "kernelskill", team, verdicts, evaluations=12)
    chain = [s for s in team.repaired if s.base is not None and s.base.candidate.source.startswith("a>x")]
    assert len(chain) >= 2, "the idea and its first repair"
    assert all(s.analysis is not None and s.analysis == team.planned[0].analysis for s in chain)


def test_a_failing_seed_has_no_diagnosis_to_be_told(tmp_path: Path) -> None:
    team = Noting("x")
    played(tmp_path, "kernelskill", team, {seed: Status.CRASHED for seed in "abcdefgh"}, evaluations=6)
    assert team.repaired and all(situation.analysis is None for situation in team.repaired)


def test_a_resumed_run_tells_its_team_the_references_latency_that_it_told_before(tmp_path: Path) -> None:
    class Slower(FakeReferee):
        @property
        def baseline_ms(self) -> Mapping[str, float]:
            return {"default": 20.0}

    store = open_store(tmp_path / "killed.db")

    def kill(event: Event) -> None:
        if isinstance(event, CandidateEvaluated):
            raise Killed

    with pytest.raises(Killed):
        start_run(spec("stark"), tools(store, "stark", Noting(), FakeReferee(LuckyVerdicts()), on_event=kill))
    team = Noting()
    run_id = next(store.iter_runs()).run_id
    continue_run(run_id, tools(store, "stark", team, Slower(LuckyVerdicts())))
    assert team.planned and {s.eager_ms["default"] for s in team.planned} == {10.0}
