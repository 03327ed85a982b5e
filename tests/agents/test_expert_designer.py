"""The expert Designer: grounded, different, rated experiments; on timings alone without any profile."""

from dataclasses import replace

import pytest
from tests.agents.expert_problem import TASK, expert_problem

from kernelwright.agents.expert.designer import ExpertDesigner
from kernelwright.agents.expert.plan_lowering import PlanLowering
from kernelwright.agents.expert.planner import ExpertPlanner
from kernelwright.agents.expert.static_facts import static_analysis
from kernelwright.agents.problem import Problem
from kernelwright.agents.roles import Analysis, Node, Situation
from kernelwright.core.candidate import Candidate
from kernelwright.core.plan import Plan
from kernelwright.core.run import Outcome
from kernelwright.memory.ledger import Ledger
from kernelwright.memory.short_term import ShortTermMemory
from kernelwright.skills.load import load_skills
from kernelwright.testing.fake_run import fake_evaluation


@pytest.fixture(scope="module")
def problem() -> Problem:
    return expert_problem()


@pytest.fixture(scope="module")
def workshop() -> PlanLowering:
    return PlanLowering(load_skills())


@pytest.fixture(scope="module")
def designer(workshop: PlanLowering) -> ExpertDesigner:
    return ExpertDesigner(workshop, ExpertPlanner(workshop))


@pytest.fixture
def situation(problem: Problem) -> Situation:
    base = Candidate(source="fused", plan=Plan())
    node = Node(base, fake_evaluation(base, TASK, 1.5), "base")
    return Situation(problem=problem, base=node, timings_only=True)


def outcome(skill: str, n: int, log_speedup: float) -> Outcome:
    return Outcome(
        skill=skill, target="cpu/cpp", structure="anchor_chain", bottleneck="compute", task_id=f"t{n}",
        run_id="r", move_key=f"{n}", verified=True, log_speedup=log_speedup,
    )  # fmt: skip


def test_static_facts_hold_nothing_that_was_measured_on_a_candidate(
    problem: Problem, workshop: PlanLowering
) -> None:
    analysis = static_analysis(workshop, problem, Plan(), Ledger())
    assert analysis.ranked
    known = [name for name, value in analysis.evidence.facts.items() if value is not None]
    measured = [name for name in known if name.split(".")[0] in ("run", "compiler", "counters")]
    assert measured == []
    assert analysis.evidence.facts["graph.n_matmuls"] == 1


def test_experiments_are_of_different_skills_and_sensibly_rated(
    designer: ExpertDesigner, situation: Situation
) -> None:
    design = designer.design(situation, 10, 5)
    assert 0 < len(design.experiments) <= 5 and 0 < len(design.avenues) <= 10
    skills = [e.move.skill for e in design.experiments]
    apart = len(set(skills))
    assert len(set(skills[:apart])) == apart > 2, "no skill comes twice before each has come once"
    assert all(e.move.why for e in design.experiments)
    for e in design.experiments:
        assert e.gain_low < e.gain_high < 1 and 0 < e.innovation <= 1
        assert any(avenue.startswith(f"{e.move.skill}: ") for avenue in design.avenues)


def test_an_analytic_gain_shows_in_the_rating(designer: ExpertDesigner, situation: Situation) -> None:
    rated = {e.move.skill: e for e in designer.design(situation, 10, 99).experiments}
    best = max(rated.values(), key=lambda e: e.gain_high)
    assert best.move.skill == "reassociate-reduction", "the sum makes most of the product superfluous"


def test_timings_alone_forbid_an_analysis_that_someone_passed(
    designer: ExpertDesigner, situation: Situation
) -> None:
    profiled = static_analysis(PlanLowering(load_skills()), situation.problem, Plan(), Ledger())
    empty = Analysis(profiled.evidence, profiled.diagnosis, ranked=())
    assert designer.design(replace(situation, analysis=empty), 10, 5).experiments
    allowed = replace(situation, analysis=empty, timings_only=False)
    assert designer.design(allowed, 10, 5).experiments == ()


def test_what_was_tried_on_the_base_does_not_come_back(
    designer: ExpertDesigner, situation: Situation
) -> None:
    memory, seen = ShortTermMemory(), []
    assert situation.base is not None
    for _ in range(3):
        design = designer.design(replace(situation, memory=memory), 10, 5)
        for experiment in design.experiments:
            seen.append(experiment.move.key)
            memory.record_failed_move(situation.base.candidate.id, experiment.move, "scripted")
    assert len(seen) > 5 and len(set(seen)) == len(seen)


def test_the_ledger_makes_a_skill_routine_and_its_gain_known(
    designer: ExpertDesigner, situation: Situation
) -> None:
    before = designer.design(situation, 10, 99).experiments[1]
    skill = before.move.skill
    ledger = Ledger(outcome(skill, n, -0.5) for n in range(12))
    rated = designer.design(replace(situation, ledger=ledger), 10, 99).experiments
    after = next(e for e in rated if e.move.key == before.move.key)
    assert after.innovation < before.innovation and after.gain_high < before.gain_high
    assert after.gain_low < 0, "a slow-down is announced as one"


def test_without_a_base_there_is_nothing_to_design(designer: ExpertDesigner, situation: Situation) -> None:
    assert designer.design(replace(situation, base=None), 10, 5).experiments == ()
