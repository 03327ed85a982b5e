"""The expert team on a real graph: seeds, grounded moves, no repetition, repairs."""

from collections import defaultdict
from contextlib import suppress
from dataclasses import replace

import pytest

from kernelwright.agents.expert.analyst import ExpertAnalyst
from kernelwright.agents.expert.coder import ExpertCoder
from kernelwright.agents.expert.debugger import ExpertDebugger
from kernelwright.agents.expert.extend import GENERATE, extend, way_out
from kernelwright.agents.expert.generator import SEVERAL, ExpertGenerator
from kernelwright.agents.expert.plan_lowering import LIBRARY_MOVE, PlanLowering
from kernelwright.agents.expert.planner import ExpertPlanner
from kernelwright.agents.problem import Problem
from kernelwright.agents.roles import Choice, Node, Situation
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import LoweringError
from kernelwright.core.evaluation import Status
from kernelwright.core.learned import Finding
from kernelwright.core.machine import Machine
from kernelwright.core.plan import Move, Plan
from kernelwright.core.roofline import floor
from kernelwright.core.target import CPU_CPP
from kernelwright.core.task import Task, Workload
from kernelwright.ir import plan_lowering
from kernelwright.ir.plan_lowering import site_params, sites
from kernelwright.memory.ledger import Ledger
from kernelwright.skills.load import load_skills
from kernelwright.tasks.capture import capture_task
from kernelwright.tasks.work import count_work
from kernelwright.testing.fake_run import PEAKS, fake_evaluation

SOURCE = '''
import torch
from torch import nn

rows = 64

class Model(nn.Module):
    """Linear, then the sum over its features, then softmax over the rows."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(128, 256)

    def forward(self, x):
        return torch.softmax(self.linear(x).sum(dim=1), dim=0)

def get_inputs():
    return [torch.randn(rows, 128)]

def get_init_inputs():
    return []
'''
TASK = Task(
    name="linear_sum",
    source=SOURCE,
    workloads=(Workload(), Workload(name="wide", overrides={"rows": 96})),
)


@pytest.fixture(scope="module")
def problem() -> Problem:
    captured = {w.name: capture_task(TASK, w) for w in TASK.workloads}
    floors = {name: floor(count_work(c), PEAKS) for name, c in captured.items()}
    return Problem(TASK, CPU_CPP, captured, floors, PEAKS, Machine(cores=2))


@pytest.fixture
def workshop() -> PlanLowering:
    return PlanLowering(load_skills())


def candidate(problem: Problem, workshop: PlanLowering, plan: Plan) -> Candidate:
    return workshop.candidate(problem, plan, parents=(), role="generator")


def at(problem: Problem, workshop: PlanLowering, base: Candidate, verdict: float | Status = 1.5) -> Situation:
    """Return what a role is told of a base with that verdict, analysed when it is verified."""
    evaluation = fake_evaluation(base, TASK, verdict)
    is_verified = evaluation.is_verified
    analysis = ExpertAnalyst(workshop).analyse(problem, base, evaluation, Ledger()) if is_verified else None
    return Situation(problem, Node(base, evaluation, "base"), analysis)


def coder(workshop: PlanLowering) -> ExpertCoder:
    return ExpertCoder(workshop, ExpertPlanner(workshop), ExpertDebugger(workshop))


def test_seeds_go_from_library_calls_to_all_the_algebra(problem: Problem, workshop: PlanLowering) -> None:
    seeds = ExpertGenerator(workshop).seeds(Situation(problem), 3)
    assert seeds[0].plan.moves == (LIBRARY_MOVE,)
    assert "CPP_SOURCE" not in seeds[0].source and "CPP_SOURCE" in seeds[1].source
    assert any(move.skill.startswith("reassociate") for move in seeds[-1].plan.moves)


def test_a_seed_takes_convolutions_of_few_channels_from_the_library(workshop: PlanLowering) -> None:
    source = SOURCE.replace("nn.Linear(128, 256)", "nn.Conv2d(8, 8, 3, padding=1, groups=8)")
    source = source.replace("torch.softmax(self.linear(x).sum(dim=1), dim=0)", "self.linear(x)")
    task = Task(name="depthwise", source=source.replace("(rows, 128)", "(2, 8, rows, 40)"))
    captured = {"default": capture_task(task, task.workloads[0])}
    problem = Problem(task, CPU_CPP, captured, {}, PEAKS, Machine(cores=2))
    library, own = ExpertGenerator(workshop).seeds(Situation(problem), 2)
    assert library.plan.moves == (LIBRARY_MOVE,)
    assert [move.skill for move in own.plan.moves] == ["own-product"] and "CPP_SOURCE" in own.source


def test_where_convolutions_have_kernels_images_stay_as_they_come(workshop: PlanLowering) -> None:
    source = SOURCE.replace("nn.Linear(128, 256)", "nn.Conv2d(16, 16, 3, padding=1)")
    body = "torch.nn.functional.max_pool2d(self.linear(x), 2)"
    source = source.replace("torch.softmax(self.linear(x).sum(dim=1), dim=0)", body)
    task = Task(name="convolution", source=source.replace("(rows, 128)", "(2, 16, rows, 40)"))
    captured = {"default": capture_task(task, task.workloads[0])}
    problem = Problem(task, CPU_CPP, captured, {}, PEAKS, Machine(cores=2))
    *_, own = ExpertGenerator(workshop).seeds(Situation(problem), 3)
    skills = [move.skill for move in own.plan.moves]
    assert "own-product" in skills and "channels-last" not in skills
    assert "Winograd" in own.source


def test_images_laid_out_for_the_library_are_a_seed_beside_kernels_that_keep_them(
    workshop: PlanLowering,
) -> None:
    layers = [f"nn.Conv2d(64, 64, {size}, padding={size // 2}), nn.ReLU()" for size in (1, 3, 1)]
    source = SOURCE.replace("nn.Linear(128, 256)", f"nn.Sequential({', '.join(layers)})")
    source = source.replace("torch.softmax(self.linear(x).sum(dim=1), dim=0)", "self.linear(x)")
    task = Task(name="network", source=source.replace("(rows, 128)", "(2, 64, rows, 40)"))
    captured = {"default": capture_task(task, task.workloads[0])}
    problem = Problem(task, CPU_CPP, captured, {}, PEAKS, Machine(cores=2))
    _, laid_out, own = ExpertGenerator(workshop).seeds(Situation(problem), 3)
    assert {move.skill for move in laid_out.plan.moves} == {"channels-last"}
    assert {move.skill for move in own.plan.moves} == {"own-product"}


@pytest.mark.parametrize("n_layers", [2, 4])
def test_a_network_has_a_seed_with_code_for_every_product(workshop: PlanLowering, n_layers: int) -> None:
    layers = ", ".join(f"nn.Linear({128 + i}, {129 + i}), nn.Tanh()" for i in range(n_layers))
    source = SOURCE.replace("nn.Linear(128, 256)", f"nn.Sequential({layers})")
    source = source.replace("torch.softmax(self.linear(x).sum(dim=1), dim=0)", "self.linear(x)")
    task = Task(name="network", source=source)
    captured = {"default": capture_task(task, task.workloads[0])}
    problem = Problem(task, CPU_CPP, captured, {}, PEAKS, Machine(cores=2))
    *_, last = ExpertGenerator(workshop).seeds(Situation(problem, is_tuned=True), 4)
    n_own = sum(move.skill == "own-product" for move in last.plan.moves)
    assert n_own == (n_layers if n_layers >= SEVERAL else 0)


def test_a_kernel_that_calls_nothing_has_no_operations_in_library_calls(
    problem: Problem, workshop: PlanLowering
) -> None:
    base = ExpertGenerator(workshop).root(problem)
    evaluation = fake_evaluation(base, TASK, 1.5)
    for calls, share in ((None, 0.9), ({"aten::mm": 1}, 0.9), ({}, 0.0)):
        judged = evaluation.model_copy(update={"library_calls": calls})
        found = ExpertAnalyst(workshop).analyse(problem, base, judged, Ledger()).evidence
        value = found.get("graph.anchor_flops_fraction")
        assert isinstance(value, float) and (value >= share if share else value == 0)


def test_further_seeds_are_drawn_by_chance_and_all_differ(problem: Problem, workshop: PlanLowering) -> None:
    def ids(chance: int, count: int) -> list[str]:
        return [c.id for c in ExpertGenerator(workshop).seeds(Situation(problem, chance=chance), count)]

    seven = ids(1, 7)
    assert len(set(seven)) == 7 and seven[:3] == ids(2, 3)
    assert ids(1, 7) == seven != ids(2, 7)


def test_one_source_serves_every_workload(problem: Problem, workshop: PlanLowering) -> None:
    source = candidate(problem, workshop, Plan()).source
    assert "_forward_default" in source and "_forward_wide" in source


def test_the_same_plan_gives_the_same_candidate(problem: Problem, workshop: PlanLowering) -> None:
    again = PlanLowering(load_skills())
    assert candidate(problem, workshop, Plan()).id == candidate(problem, again, Plan()).id


def test_a_plan_s_source_does_not_depend_on_what_was_lowered_before(problem: Problem) -> None:
    fresh, used = PlanLowering(load_skills()), PlanLowering(load_skills())
    seed = ExpertGenerator(fresh).seeds(Situation(problem), 3)[-1]
    plan = seed.plan  # all the algebra
    for phase in ("schedule", "fusion", "schedule"):  # a cut comes before schedules, whenever it is asked for
        plan = plan.then(_move_of(fresh, problem, plan, phase))
    for n in range(len(plan.moves)):
        used.carried(problem, Plan(moves=plan.moves[:n]))
    once = PlanLowering(load_skills())
    assert candidate(problem, used, plan).source == candidate(problem, once, plan).source


def test_no_graph_is_lowered_to_find_out_which_rewrites_apply(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    fresh, lowered = PlanLowering(load_skills()), []
    monkeypatch.setattr(plan_lowering, "lower_family", lambda *given: lowered.append(given))
    assert ExpertGenerator(fresh).algebra(problem).moves and not lowered


def _move_of(workshop: PlanLowering, problem: Problem, plan: Plan, phase: str) -> Move:
    """Return the first move of a phase that has a place after a plan."""
    carried = workshop.carried(problem, plan)
    for skill, lowering in workshop.lowerings(problem).items():
        if lowering.startswith(f"{phase}:") and skill != LIBRARY_MOVE.skill:
            for site in sites(carried, lowering):
                for params in site_params(site):
                    move = Move(skill=skill, region=site.region, params=params)
                    with suppress(LoweringError):
                        workshop.carried(problem, plan.then(move))
                        return move
    raise AssertionError(f"no {phase} move has a place")


def test_an_unknown_skill_cannot_be_carried_out(problem: Problem, workshop: PlanLowering) -> None:
    with pytest.raises(LoweringError, match="no lowering"):
        candidate(problem, workshop, Plan(moves=(Move(skill="wishful-thinking"),)))


def test_a_coder_without_a_ranking_draws_among_the_moves_it_can_carry_out(
    problem: Problem, workshop: PlanLowering
) -> None:
    situation, writer = at(problem, workshop, candidate(problem, workshop, Plan())), coder(workshop)
    guided = {writer.rewrite(replace(situation, chance=n), 1)[0].id for n in range(6)}
    drawn = {writer.rewrite(replace(situation, chance=n, has_long_term=False), 1)[0].id for n in range(6)}
    assert len(guided) == 1 < len(drawn)


def test_the_planner_gives_reasons_and_never_a_tried_move(problem: Problem, workshop: PlanLowering) -> None:
    base = candidate(problem, workshop, Plan())
    situation = at(problem, workshop, base)
    assert situation.analysis is not None
    assert situation.analysis.ranked and situation.analysis.diagnosis.reasons
    chosen = []
    for _ in range(3):
        choice = ExpertPlanner(workshop).plan(situation)
        if choice is None:
            break
        assert choice.move.why
        chosen.append(choice.move.key)
        situation.memory.record_failed_move(base.id, choice.move, "scripted")
    assert chosen and len(set(chosen)) == len(chosen)


def test_values_that_admitted_findings_recommend_are_tried_before_others(
    problem: Problem, workshop: PlanLowering
) -> None:
    situation = at(problem, workshop, candidate(problem, workshop, Plan()))
    planner = ExpertPlanner(workshop)
    by_site: dict[tuple[str, str | None], list[Move]] = defaultdict(list)
    for move in planner.untried(situation):
        by_site[move.skill, move.region].append(move)
    (skill, region), moves = next(site for site in by_site.items() if len(site[1]) > 2)
    found = Finding(text="won", target="cpu/cpp", skill=skill, params=moves[-1].params, state="admitted")
    again = planner.untried(replace(situation, findings=(found,)))
    assert [m.params for m in again if (m.skill, m.region) == (skill, region)] == [
        moves[-1].params, *(move.params for move in moves[:-1])
    ]  # fmt: skip


def test_a_base_with_tuned_schedules_is_offered_what_changes_more(
    problem: Problem, workshop: PlanLowering
) -> None:
    situation = at(problem, workshop, candidate(problem, workshop, Plan()))

    def phases(situation: Situation) -> set[str]:
        moves = ExpertPlanner(workshop).untried(situation)
        return {workshop.lowering_of[move.skill].partition(":")[0] for move in moves}

    assert "schedule" in phases(situation) and len(phases(situation)) > 1
    assert phases(replace(situation, is_tuned=True)) == phases(situation) - {"schedule"}


def test_what_cheap_timings_choose_among_is_no_seed(problem: Problem, workshop: PlanLowering) -> None:
    generator = ExpertGenerator(workshop)
    fixed = (Plan(moves=(LIBRARY_MOVE,)), Plan(), generator.algebra(problem))
    seeds = generator.seeds(Situation(problem, is_tuned=True), 9)
    assert {seed.plan.id for seed in seeds} <= {plan.id for plan in fixed}


def test_a_base_that_is_behind_is_offered_what_promises_to_catch_up(
    problem: Problem, workshop: PlanLowering
) -> None:
    situation = at(problem, workshop, candidate(problem, workshop, Plan()))
    planner = ExpertPlanner(workshop)
    everything = planner.untried(situation)
    few, none = (planner.untried(replace(situation, needed=needed)) for needed in (1.3, 1e6))
    assert not none and 0 < len(few) < len(everything)
    assert [move for move in everything if move in few] == list(few), "in the same order"


def test_a_move_on_a_tuned_base_keeps_the_schedules_that_still_have_a_place(
    problem: Problem, workshop: PlanLowering
) -> None:
    lost = Move(skill="streaming-stores", region="no_such_region", params={"stream": True})
    situation = replace(at(problem, workshop, candidate(problem, workshop, Plan())), is_tuned=True)
    assert situation.base is not None
    tuned = situation.base.candidate.model_copy(update={"plan": Plan(moves=(lost,))})
    on_tuned = replace(situation, base=replace(situation.base, candidate=tuned))
    move = ExpertPlanner(workshop).untried(situation)[0]
    assert coder(workshop).write(on_tuned, Choice(move=move)).plan.moves == (move,)
    with pytest.raises(LoweringError):
        coder(workshop).write(replace(on_tuned, is_tuned=False), Choice(move=move))


def test_without_long_term_memory_moves_are_drawn_by_lot(problem: Problem, workshop: PlanLowering) -> None:
    informed = at(problem, workshop, candidate(problem, workshop, Plan()))
    planner = ExpertPlanner(workshop)
    best = [move.key for move in planner.untried(informed)]
    drawn = [
        [move.key for move in planner.untried(replace(informed, has_long_term=False, chance=chance))]
        for chance in range(8)
    ]
    assert all(sorted(order) == sorted(best) for order in drawn)
    assert len({tuple(order) for order in drawn}) > 1 or len(best) < 2
    choice = planner.plan(replace(informed, has_long_term=False, chance=3))
    assert choice is not None and choice.move.key == drawn[3][0]


def test_the_first_move_from_library_calls_is_to_generate_kernels(
    problem: Problem, workshop: PlanLowering
) -> None:
    situation = at(problem, workshop, ExpertGenerator(workshop).root(problem), 1.0)
    choice = ExpertPlanner(workshop).plan(situation)
    assert choice is not None and choice.move.skill == GENERATE
    assert "fused kernels" in choice.move.why
    child = coder(workshop).write(situation, choice)
    assert child.id == candidate(problem, workshop, Plan()).id
    assert situation.base is not None and child.parents == (situation.base.candidate.id,)
    assert GENERATE not in [m.skill for m in ExpertPlanner(workshop).untried(at(problem, workshop, child))]


def test_generated_code_keeps_the_rewrites_of_the_library_seed(
    problem: Problem, workshop: PlanLowering
) -> None:
    algebra = ExpertGenerator(workshop).seeds(Situation(problem), 3)[-1].plan
    on_library = Plan(moves=(LIBRARY_MOVE, *algebra.moves))
    assert extend(on_library, Move(skill=GENERATE)).id == algebra.id


def test_nothing_is_generated_where_every_operator_stays_a_call(workshop: PlanLowering) -> None:
    source = SOURCE.replace("torch.softmax(self.linear(x).sum(dim=1), dim=0)", "self.linear(x)")
    task = Task(name="linear", source=source)
    captured = {"default": capture_task(task, task.workloads[0])}
    problem = Problem(task, CPU_CPP, captured, {}, PEAKS, Machine())
    assert way_out(workshop, problem, Plan(moves=(LIBRARY_MOVE,))) is None


def test_a_rewrite_carries_out_the_best_moves_that_were_not_made(
    problem: Problem, workshop: PlanLowering
) -> None:
    situation = at(problem, workshop, candidate(problem, workshop, Plan()))
    first, second = coder(workshop).rewrite(situation, 2)
    assert first.plan.moves[-1].key != second.plan.moves[-1].key
    window = (Node(first, fake_evaluation(first, TASK, 1.0), "child"),)
    assert coder(workshop).rewrite(replace(situation, window=window), 1)[0].id == second.id


def test_a_rewrite_of_a_failing_base_is_a_repair(problem: Problem, workshop: PlanLowering) -> None:
    situation = at(problem, workshop, candidate(problem, workshop, Plan()), Status.INCORRECT_NUMERICS)
    repaired = coder(workshop).rewrite(situation, 2)
    assert len({c.id for c in repaired}) == 2
    assert {c.plan.moves[-1].skill for c in repaired} <= {"safer-chunk", "two-pass-moments", "leave-to-torch"}


def test_the_debugger_ends_at_code_that_torch_runs(problem: Problem, workshop: PlanLowering) -> None:
    failing = candidate(problem, workshop, Plan())
    debugger, tried = ExpertDebugger(workshop), list[str]()
    while (
        repaired := debugger.repair(at(problem, workshop, failing, Status.CRASHED), tuple(tried))
    ) is not None:
        failing, move = repaired
        tried.append(move.key)
        assert len(tried) < 20
    assert tried
    assert "extern" not in failing.source
