"""Generator, Analyst, Selector, Designer, Breeder and Aligner played by a model."""

from dataclasses import replace
from typing import Literal

import pytest
from tests.agents.llm.conftest import (
    BASE,
    BROKEN,
    KERNEL,
    REFERENCE,
    SIBLING,
    TASK,
    failing_evaluation,
    on_gpu,
)

from kernelwright.agents.expert.applicable import acting_skills
from kernelwright.agents.expert.plan_lowering import PlanLowering
from kernelwright.agents.llm.aligner import ModelAligner
from kernelwright.agents.llm.analyst import MeasuringAnalyst, ModelAnalyst
from kernelwright.agents.llm.asking import Asker
from kernelwright.agents.llm.breeder import ModelBreeder
from kernelwright.agents.llm.coder import ModelCoder
from kernelwright.agents.llm.designer import ModelDesigner
from kernelwright.agents.llm.generator import ModelGenerator
from kernelwright.agents.llm.proposals import REPAIR
from kernelwright.agents.llm.selector import ModelSelector
from kernelwright.agents.llm.sources import fold, with_approach
from kernelwright.agents.problem import Problem
from kernelwright.agents.roles import Analysis, Analyst, Choice, Node, Situation
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import LoweringError, UnusableAnswer
from kernelwright.core.evaluation import Evaluation
from kernelwright.core.evidence import METRICS, Evidence, FactValue
from kernelwright.core.model_call import CallOutcome
from kernelwright.core.plan import Move, Plan
from kernelwright.core.roofline import Floor, Work
from kernelwright.core.skill import ANY_KERNEL, Predicate, Signal, Skill
from kernelwright.core.target import TargetName
from kernelwright.skills.stats import LedgerView
from kernelwright.targets.registry import all_targets
from kernelwright.testing.fake_run import PEAKS, ScriptedTeam, fake_evaluation
from kernelwright.testing.scripted_client import Answer, ScriptedClient

WIDEN = {"moves": [{"skill": "free", "why": "w", "steps": ["widen"]}]}
EXPERT = ScriptedTeam(["expert's root"], []).team()


def asker(role: str, skills: dict[str, Skill], *answers: Answer) -> tuple[Asker, ScriptedClient]:
    client = ScriptedClient({role: list(answers)})
    return Asker(client, role, skills), client


def code(source: str) -> str:
    return f"Approach: plain\n```python\n{fold(source)}```"


# -- Generator -------------------------------------------------------------------------------------


def test_the_root_is_the_reference_renamed(situation: Situation, skills: dict[str, Skill]) -> None:
    generator = ModelGenerator(asker("generator", skills)[0], EXPERT.generator)
    root = generator.root(situation.problem)
    assert root.source == REFERENCE.replace("class Model(", "class ModelNew(") and root.plan == Plan()


def test_the_root_of_a_live_module_is_the_experts(situation: Situation, skills: dict[str, Skill]) -> None:
    task = situation.problem.task.model_copy(update={"artifact": "module.pkl"})
    generator = ModelGenerator(asker("generator", skills)[0], EXPERT.generator)
    assert generator.root(replace(situation.problem, task=task)).source == "expert's root"


def test_each_seed_is_one_call_with_another_approach(situation: Situation, skills: dict[str, Skill]) -> None:
    one, client = asker("generator", skills, code(KERNEL), "no", "no", code(KERNEL + "OTHER = 1\n"))
    seeds = ModelGenerator(one, EXPERT.generator).seeds(replace(situation, base=None, analysis=None), 3)
    assert [seed.source for seed in seeds] == [
        with_approach(source, "plain") for source in (KERNEL, KERNEL + "OTHER = 1\n")
    ]
    assert all(seed.role == "generator" for seed in seeds)
    assert "kernel 1 of 3" in client.asked[0].user and "the plain way" in client.asked[0].user
    assert "algebra first" in client.asked[3].user
    assert "Kernel 1, written already" not in client.asked[0].user
    assert "Kernel 1, written already and not yet judged" in client.asked[3].user


def test_seeds_may_come_several_in_an_answer(situation: Situation, skills: dict[str, Skill]) -> None:
    both = code(KERNEL) + "\n" + code(KERNEL + "OTHER = 1\n")
    client = ScriptedClient({"generator": [both, code(KERNEL + "OTHER = 2\n")]})
    generator = ModelGenerator(Asker(client, "generator", skills, kernels=2), EXPERT.generator)
    seeds = generator.seeds(replace(situation, base=None, analysis=None), 3)
    assert [seed.call for seed in seeds] == ["call 1", "call 1", "call 2"]
    assert "Write kernels 1 to 2 of 3" in client.asked[0].user
    assert "the plain way" in client.asked[0].user and "fuse" in client.asked[0].user
    assert "Kernel 2, written already" in client.asked[1].user and len(client.asked) == 2


def test_independent_seeds_are_told_of_no_other(situation: Situation, skills: dict[str, Skill]) -> None:
    client = ScriptedClient({"generator": [code(KERNEL), code(KERNEL + "OTHER = 1\n")]})
    generator = ModelGenerator(Asker(client, "generator", skills, kernels=2), EXPERT.generator)
    alone = replace(situation, base=None, analysis=None, run=(), is_independent=True)
    assert len(generator.seeds(alone, 2)) == 2
    assert len(client.early) == 2, "nothing in the second question hangs on the first answer"
    assert all("written already" not in asked.user and "differ" not in asked.user for asked in client.asked)


def test_without_one_usable_seed_the_outcome_is_named(situation: Situation, skills: dict[str, Skill]) -> None:
    one, _ = asker("generator", skills, "I cannot help with that.")
    with pytest.raises(UnusableAnswer, match=r"^refused"):
        ModelGenerator(one, EXPERT.generator).seeds(situation, 2)


# -- Analyst ---------------------------------------------------------------------------------------


class Gate:
    """An Analyst by script; refuses plans in words as the expert's lowering does."""

    def __init__(self, analysis: Analysis) -> None:
        self.analysis = analysis

    def analyse(
        self, problem: Problem, base: Candidate, evaluation: Evaluation, ledger: LedgerView
    ) -> Analysis:
        if any(move.text for move in base.plan.moves):
            raise LoweringError("no lowering")
        return self.analysis


def read_by_a_skill(skills: dict[str, Skill], feature: str) -> dict[str, Skill]:
    """Return the skills with one that decides by a feature of the source."""
    name, skill = next(iter(skills.items()))
    signal = Signal(when=Predicate(metric=f"code.{feature}", op="known"))
    targets = (*skill.targets, "cpu/cpp", "cuda/triton")
    return {
        **skills,
        name: skill.model_copy(update={"signals": (signal,), "targets": targets, "acts_on": ANY_KERNEL}),
    }


PRINTED = Candidate(source='"""t: a drop-in for the reference ``Model``, as ``ModelNew``."""\n')


def analysed(situation: Situation, analyst: Analyst, base: Candidate) -> Analysis:
    assert situation.base is not None
    return analyst.analyse(situation.problem, base, situation.base.evaluation, situation.ledger)


def test_features_widen_the_evidence_and_reach_the_predicates_of_skills(
    situation: Situation, skills: dict[str, Skill]
) -> None:
    assert situation.analysis is not None
    features = {"passes_over_memory": 2, "is_parallel": True, "bottleneck": "library"}
    reading = read_by_a_skill(skills, "passes_over_memory")
    one, client = asker("analyst", reading, features)
    analyst = ModelAnalyst(one, Gate(situation.analysis))
    for _ in range(2):
        found = analysed(situation, analyst, PRINTED)
    assert found.evidence.get("code.passes_over_memory") == 2
    assert found.evidence.get("code.has_reuse") is None
    assert found.diagnosis == situation.analysis.diagnosis
    assert any("code.passes_over_memory" in reason for entry in found.ranked for reason in entry.reasons)
    assert len(client.asked) == 1


def test_features_that_no_skill_decides_by_are_not_asked_for(
    situation: Situation, skills: dict[str, Skill]
) -> None:
    assert situation.analysis is not None
    one, client = asker("analyst", skills, {"passes_over_memory": 2})
    found = analysed(situation, ModelAnalyst(one, Gate(situation.analysis)), PRINTED)
    assert found == situation.analysis and client.asked == []


def test_on_a_gpu_other_features_are_read(situation: Situation, skills: dict[str, Skill]) -> None:
    there = on_gpu(situation, TargetName(device="cuda", language="triton"))
    assert there.analysis is not None
    features = {"n_kernels": 2, "is_coalesced": False, "is_vectorisable": True}
    one, _ = asker("analyst", read_by_a_skill(skills, "n_kernels"), features)
    found = analysed(there, ModelAnalyst(one, Gate(there.analysis)), PRINTED)
    assert (found.evidence.get("code.n_kernels"), found.evidence.get("code.is_coalesced")) == (2, False)
    assert found.evidence.get("code.is_vectorisable") is None


def test_seeds_on_a_gpu_are_asked_for_in_its_own_words(
    situation: Situation, skills: dict[str, Skill]
) -> None:
    there = on_gpu(situation, TargetName(device="cuda", language="triton"))
    assert there.base is not None
    kernel = there.base.candidate.source
    one, client = asker("generator", skills, *(code(f"{kernel}OTHER = {n}\n") for n in range(4)))
    seeds = ModelGenerator(one, EXPERT.generator).seeds(replace(there, base=None), 4)
    assert {str(seed.target) for seed in seeds} == {"cuda/triton"} and len(seeds) == 4
    asked = " ".join(question.user for question in client.asked)
    assert "parallel loop" not in asked and "blocked for the caches" not in asked and "shared memory" in asked


def test_an_unusable_reading_leaves_the_measurements(situation: Situation, skills: dict[str, Skill]) -> None:
    assert situation.analysis is not None
    read = read_by_a_skill(skills, "has_reuse")
    analyst = ModelAnalyst(asker("analyst", read, "prose")[0], Gate(situation.analysis))
    assert analysed(situation, analyst, PRINTED) == situation.analysis


@pytest.mark.parametrize("base", [BASE, BASE.model_copy(update={"plan": Plan()})])
def test_a_model_s_source_is_analysed_without_the_facts_of_a_lowered_program(
    base: Candidate, situation: Situation, skills: dict[str, Skill]
) -> None:
    assert situation.analysis is not None
    facts: dict[str, FactValue] = {
        "graph.structure": "reduction",
        "run.floor_fraction": 0.05,
        "program.n_regions": 3,
    }
    analysis = replace(situation.analysis, evidence=situation.analysis.evidence.with_facts(facts))
    analyst = MeasuringAnalyst(Gate(analysis), skills)
    found = analysed(situation, analyst, base)
    acting = acting_skills(PlanLowering(skills), situation.problem, Plan())
    assert acting and {entry.skill for entry in found.ranked} <= set(acting)
    assert found.evidence.get("program.n_regions") is None
    assert found.evidence.get("run.floor_fraction") == 0.05 and found.ranked
    assert analysed(situation, analyst, PRINTED) == analysis


# -- Selector --------------------------------------------------------------------------------------


@pytest.fixture
def population(situation: Situation) -> Situation:
    assert situation.base is not None
    window = (situation.base, *situation.window, Node(BROKEN, failing_evaluation(), "member"))
    return replace(situation, window=window, timings_only=True)


def test_the_pick_is_among_verified_members(population: Situation, skills: dict[str, Skill]) -> None:
    wrong = {"base": BROKEN.id, "reference": BASE.id, "why": "x"}
    same = {"base": BASE.id, "reference": BASE.id, "why": "x"}
    right = {"base": BASE.id, "reference": SIBLING.id, "why": "4 ms against 6.25 ms"}
    one, client = asker("selector", skills, wrong, right)
    pick = ModelSelector(one).select(population)
    assert pick is not None and (pick.base, pick.reference) == (BASE.id, SIBLING.id)
    assert BROKEN.id in client.notes[0].detail and "| incorrect_numerics | - |" in client.asked[0].user
    with pytest.raises(UnusableAnswer, match="the same kernel"):
        ModelSelector(asker("selector", skills, same)[0]).select(population)


def test_nothing_to_choose_takes_no_call(population: Situation, skills: dict[str, Skill]) -> None:
    one, client = asker("selector", skills)
    alone = ModelSelector(one).select(replace(population, window=population.window[:1]))
    assert alone is not None and alone.base == alone.reference == BASE.id
    assert ModelSelector(one).select(replace(population, window=population.window[2:])) is None
    assert client.asked == []


# -- Designer --------------------------------------------------------------------------------------

RATED: dict[str, object] = {
    "skill": "free", "why": "w", "steps": ["widen"], "gain_low": 0.3, "gain_high": 0.1, "innovation": 0.5,
}  # fmt: skip


def test_the_designer_knows_literature_where_nothing_is_measured(
    population: Situation, skills: dict[str, Skill]
) -> None:
    known = {**RATED, "skill": "unroll-accumulators"}
    one, client = asker("designer", skills, {"avenues": [], "experiments": [known]})
    design = ModelDesigner(one).design(population, 5, 2)
    assert [experiment.move.skill for experiment in design.experiments] == ["unroll-accumulators"]
    asked = client.asked[0].user
    assert f"- `unroll-accumulators`: {skills['unroll-accumulators'].summary}" in asked
    assert "score" not in asked and "Ledger" not in asked
    writer, told = asker("coder", skills, "1 -> `relu_sum`: done\n" + code(KERNEL + "OTHER = 1\n"))
    ModelCoder(writer).write(population, Choice(design.experiments[0].move))
    assert "## Skill `unroll-accumulators`" in told.asked[0].user, "the text of what is to be carried out"
    without = replace(population, has_long_term=False)
    one, client = asker("designer", skills, {"avenues": [], "experiments": [RATED]})
    assert ModelDesigner(one).design(without, 5, 2).experiments
    assert "literature" not in client.asked[0].user


def test_a_design_is_cut_to_size_and_cleaned(population: Situation, skills: dict[str, Skill]) -> None:
    steps = [["a"], ["a"], ["b"], ["c"]]
    proposals = [{**RATED, "steps": s, "differs": "new"} for s in steps]
    proposals.insert(0, {**RATED, "skill": "tensor-cores"})
    one, client = asker("designer", skills, {"avenues": list("abcdefgh"), "experiments": proposals})
    design = ModelDesigner(one).design(population, 5, 2)
    assert design.avenues == tuple("abcde")
    assert [e.move.text for e in design.experiments] == ["1. a", "1. b"]
    assert (design.experiments[0].gain_low, design.experiments[0].gain_high) == (0.1, 0.3)
    assert "First 5 avenues" in client.asked[0].system and "Then 2 experiments" in client.asked[0].system


def test_a_design_without_one_usable_experiment_is_refused(
    population: Situation, skills: dict[str, Skill]
) -> None:
    one, client = asker("designer", skills, {"avenues": [], "experiments": []})
    with pytest.raises(UnusableAnswer, match="no experiment"):
        ModelDesigner(one).design(population, 10, 5)
    assert [note.outcome for note in client.notes] == [CallOutcome.INVALID_OUTPUT] * 2


# -- Breeder ---------------------------------------------------------------------------------------


def composed(*names: str) -> dict[str, object]:
    return {"plans": [{"moves": [{"skill": "free", "why": "w", "steps": [name]}]} for name in names]}


def test_a_large_population_is_composed_in_several_answers(
    situation: Situation, skills: dict[str, Skill]
) -> None:
    first, second = composed(*"abcdefgh"), composed("h", "i", "j")
    one, client = asker("breeder", skills, first, second)
    alone = replace(situation, archive=())
    assert len(ModelBreeder(one).populate(alone, 12)) == 10, "whoever has no more is not asked again"
    assert "- 8 plans" in client.asked[0].system and "composed already" not in client.asked[0].user
    assert "- 4 plans" in client.asked[1].system and "Plan 8:" in client.asked[1].user
    assert len(client.asked) == 2


def test_a_population_mixes_archived_and_composed_plans(
    situation: Situation, skills: dict[str, Skill]
) -> None:
    plans = [{"moves": [{"skill": "free", "why": "w", "steps": [s]}]} for s in ("a", "a", "b")]
    plans.append({"moves": [{"skill": "unknown", "why": "w", "steps": ["c"]}]})
    one, client = asker("breeder", skills, {"plans": plans})
    made = ModelBreeder(one).populate(situation, 4)
    assert made[0] == situation.archive[0].plan
    assert [plan.moves[0].text for plan in made[1:]] == ["1. a", "1. b"]
    assert "3 plans that differ" in client.asked[0].system and "memory-bound" in client.asked[0].system
    unusable = ModelBreeder(asker("breeder", skills, "prose")[0])
    assert unusable.populate(situation, 2) == (situation.archive[0].plan,)
    with pytest.raises(UnusableAnswer):
        unusable.populate(replace(situation, archive=()), 2)


def test_breeders_are_told_the_roofline_class_and_what_was_measured_of_its_metrics(
    situation: Situation, skills: dict[str, Skill]
) -> None:
    assert situation.analysis is not None
    facts = {"run.bandwidth_fraction": 0.4, "run.fma_fraction": 0.2, "counters.ipc": None}
    analysed = replace(situation, analysis=replace(situation.analysis, evidence=Evidence(facts=facts)))
    for gflops, said, watched in (
        (1000.0, "is memory-bound", "run.bandwidth_fraction"),
        (1.0, "is compute-bound", "run.fma_fraction"),
        (7.5, "about equally", "run.bandwidth_fraction, run.fma_fraction"),
    ):
        bound_by: Literal["memory", "compute"] = "memory" if gflops > 100 else "compute"
        floor = Floor(ms=1, bound_by=bound_by, work=Work(flops=1_572_864, min_bytes=2_103_296))
        peaks = PEAKS.model_copy(update={"fma_gflops": gflops})
        problem = replace(situation.problem, floors={"default": floor}, peaks=peaks)
        one, client = asker("breeder", skills, {"plans": [WIDEN]})
        ModelBreeder(one).populate(replace(analysed, problem=problem, archive=()), 1)
        assert said in client.asked[0].system and "1 plan that differs" in client.asked[0].system
        assert f"Metrics to watch in the evidence: {watched}." in client.asked[0].system


def test_metrics_to_watch_are_names_of_evidence() -> None:
    for target in all_targets():
        if target.prompting is not None:
            watch = target.prompting.watch
            assert set(watch) == set(target.prompting.advice) == {"memory", "compute"}
            assert {name for names in watch.values() for name in names} <= set(METRICS)


def test_a_later_epoch_builds_on_the_plan_of_the_fastest_without_its_repairs(
    situation: Situation, skills: dict[str, Skill]
) -> None:
    fused, repair = Move(skill="free", text="1. fuse"), Move(skill=REPAIR, why="no semicolon", text="added")
    best = BASE.model_copy(update={"plan": Plan(moves=(fused, repair)), "role": "coder"})
    evaluation = fake_evaluation(best, TASK, 2.0)
    later = replace(
        situation,
        archive=(),
        base=Node(best, evaluation, "base"),
        window=(Node(best.without_source(best.plan), evaluation, "member"),),
    )
    known = {"moves": [{"skill": "b1", "why": "w"}]}
    longer = {"moves": [{"skill": "b1", "why": "w"}, {"skill": "free", "why": "w", "steps": ["widen"]}]}
    one, client = asker("breeder", skills, {"plans": [known]}, {"plans": [known, longer]})
    (plan,) = ModelBreeder(one).populate(later, 2)
    assert [move.text for move in plan.moves] == ["1. fuse", "1. widen"]
    assert "carried out already" in client.notes[0].detail
    asked = client.asked[0]
    assert "next epoch" in asked.user and "labelled b" in asked.system and "- b1: free" in asked.user
    assert "semicolon" not in asked.user
    first, client = asker("breeder", skills, {"plans": [longer]})
    ModelBreeder(first).populate(replace(later, window=()), 1)
    assert "first population" in client.asked[0].user and "labelled b" not in client.asked[0].system


def test_parents_are_crossed_without_their_repairs(situation: Situation, skills: dict[str, Skill]) -> None:
    plans = [Plan(moves=(Move(skill="free", text=f"1. {n}"), Move(skill=REPAIR, text=n))) for n in ("x", "y")]
    child = {"moves": [{"skill": "a1", "why": "keep"}, {"skill": "b1", "why": "keep"}]}
    one, client = asker("breeder", skills, child)
    crossed = ModelBreeder(one).cross(situation, *plans)
    assert crossed is not None and [move.text for move in crossed.moves] == ["1. x", "1. y"]
    assert "a2" not in client.asked[0].user


def test_a_crossed_plan_keeps_moves_by_label(situation: Situation, skills: dict[str, Skill]) -> None:
    first = Plan(moves=(Move(skill="tile-columns", region="r", params={"tile": 8}),))
    second = Plan(moves=(Move(skill="free", text="1. fuse"),))
    copy = {"moves": [{"skill": "a1", "why": "keep"}]}
    child = {"moves": [{"skill": "b1", "why": "keep"}, {"skill": "a1", "why": "keep"}]}
    one, client = asker("breeder", skills, copy, child)
    crossed = ModelBreeder(one).cross(situation, first, second)
    assert crossed is not None
    assert [move.key for move in crossed.moves] == [second.moves[0].key, first.moves[0].key]
    assert "repeats one of its parents" in client.notes[0].detail
    assert "float sum" not in client.asked[0].user and "```" not in client.asked[0].user


def test_for_an_expert_coder_plans_are_made_of_its_moves(
    situation: Situation, skills: dict[str, Skill]
) -> None:
    moves = [Move(skill="tile-columns", region="r", params={"tile": n}) for n in (8, 16)]
    words = {"plans": [{"moves": [{"skill": "free", "why": "w", "steps": ["a"]}]}]}
    labels = {"plans": [{"moves": [{"skill": "m2", "why": "w"}]}]}
    one, _ = asker("breeder", skills, words, labels)
    (plan,) = ModelBreeder(one, lambda _: moves).populate(replace(situation, archive=()), 3)
    assert plan.moves[0].key == moves[1].key
    same = Plan(moves=(moves[0],))
    assert ModelBreeder(one, lambda _: moves).cross(situation, same, same) is None


# -- Aligner ---------------------------------------------------------------------------------------


def test_repairs_are_no_steps_to_align(situation: Situation, skills: dict[str, Skill]) -> None:
    move, repair = Move(skill="free", text="1. kept"), Move(skill=REPAIR, text="a semicolon")
    one, client = asker("aligner", skills, {"items": [{"number": 1, "is_carried_out": True}]})
    mended = BASE.model_copy(update={"plan": Plan(moves=(move, repair))})
    assert ModelAligner(one).align(situation, mended).moves == (move,)
    vanilla = BASE.model_copy(update={"plan": Plan(moves=(repair,))})
    assert ModelAligner(one).align(situation, vanilla) == Plan() and len(client.asked) == 1


def test_the_aligned_plan_is_what_the_source_does(situation: Situation, skills: dict[str, Skill]) -> None:
    moves = tuple(Move(skill="free", text=f"1. {what}") for what in ("kept", "dropped", "changed"))
    candidate = BASE.model_copy(update={"plan": Plan(moves=moves)})
    items = [
        {"number": 1, "is_carried_out": True},
        {"number": 2, "is_carried_out": False},
        {"number": 3, "is_carried_out": True, "what": "done by halves"},
    ]
    partial = {"items": items[:2]}
    whole = {"items": items, "unannounced": ["threads are pinned"]}
    one, client = asker("aligner", skills, partial, whole)
    aligned = ModelAligner(one).align(situation, candidate)
    assert [move.text for move in aligned.moves] == ["1. kept", "1. done by halves", "1. threads are pinned"]
    assert "step 3" in client.notes[0].detail and "float sum = 0.0f" in client.asked[0].user
    assert ModelAligner(asker("aligner", skills, "prose")[0]).align(situation, candidate) == candidate.plan
