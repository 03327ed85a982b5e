"""The linter finds each kind of mistake, and nothing in the library."""

from typing import Any

import pytest

from kernelwright.core.skill import Skill
from kernelwright.ir.plan_lowering import LIBRARY_SEED, known_lowerings
from kernelwright.skills.lint import SkillTarget, lint, patterns
from kernelwright.skills.load import load_skills
from kernelwright.skills.predicate import parse_predicate
from kernelwright.targets.for_skills import skill_targets
from kernelwright.targets.registry import find_target

BODY = "## When\nx\n## How\nx\n## Worked pattern\n```cpp\nint x;\n```\n## Pitfalls\nx\n"
EVERY = [
    "memory_bandwidth",
    "extra_traffic",
    "compute",
    "library",
    "redundant_work",
    "parallelism",
    "overhead",
]


def skill(**changes: Any) -> Skill:
    for field in ("requires", "forbids"):
        if field in changes:
            changes[field] = tuple(parse_predicate(text) for text in changes[field])
    if "signals" in changes:
        changes["signals"] = tuple({"when": parse_predicate(s), "weight": w} for s, w in changes["signals"])
    fields = {
        "name": "demo",
        "summary": "Does a thing.",
        "targets": ("cpu/cpp",),
        "bottlenecks": EVERY,
        "expects": ({"metric": "run.latency_ms", "direction": "down", "factor": 1.2},),
        "lowering": "schedule:unroll",
        "sources": ("a book",),
        "body": BODY,
    }
    return Skill.model_validate({**fields, **changes})


TARGETS = {
    "cpu/cpp": SkillTarget(lowerings=frozenset({"schedule:unroll"})),
    **dict.fromkeys(("cuda/triton", "cuda/cuda", "hip/hip"), SkillTarget(shows_host_side=True)),
}


def problems(*skills: Skill) -> list[str]:
    return [p.text for p in lint({str(n): s for n, s in enumerate(skills)}, TARGETS)]


def test_a_good_skill_is_clean() -> None:
    assert problems(skill()) == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"requires": ["run.latencyms > 1"]}, "unknown metric 'run.latencyms'"),
        ({"requires": ["run.latency_ms > fast"]}, "'fast' is not a number"),
        ({"requires": ["run.latency_ms == true"]}, "True is not a number"),
        ({"requires": ["graph.structure < 3"]}, "operator '<' does not fit a text"),
        ({"requires": ["graph.structure == stencil"]}, "never 'stencil'"),
        ({"forbids": ["task.working_set_fits_cache in [true]"]}, "operator 'in' does not fit a bool"),
        ({"requires": ["run.latency_ms == [1, 2]"]}, "'in' takes a list"),
        ({"signals": [("run.nothing > 1", 1)]}, "unknown metric"),
        ({"signals": [("run.latency_ms > 1", 0)]}, "weighs nothing"),
        (
            {"requires": ["run.floor_fraction < 0.5", "run.floor_fraction > 0.8"]},
            "no value of run.floor_fraction",
        ),
        ({"requires": ["run.floor_fraction > 1"]}, "no value of run.floor_fraction"),
        ({"requires": ["graph.n_scans > 0"], "forbids": ["graph.n_scans >= 0"]}, "no value of graph.n_scans"),
        (
            {"structures": ["scan"], "requires": ["graph.structure in [window, mixed]"]},
            "no value of graph.structure",
        ),
        (
            {"requires": ["counters.available == true"], "forbids": ["counters.available known"]},
            "no value of counters.available",
        ),
        ({"structures": ["stencil"]}, "unknown structure"),
        ({"targets": ["tpu/mosaic"], "body": BODY.replace("cpp", "mosaic")}, "unknown target"),
        ({"bottlenecks": []}, "no bottleneck"),
        ({"bottlenecks": [*EVERY, "at_floor"]}, "at_floor is where the search ends"),
        ({"lowering": "schedule:unrol"}, "does not exist"),
        ({"lowering": "magic:unroll"}, "is not one of"),
        ({"params": {"unroll": ()}}, "has no values"),
        ({"expects": ({"metric": "run.speed", "direction": "up", "factor": 2.0},)}, "expects 'run.speed'"),
        ({"expects": ()}, "expects nothing of run.latency_ms"),
        (
            {"expects": ({"metric": "run.latency_ms", "direction": "down", "factor": 0.8},)},
            "sizes are above 1",
        ),
        ({"lowering": None}, "names no place that it acts on"),
        ({"acts_on": "moon"}, "no kind of place"),
        ({"sources": ()}, "no sources"),
        ({"body": BODY.replace("## Pitfalls", "## Notes")}, "no section 'Pitfalls'"),
        ({"body": BODY.replace("```cpp", "```")}, "no worked pattern for cpp"),
        ({"requires": ["graph.n_scans > 0"]}, "no unconditional skill for compute"),
    ],
)
def test_each_mistake_is_found(changes: dict[str, Any], expected: str) -> None:
    assert any(expected in text for text in problems(skill(**changes)))


def test_a_pattern_may_serve_several_languages() -> None:
    shared = skill(targets=("cuda/cuda", "hip/hip"), body=BODY.replace("```cpp", "```cuda,hip"))
    assert not any("worked pattern" in text for text in problems(shared))
    assert patterns(shared, "hip") == ("int x;\n",)
    assert any("no worked pattern for triton" in p for p in problems(skill(targets=("cuda/triton",))))
    host = skill(targets=("cuda/triton",), body=BODY.replace("```cpp", "```python"))
    assert not any("worked pattern" in text for text in problems(host))


def test_two_skills_of_one_name_are_found() -> None:
    assert any("two skills are named 'demo'" in text for text in problems(skill(), skill()))


def test_reachable_borders_are_not_reported() -> None:
    requires = ["run.floor_fraction >= 0.5", "run.floor_fraction <= 0.5", "graph.n_scans > 2"]
    narrow = skill(requires=requires, forbids=["graph.n_scans > 3", "machine.n_threads > 1"])
    assert not any("unreachable" in text for text in problems(narrow))


def test_the_library_is_clean_against_the_real_edits() -> None:
    assert lint(load_skills(), skill_targets()) == ()


def test_a_lowering_must_exist_in_a_language_that_the_skill_is_for() -> None:
    lowerings = {
        "cpu/cpp": SkillTarget(lowerings=frozenset({"schedule:unroll"})),
        "cuda/triton": SkillTarget(lowerings=frozenset({"schedule:triton-warps"})),
    }
    both = skill(targets=("cpu/cpp", "cuda/triton"), lowering="schedule:triton-warps")
    for one, is_clean in ((both, True), (skill(lowering="schedule:triton-warps"), False)):
        texts = [problem.text for problem in lint({"one": one}, lowerings)]
        assert (not any("does not exist" in text for text in texts)) is is_clean


def test_params_are_the_values_that_search_takes_in_its_order() -> None:
    takes = {"cpu/cpp": SkillTarget(
        lowerings=frozenset({"schedule:unroll"}), params={"schedule:unroll": {"unroll": (4, 2)}}
    )}  # fmt: skip
    for params, is_clean in (
        ({"unroll": (4, 2)}, True), ({"unroll": (2, 4)}, False), ({"unroll": (4,)}, False), ({}, False),
        ({"width": (4, 2)}, False),
    ):  # fmt: skip
        one = skill(lowering="schedule:unroll", params=params)
        texts = [problem.text for problem in lint({"one": one}, takes)]
        assert (not any("search on cpu/cpp takes unroll: [4, 2]" in text for text in texts)) is is_clean


def test_a_skill_that_narrows_another_takes_some_of_its_values_and_no_others() -> None:
    takes = {"cpu/cpp": SkillTarget(
        lowerings=frozenset({"schedule:unroll"}), params={"schedule:unroll": {"unroll": (4, 2)}}
    )}  # fmt: skip
    for params, is_clean in (({"unroll": (2,)}, True), ({"unroll": (3,)}, False), ({}, False)):
        one = skill(lowering="schedule:unroll", params=params, narrows="another")
        texts = [problem.text for problem in lint({"one": one}, takes)]
        assert (not any("search on cpu/cpp takes unroll: [4, 2]" in text for text in texts)) is is_clean


NO_SKILL: dict[str, set[str]] = {"cpp": set(), "triton": {"fusion:materialise-value"}}
"""Edits that nobody plans for: on a GPU, a value is computed again rather than stored."""


@pytest.mark.parametrize("target", ["cpu/cpp", "cuda/triton"])
def test_every_edit_but_the_seed_has_exactly_one_skill(target: str) -> None:
    language = target.partition("/")[2]
    skills = [skill for skill in load_skills().values() if target in skill.targets]
    used = sorted(skill.lowering for skill in skills if skill.lowering is not None)
    known = known_lowerings(find_target(target, to_run=False).lowering)
    assert used == sorted(known - {f"fusion:{LIBRARY_SEED}"} - NO_SKILL[language])


def test_tensor_cores_are_the_only_edit_that_amd_lacks() -> None:
    lowered = {
        target: {s.lowering for s in load_skills().values() if target in s.targets and s.lowering}
        for target in ("cuda/triton", "hip/triton")
    }
    assert lowered["cuda/triton"] - lowered["hip/triton"] == {"schedule:triton-precision"}
