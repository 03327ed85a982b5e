"""Teams by name: who sits where, and what is refused."""

from dataclasses import replace

import pytest
from tests.agents.llm.conftest import BASE

from kernelwright.agents.expert.coder import ExpertCoder
from kernelwright.agents.expert.planner import ExpertPlanner
from kernelwright.agents.llm.coder import ModelCoder
from kernelwright.agents.llm.generator import ModelGenerator
from kernelwright.agents.llm.planner import ModelPlanner
from kernelwright.agents.llm.sources import LOADER_LINE, fold, unfold
from kernelwright.agents.roles import Situation
from kernelwright.agents.teams import SEATS, check_team, find_team, needs_model
from kernelwright.core.errors import UserError
from kernelwright.core.models import CallMode
from kernelwright.core.plan import Plan
from kernelwright.core.target import CPU_CPP, TargetName
from kernelwright.runs.steps import StepKind
from kernelwright.runs.steps.one_move import OneMove
from kernelwright.skills.stats import EmptyLedger
from kernelwright.testing.scripted_client import ScriptedClient


def test_each_team_fills_every_seat() -> None:
    expert, llm = find_team("expert"), find_team("llm", ScriptedClient({}))
    assert (expert.name, llm.name) == ("expert", "llm")
    assert needs_model("llm") and not needs_model("expert")
    for seat in SEATS:
        assert "expert" in type(getattr(expert, seat)).__module__
        assert ".llm." in type(getattr(llm, seat)).__module__


def test_seats_can_be_swapped_either_way() -> None:
    team = find_team("expert+planner=llm,coder=llm", ScriptedClient({}))
    assert isinstance(team.planner, ModelPlanner) and isinstance(team.coder, ModelCoder)
    assert not isinstance(team.generator, ModelGenerator)
    assert team.name == "expert+planner=llm,coder=llm"
    team = find_team("llm+coder=expert, planner=expert", ScriptedClient({}))
    assert isinstance(team.coder, ExpertCoder) and isinstance(team.planner, ExpertPlanner)
    assert isinstance(team.generator, ModelGenerator)


@pytest.mark.parametrize(
    ("name", "is_needed"),
    [("expert", False), ("llm", True), ("expert+planner=llm", True), ("expert+planner=expert", False),
     ("llm+generator=expert", True)],
)  # fmt: skip
def test_a_team_says_whether_it_needs_a_model(name: str, is_needed: bool) -> None:
    assert needs_model(name) is is_needed
    check_team(name, CPU_CPP)


@pytest.mark.parametrize(
    ("name", "words"),
    [("wizards", "unknown team 'wizards'; known: expert, llm"), ("", "unknown team ''"),
     ("expert+cook=llm", "no seat 'cook'; seats: generator, analyst"),
     ("expert+planner=gpt", "unknown team 'gpt' in 'expert+planner=gpt'"), ("expert+", "no seat ''"),
     ("expert+planner", "unknown team ''")],
)  # fmt: skip
def test_unknown_names_are_one_clear_line(name: str, words: str) -> None:
    for ask in (find_team, needs_model, lambda name: check_team(name, CPU_CPP)):
        with pytest.raises(UserError) as caught:
            ask(name)
        assert words in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["expert", "llm+planner=expert"])
def test_the_expert_takes_no_seat_where_only_models_write_the_language(name: str) -> None:
    target = TargetName(device="cuda", language="cuda")
    with pytest.raises(UserError, match=r"does not write for target 'cuda/cuda'.*--team llm"):
        check_team(name, target)
    check_team("llm", target)


def test_a_team_of_models_without_a_client_is_refused() -> None:
    with pytest.raises(UserError, match="needs a language model"):
        find_team("expert+planner=llm")


def test_an_expert_analyst_bears_with_plans_in_words(situation: Situation) -> None:
    team = find_team("expert+planner=llm,coder=llm", ScriptedClient({}))
    assert situation.base is not None and BASE.plan.moves[0].text
    found = team.analyst.analyse(situation.problem, BASE, situation.base.evaluation, EmptyLedger())
    assert found.ranked and found.evidence.get("program.n_regions") is None
    assert found.evidence.get("run.latency_ms") == 4.0


def test_a_model_planner_of_an_expert_coder_chooses_what_can_be_lowered(situation: Situation) -> None:
    client = ScriptedClient({"planner": [{"skill": "m1", "why": "w", "evidence": ["run.latency_ms = 4"]}]})
    team = find_team("expert+planner=llm", client)
    assert situation.base is not None
    lowered = team.generator.seeds(replace(situation, base=None), 3)[1]
    assert LOADER_LINE in fold(lowered.source) and unfold(fold(lowered.source)) == lowered.source
    evaluation = situation.base.evaluation
    base = replace(situation.base, candidate=lowered)
    analysis = team.analyst.analyse(situation.problem, lowered, evaluation, EmptyLedger())
    asked = replace(situation, base=base, analysis=analysis)
    choice = team.planner.plan(asked)
    assert choice is not None and choice.move.region is not None
    assert team.coder.write(asked, choice).source != lowered.source
    in_words = replace(asked, base=replace(base, candidate=BASE))
    assert BASE.plan != Plan() and team.planner.plan(in_words) is None


def test_a_team_counts_the_requests_that_a_kernel_takes() -> None:
    def needed(name: str, calls: CallMode, step: StepKind) -> int:
        team = find_team(name, ScriptedClient({}), calls=calls)
        return sum(team.calls.get(seat, 0) for seat in step.seats)

    plain, anchored = OneMove(), OneMove(wants_anchors=True)
    assert needed("llm", "merged", plain) == 1 and needed("llm", "separate", plain) == 2
    assert needed("llm", "merged", anchored) == needed("llm", "separate", anchored) == 2
    assert needed("expert+planner=llm", "merged", anchored) == 1, "the expert carries the plan out"
    assert needed("expert+coder=llm", "merged", anchored) == 1
    assert needed("expert+selector=llm", "merged", anchored) == 0
