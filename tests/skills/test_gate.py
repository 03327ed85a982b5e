"""The gate: right diagnoses on known profiles, reasons, total coverage, learning from the ledger."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright.core.evidence import METRICS, Bottleneck, Evidence, Headroom
from kernelwright.core.skill import RankedSkill
from kernelwright.skills.diagnosis import diagnose
from kernelwright.skills.lint import TEXT_VALUES
from kernelwright.skills.load import load_skills
from kernelwright.skills.ranking import announced_factor, expected_factor, rank
from kernelwright.skills.stats import EmptyLedger, SkillStats

SKILLS = load_skills()

PROFILES: dict[str, tuple[Bottleneck, dict[str, Any]]] = {
    "unfused pointwise chain": (
        Bottleneck.EXTRA_TRAFFIC,
        {
            "run.floor_fraction": 0.3, "run.latency_ms": 12.0, "run.bandwidth_fraction": 0.3,
            "program.materialised_bytes": 134e6, "machine.bandwidth_gbps": 40.0, "task.bound_by": "memory",
        },
    ),
    "fused stream below the machine's rate": (
        Bottleneck.MEMORY_BANDWIDTH,
        {
            "run.floor_fraction": 0.6, "run.latency_ms": 4.0, "run.bandwidth_fraction": 0.6,
            "program.materialised_bytes": 0, "compiler.vectorized_fraction": 1.0, "task.bound_by": "memory",
        },
    ),
    "scalar transcendental loop": (
        Bottleneck.COMPUTE,
        {
            "run.floor_fraction": 0.1, "run.bandwidth_fraction": 0.1, "graph.n_transcendentals": 1,
            "compiler.vectorized_fraction": 0.0, "task.bound_by": "memory",
        },
    ),
    "large matrix product": (
        Bottleneck.LIBRARY,
        {
            "run.floor_fraction": 0.75, "run.fma_fraction": 0.75, "run.anchor_ms_fraction": 0.98,
            "graph.anchor_flops_fraction": 1.0, "run.bandwidth_fraction": 0.05, "task.bound_by": "compute",
        },
    ),
    "large matrix product whose times are unknown": (
        Bottleneck.LIBRARY,
        {"run.floor_fraction": 0.75, "graph.anchor_flops_fraction": 1.0, "task.bound_by": "compute"},
    ),
    "product with a diagonal matrix": (
        Bottleneck.REDUNDANT_WORK,
        {
            "run.floor_fraction": 0.95, "run.anchor_ms_fraction": 0.98, "graph.rewrite_gain": 8.0,
            "task.bound_by": "compute",
        },
    ),
    "whole-tensor reduction on one thread": (
        Bottleneck.PARALLELISM,
        {
            "run.floor_fraction": 0.2, "run.bandwidth_fraction": 0.2, "run.thread_scaling": 1.0,
            "machine.n_threads": 16, "compiler.vectorized_fraction": 1.0, "task.bound_by": "memory",
        },
    ),
    "tiny tensor": (
        Bottleneck.OVERHEAD,
        {
            "run.floor_fraction": 0.05, "run.latency_ms": 0.01, "run.overhead_ms": 0.008,
            "run.bandwidth_fraction": 0.05, "task.bound_by": "memory",
        },
    ),
    "at the floor": (Bottleneck.AT_FLOOR, {"run.floor_fraction": 0.93, "graph.rewrite_gain": 1.0}),
    "nothing known": (Bottleneck.MEMORY_BANDWIDTH, {}),
}  # fmt: skip


@pytest.mark.parametrize("name", PROFILES)
def test_known_profiles_get_their_bottleneck(name: str) -> None:
    expected, facts = PROFILES[name]
    diagnosis = diagnose(Evidence(facts=facts))
    assert diagnosis.bottleneck is expected
    assert expected not in diagnosis.also
    assert all(reason.text for reason in diagnosis.reasons)


@pytest.mark.parametrize(
    ("fraction", "headroom"),
    [
        (None, Headroom.HIGH),
        (0.39, Headroom.HIGH),
        (0.4, Headroom.MEDIUM),
        (0.8, Headroom.MEDIUM),
        (0.81, "low"),
    ],
)
def test_headroom_tiers(fraction: float | None, headroom: Headroom) -> None:
    assert diagnose(Evidence(facts={"run.floor_fraction": fraction})).headroom == headroom


def _values(metric: str) -> st.SearchStrategy[Any]:
    spec = METRICS[metric]
    known: st.SearchStrategy[Any]
    if spec.kind == "bool":
        known = st.booleans()
    elif spec.kind == "text":
        known = st.sampled_from(TEXT_VALUES.get(metric, ("other",)))
    elif spec.unit == "0..1":
        known = st.floats(0, 1)
    elif metric.startswith(("graph.n_", "program.n_", "compiler.", "machine.n_")):
        known = st.integers(0, 64)
    else:
        known = st.floats(0, 1e12, allow_subnormal=False)
    return st.none() | known


EVIDENCE = st.fixed_dictionaries({}, optional={name: _values(name) for name in METRICS}).map(
    lambda facts: Evidence(facts=facts)
)


@pytest.mark.slow
@given(evidence=EVIDENCE)
@settings(max_examples=300)
def test_every_profile_gets_a_skill_for_its_bottleneck_unless_at_the_floor(evidence: Evidence) -> None:
    diagnosis = diagnose(evidence)
    ranked = rank(SKILLS, evidence, diagnosis, "cpu/cpp", EmptyLedger())
    if diagnosis.bottleneck is Bottleneck.AT_FLOOR:
        assert ranked == ()
        return
    assert any(diagnosis.bottleneck in SKILLS[entry.skill].bottlenecks for entry in ranked)
    assert [entry.score for entry in ranked] == sorted((e.score for e in ranked), reverse=True)
    assert all(entry.score > 0 and entry.reasons for entry in ranked)


def test_no_skill_applies_to_another_target() -> None:
    evidence = Evidence()
    assert rank(SKILLS, evidence, diagnose(evidence), "metal/msl", EmptyLedger()) == ()


def test_forbidden_skills_are_left_out() -> None:
    evidence = Evidence(facts={"task.working_set_fits_cache": True})
    names = {entry.skill for entry in rank(SKILLS, evidence, diagnose(evidence), "cpu/cpp", EmptyLedger())}
    assert "streaming-stores" not in names
    assert "unroll-accumulators" in names


def _ranked(gains: dict[str, float | None] | None, **facts: Any) -> dict[str, RankedSkill]:
    evidence = Evidence(facts={name.replace("__", "."): value for name, value in facts.items()})
    found = rank(SKILLS, evidence, diagnose(evidence), "cpu/cpp", EmptyLedger(), gains)
    return {entry.skill: entry for entry in found}


def test_the_space_decides_which_edits_have_a_place() -> None:
    found = _ranked({"rows-together": 1.2}, graph__structure="pointwise")  # its file names other structures
    assert set(found) == {"rows-together"}


def test_expected_effects_are_the_cost_model_s_and_never_an_announced_constant() -> None:
    small, large = (_ranked({"diagonal-matmul": gain})["diagonal-matmul"] for gain in (1.2, 6.0))
    assert (small.expected, large.expected) == (1.2, 6.0) and small.score < large.score


def test_where_no_model_looks_the_diagnosis_bounds_what_is_announced() -> None:
    shares = {"little": 0.05, "much": 0.5}
    found = {
        name: expected_factor(SKILLS["vector-width"], Evidence(), {Bottleneck.COMPUTE: share}, None)
        for name, share in shares.items()
    }
    assert found["little"] == pytest.approx(1 / 0.95)
    assert found["much"] == announced_factor(SKILLS["vector-width"])


def test_nothing_but_algebra_is_expected_to_get_below_the_floor() -> None:
    facts = {"task__bound_by": "memory", "run__floor_fraction": 0.8}
    found = _ranked({"streaming-stores": 3.0, "reassociate-reduction": 3.0}, **facts)
    assert found["streaming-stores"].expected == pytest.approx(1 / 0.8)
    assert found["reassociate-reduction"].expected == 3.0


def test_little_headroom_vetoes_what_answers_no_bottleneck() -> None:
    gains: dict[str, float | None] = {"streaming-stores": 1.0, "thread-count": 1.0, "exp-degree": 1.1}
    near = _ranked(gains, task__bound_by="memory", run__floor_fraction=0.85)
    far = _ranked(gains, task__bound_by="memory", run__floor_fraction=0.3)
    assert "thread-count" not in near and {"streaming-stores", "exp-degree"} <= set(near)
    assert "thread-count" in far


def test_guidance_on_any_kernel_needs_a_sign_that_holds() -> None:
    gains = {"occupancy-fit": None}
    for occupancy, is_shown in ((0.9, False), (0.2, True)):
        evidence = Evidence(facts={"aot.occupancy": occupancy})
        found = rank(SKILLS, evidence, diagnose(evidence), "cuda/cuda", EmptyLedger(), gains)
        assert [entry.skill for entry in found] == ["occupancy-fit"] * is_shown


class OneSkillLedger:
    """Measured one skill, always with the same result."""

    def __init__(self, skill: str, stats: SkillStats, found: float = 1.0) -> None:
        self.skill, self.measured, self.found = skill, stats, found

    def stats(self, skill: str, structure: str, bottleneck: str) -> SkillStats:
        return self.measured if skill == self.skill else SkillStats()

    def factor(self, skill: str, structure: str, bottleneck: str) -> float:
        return self.found if skill == self.skill else 1.0


def _score(skill: str, stats: SkillStats, found: float = 1.0) -> float:
    evidence = Evidence(facts={"task.working_set_fits_cache": False})
    ranked = rank(SKILLS, evidence, diagnose(evidence), "cpu/cpp", OneSkillLedger(skill, stats, found))
    return next(entry.score for entry in ranked if entry.skill == skill)


def test_measured_success_lifts_and_measured_failure_sinks_a_skill() -> None:
    untried = _score("streaming-stores", SkillStats())
    won = _score("streaming-stores", SkillStats(tries=4, wins=4, mean_log_speedup=0.7, mean_gain=0.7))
    lost = _score("streaming-stores", SkillStats(tries=4, mean_log_speedup=-0.2))
    lost_often = _score("streaming-stores", SkillStats(tries=40, mean_log_speedup=-0.2))
    assert lost_often < lost < untried < won


def test_reasons_say_what_was_measured() -> None:
    stats = SkillStats(tries=4, wins=3, mean_log_speedup=0.1, mean_gain=0.1, context="any/any")
    evidence = Evidence(facts={"task.working_set_fits_cache": False})
    ranked = rank(SKILLS, evidence, diagnose(evidence), "cpu/cpp", OneSkillLedger("streaming-stores", stats))
    reasons = next(entry.reasons for entry in ranked if entry.skill == "streaming-stores")
    assert any("3 wins in 4 tries" in reason for reason in reasons)
    assert any("task.working_set_fits_cache == false holds" in reason for reason in reasons)


def test_an_admitted_finding_multiplies_the_score_of_its_skill_and_says_so() -> None:
    skill = "streaming-stores"
    assert _score(skill, SkillStats(), 1.5) == pytest.approx(1.5 * _score(skill, SkillStats()))
    evidence = Evidence(facts={"task.working_set_fits_cache": False})
    ledger = OneSkillLedger(skill, SkillStats(), 0.5)
    ranked = rank(SKILLS, evidence, diagnose(evidence), "cpu/cpp", ledger)
    reasons = next(entry.reasons for entry in ranked if entry.skill == skill)
    assert any("admitted findings count it 0.50 times" in reason for reason in reasons)
