"""The expert Breeder: a diverse first population, archived plans at home here, blind steered crossover."""

from contextlib import suppress
from dataclasses import replace
from itertools import combinations

import pytest
from tests.agents.expert_problem import TASK, expert_problem

from kernelwright.agents.expert.aligner import ExpertAligner
from kernelwright.agents.expert.breeder import ExpertBreeder
from kernelwright.agents.expert.coder import ExpertCoder
from kernelwright.agents.expert.debugger import ExpertDebugger
from kernelwright.agents.expert.plan_lowering import LIBRARY_MOVE, PlanLowering
from kernelwright.agents.expert.planner import ExpertPlanner
from kernelwright.agents.problem import Problem
from kernelwright.agents.roles import Node, Situation
from kernelwright.agents.roofline_class import roofline_class
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import LoweringError
from kernelwright.core.learned import ArchivedPlan
from kernelwright.core.plan import Move, Plan
from kernelwright.core.roofline import floor
from kernelwright.skills.load import load_skills
from kernelwright.testing.fake_run import PEAKS, fake_evaluation

VANILLA = Plan(moves=(LIBRARY_MOVE,))


@pytest.fixture(scope="module")
def problem() -> Problem:
    return expert_problem()


@pytest.fixture(scope="module")
def workshop() -> PlanLowering:
    return PlanLowering(load_skills())


@pytest.fixture(scope="module")
def breeder(workshop: PlanLowering) -> ExpertBreeder:
    return ExpertBreeder(workshop, ExpertPlanner(workshop))


@pytest.fixture
def situation(problem: Problem) -> Situation:
    vanilla = Candidate(source="vanilla", plan=VANILLA)
    return Situation(problem=problem, base=Node(vanilla, fake_evaluation(vanilla, TASK, 1.0), "base"))


@pytest.fixture
def singles(breeder: ExpertBreeder, situation: Situation) -> list[Plan]:
    """Plans of one move each."""
    return [plan for plan in breeder.populate(situation, 20) if len(plan.moves) == 1]


def archived(*moves: Move) -> ArchivedPlan:
    return ArchivedPlan(
        task_id="other", task_name="other", target="cpu/cpp", plan=Plan(moves=moves),
        initial_source="i", best_source="b", speedup=3.0, run_id="r",
    )  # fmt: skip


def skills(plan: Plan) -> list[str]:
    return [move.skill for move in plan.moves]


def test_the_first_population_differs_and_can_be_carried_out(
    breeder: ExpertBreeder, situation: Situation, workshop: PlanLowering
) -> None:
    plans = breeder.populate(situation, 6)
    assert len(plans) == 6 and len({plan.id for plan in plans}) == 6
    assert VANILLA.id not in {plan.id for plan in plans} and Plan() in plans
    for plan in plans:
        workshop.carried(situation.problem, plan)


def test_single_moves_are_of_different_skills_first(singles: list[Plan]) -> None:
    first = [plan.moves[0].skill for plan in singles[:4]]
    assert len(set(first)) == len(first)


def test_an_archived_plan_finds_its_places_here(breeder: ExpertBreeder, situation: Situation) -> None:
    strange = Move(skill="reassociate-reduction", region="somewhere_else")
    nowhere = Move(skill="diagonal-matmul", region="nowhere")
    plan = breeder.populate(replace(situation, archive=(archived(strange, nowhere),)), 6)[0]
    assert skills(plan) == ["reassociate-reduction"]
    assert plan.moves[0].region != "somewhere_else" and "archived" in plan.moves[0].why


def test_archived_plans_take_half_of_the_places_at_most(breeder: ExpertBreeder, situation: Situation) -> None:
    names = ["reassociate-reduction", "vector-width", "unroll-accumulators", "thread-count", "keep-call"]
    archive = tuple(archived(Move(skill=name)) for name in names)
    plans = breeder.populate(replace(situation, archive=archive), 4)
    taken = [plan for plan in plans if plan.moves and plan.moves[0].why.startswith("archived")]
    assert len(plans) == 4 and len(taken) == 2


def test_a_later_epoch_extends_the_best_plan(
    breeder: ExpertBreeder, situation: Situation, singles: list[Plan]
) -> None:
    best = Candidate(source="best", plan=singles[0])
    node = Node(best, fake_evaluation(best, TASK, 2.0), "base")
    plans = breeder.populate(replace(situation, base=node), 4)
    assert plans and all(plan.moves[:-1] == singles[0].moves for plan in plans)


def going_together(workshop: PlanLowering, situation: Situation, singles: list[Plan]) -> tuple[Plan, Plan]:
    """Return the first two plans whose moves can both be carried out, one after the other."""
    for first, second in combinations(singles, 2):
        with suppress(LoweringError):
            workshop.carried(situation.problem, first.then(second.moves[0]))
            return first, second
    raise AssertionError("no two moves go together")


def test_a_child_has_moves_of_both_and_repeats_neither(
    breeder: ExpertBreeder, situation: Situation, singles: list[Plan], workshop: PlanLowering
) -> None:
    first, second = going_together(workshop, situation, singles)
    blind = replace(situation, base=None)
    children = [breeder.cross(replace(blind, chance=n), first, second) for n in range(12)]
    born = [child for child in children if child is not None]
    assert born and all(child.id not in {first.id, second.id} for child in born)
    both = {skills(first)[0], skills(second)[0]}
    assert any(both <= set(skills(child)) for child in born)


def test_crossing_is_deterministic_and_chance_varies_it(
    breeder: ExpertBreeder, situation: Situation, singles: list[Plan]
) -> None:
    first, second = Plan(moves=singles[0].moves + singles[2].moves), Plan(moves=singles[1].moves)
    draws = [breeder.cross(replace(situation, base=None, chance=n), first, second) for n in range(10)]
    again = [breeder.cross(replace(situation, base=None, chance=n), first, second) for n in range(10)]
    assert draws == again and len({plan.id for plan in draws if plan}) > 1


def test_plans_of_the_window_are_not_made_again(
    breeder: ExpertBreeder, situation: Situation, singles: list[Plan]
) -> None:
    candidates = [Candidate(source="", plan=plan) for plan in (Plan(), *singles[:3])]
    window = tuple(Node(c, fake_evaluation(c, TASK, 1.0), "member") for c in candidates)
    known = {c.plan.id for c in candidates}
    later = breeder.populate(replace(situation, window=window), 4)
    assert later and known.isdisjoint(plan.id for plan in later)
    child = breeder.cross(replace(situation, base=None, window=window), singles[0], Plan())
    assert child is not None and child.id not in known


def test_common_moves_are_inherited(
    breeder: ExpertBreeder, situation: Situation, singles: list[Plan], workshop: PlanLowering
) -> None:
    shared = singles[0]
    first, second = Plan(moves=shared.moves + singles[1].moves), Plan(moves=shared.moves + singles[2].moves)
    for n in range(8):
        child = breeder.cross(replace(situation, base=None, chance=n), first, second)
        assert child is None or shared.moves[0] in child.moves


def test_the_vanilla_move_is_never_inherited(
    breeder: ExpertBreeder, situation: Situation, singles: list[Plan]
) -> None:
    children = [breeder.cross(replace(situation, base=None, chance=n), VANILLA, singles[0]) for n in range(5)]
    assert any(children), "a mutation makes the child differ"
    assert all(LIBRARY_MOVE not in child.moves for child in children if child)


def test_the_roofline_class_follows_the_ridge(problem: Problem) -> None:
    fast_arithmetic = replace_peaks(problem, fma_gflops=1e6)
    slow_arithmetic = replace_peaks(problem, fma_gflops=0.01)
    assert roofline_class(fast_arithmetic) == "memory" and roofline_class(slow_arithmetic) == "compute"
    assert roofline_class(replace(problem, floors={})) == "middle"


def replace_peaks(problem: Problem, fma_gflops: float) -> Problem:
    peaks = PEAKS.model_copy(update={"fma_gflops": fma_gflops})
    floors = {name: floor(f.work, peaks) for name, f in problem.floors.items()}
    return replace(problem, peaks=peaks, floors=floors)


def test_a_bred_plan_is_translated_for_every_workload_and_aligned(
    breeder: ExpertBreeder, situation: Situation, singles: list[Plan], workshop: PlanLowering
) -> None:
    coder = ExpertCoder(workshop, ExpertPlanner(workshop), ExpertDebugger(workshop))
    lost = Move(skill="vector-width", region="nowhere")
    candidate = coder.translate(situation, Plan(moves=(*singles[0].moves, lost)))
    assert "_forward_wide" in candidate.source
    assert ExpertAligner().align(situation, candidate) == singles[0], "what could not be carried out is gone"


def test_recalled_plans_are_fitted_different_and_no_seed_s(
    breeder: ExpertBreeder, situation: Situation
) -> None:
    names = ["reassociate-reduction", "diagonal-matmul", "reassociate-reduction", "keep-call"]
    archive = tuple(archived(Move(skill=name, region="elsewhere")) for name in names)
    first, second = breeder.recall(replace(situation, archive=archive), 5)
    assert skills(first) == ["reassociate-reduction"] and set(skills(second)) == {"keep-call"}
    assert first.moves[0].region != "elsewhere"
    seed = Node(
        Candidate(source="seed", plan=first), fake_evaluation(Candidate(source="seed"), TASK, 2.0), "member"
    )
    assert breeder.recall(replace(situation, archive=archive, window=(seed,)), 5) == (second,)
    assert breeder.recall(situation, 5) == ()
