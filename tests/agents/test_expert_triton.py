"""The expert team on a GPU's target: the same roles, Triton candidates, nothing that belongs to the CPU."""

import ast
from dataclasses import replace

import pytest
from tests.agents.expert_problem import TASK, expert_problem

from kernelwright.agents.expert import expert_team
from kernelwright.agents.expert.analyst import ExpertAnalyst
from kernelwright.agents.expert.generator import ExpertGenerator
from kernelwright.agents.expert.plan_lowering import PlanLowering
from kernelwright.agents.expert.static_facts import static_analysis
from kernelwright.agents.problem import Problem
from kernelwright.agents.roles import Situation
from kernelwright.agents.signature import task_signature
from kernelwright.core.errors import LoweringError
from kernelwright.core.evidence import Bottleneck
from kernelwright.core.plan import Move, Plan
from kernelwright.core.target import TargetName
from kernelwright.core.task import TolerancePolicy
from kernelwright.ir.plan_lowering import known_lowerings, sites
from kernelwright.memory.ledger import Ledger
from kernelwright.skills.load import load_skills
from kernelwright.skills.stats import EmptyLedger
from kernelwright.targets.cpp.lowering import LOWERING as CPP
from kernelwright.targets.gpu.inspect.inspection import (
    Inspection,
    InspectionStatus,
    KernelOutcome,
    KernelReport,
)
from kernelwright.targets.triton.lowering import CPU_REWRITES
from kernelwright.targets.triton.lowering import LOWERING as TRITON
from kernelwright.testing.fake_run import fake_evaluation


@pytest.fixture(scope="module")
def problem() -> Problem:
    return replace(expert_problem(), target=TargetName.parse("cuda/triton"))


@pytest.fixture(scope="module")
def workshop() -> PlanLowering:
    return PlanLowering(load_skills())


def loose(problem: Problem, tolerance: TolerancePolicy) -> Problem:
    return replace(problem, task=TASK.model_copy(update={"tolerance": tolerance}))


def test_seeds_are_triton_files_for_the_target(problem: Problem, workshop: PlanLowering) -> None:
    root = ExpertGenerator(workshop).root(problem)
    seed = workshop.candidate(problem, Plan(), parents=(), role="generator")
    for candidate in (root, seed):
        ast.parse(candidate.source)
        assert str(candidate.target) == "cuda/triton" and "CPP_SOURCE" not in candidate.source
    assert "@triton.jit" in seed.source and "@triton.jit" not in root.source


def test_the_menu_holds_triton_s_edits_and_algebra_only(problem: Problem, workshop: PlanLowering) -> None:
    offered = set(workshop.lowerings(problem).values())
    assert offered <= known_lowerings(TRITON)
    assert {"schedule:triton-warps", "schedule:triton-online", "rewrite:reduce_linear"} <= offered
    assert not {f"rewrite:{name}" for name in CPU_REWRITES} & offered
    cpu = workshop.lowerings(replace(problem, target=expert_problem().target))
    assert set(cpu.values()) | {"fusion:library"} == known_lowerings(CPP)


def test_precision_is_offered_where_the_tolerance_allows_it(problem: Problem, workshop: PlanLowering) -> None:
    for tolerance, is_offered in (("strict", False), ("kernelbench", False), ("tf32", True), ("bf16", True)):
        lowerings = workshop.lowerings(loose(problem, TolerancePolicy(tolerance)))
        assert ("schedule:triton-precision" in lowerings.values()) is is_offered


def test_what_belongs_to_the_cpu_s_library_has_no_place_and_cannot_be_carried_out(
    problem: Problem, workshop: PlanLowering
) -> None:
    carried = workshop.carried(problem, Plan())
    assert sites(carried, "rewrite:onednn_matmul") == () and sites(carried, "schedule:unroll") == ()
    with pytest.raises(LoweringError, match="no lowering named 'rewrite:onednn_matmul'"):
        workshop.carried(problem, Plan(moves=(Move(skill="onednn-matmul", region="linear", why=""),)))


def test_ranked_skills_become_moves_that_change_the_source(problem: Problem, workshop: PlanLowering) -> None:
    analysis = static_analysis(workshop, problem, Plan(), EmptyLedger())
    assert analysis.evidence.get("task.tolerance") == "strict"
    ranked = {entry.skill for entry in analysis.ranked}
    lowerings = {n: low for n, low in workshop.lowerings(problem).items() if n in ranked}
    carried = workshop.carried(problem, Plan())
    seed = workshop.candidate(problem, Plan(), parents=(), role="generator")
    changed = set()
    for skill, lowering in lowerings.items():
        for site in sites(carried, lowering)[:1]:
            params = {name: values[0] for name, values in site.params.items()}
            move = Move(skill=skill, region=site.region, params=params, why=site.why)
            candidate = workshop.candidate(problem, Plan(moves=(move,)), parents=(), role="coder")
            assert candidate.source != seed.source, skill
            changed.add(lowering.partition(":")[0])
    assert {"rewrite", "schedule"} <= changed


def test_a_signature_needs_no_c_plus_plus(problem: Problem) -> None:
    assert task_signature(problem) == task_signature(replace(problem, target=expert_problem().target))


def test_a_language_that_nobody_here_writes_is_read_and_not_written(
    problem: Problem, workshop: PlanLowering
) -> None:
    cuda = replace(problem, target=TargetName(device="cuda", language="cuda"))
    root = ExpertGenerator(workshop).root(cuda)
    assert "ModelNew" in root.source and "triton" not in root.source, "torch's calls alone"
    seeds = ExpertGenerator(workshop).seeds(Situation(cuda), 3)
    assert [seed.source for seed in seeds] == [root.source]
    with pytest.raises(LoweringError, match="writes no kernels for 'cuda/cuda'"):
        workshop.candidate(cuda, Plan(), parents=(), role="coder")
    offered = workshop.lowerings(cuda).values()
    assert not [lowering for lowering in offered if lowering.startswith("schedule:")]
    assert task_signature(cuda) == task_signature(problem) != {}
    evaluation = fake_evaluation(root, TASK, 1.5)
    analysis = ExpertAnalyst(workshop).analyse(cuda, root, evaluation, Ledger())
    assert "cuda/cuda" in workshop.skills[analysis.ranked[0].skill].targets


def test_the_whole_team_can_be_seated() -> None:
    assert expert_team(load_skills()).name == "expert"


def test_what_compilers_said_of_the_base_reaches_the_diagnosis(
    problem: Problem, workshop: PlanLowering
) -> None:
    kernel = KernelReport(
        kernel="r_sum_kernel",
        outcome=KernelOutcome.SPILLS,
        launches=1,
        facts={"aot.spills": 40, "aot.occupancy": 0.25, "aot.occupancy_limit": "registers", "gpu.waves": 0.1},
    )
    status = InspectionStatus.INSPECTED
    found = Inspection(architecture="sm_90", device="h100-sxm", status=status, kernels=(kernel,))
    base = workshop.candidate(problem, Plan(), parents=(), role="generator")
    evaluation = fake_evaluation(base, TASK, 1.5).model_copy(update={"facts": found.facts()})
    analysis = ExpertAnalyst(workshop).analyse(problem, base, evaluation, Ledger())
    diagnosis = analysis.diagnosis
    assert {Bottleneck.COMPUTE, Bottleneck.PARALLELISM} <= {diagnosis.bottleneck, *diagnosis.also}
    assert "gpu.waves" in {reason.metric for reason in diagnosis.reasons}
    assert analysis.evidence.get("aot.spills") == 40
    offered = workshop.lowerings(problem)
    assert [entry.skill for entry in analysis.ranked[:12] if entry.skill in offered]
