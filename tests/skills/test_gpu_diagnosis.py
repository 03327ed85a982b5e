"""What compilers and profilers say of a GPU kernel decides the bottleneck, and so which skills come first."""

from typing import Any

import pytest

from kernelwright.core.evidence import Bottleneck, Evidence
from kernelwright.skills.diagnosis import diagnose
from kernelwright.skills.load import load_skills
from kernelwright.skills.ranking import rank
from kernelwright.skills.stats import EmptyLedger

SKILLS = load_skills()
WELL = {
    "task.bound_by": "memory", "aot.spills": 0, "aot.occupancy": 1.0, "aot.load_bytes": 16.0,
    "gpu.waves": 4.0,
}  # fmt: skip


def diagnosed(**facts: Any) -> dict[Bottleneck, str]:
    """Return each bottleneck that is named, with its reason."""
    evidence = Evidence(facts={**WELL, **{name.replace("__", "."): value for name, value in facts.items()}})
    found = diagnose(evidence)
    return dict(zip((found.bottleneck, *found.also), (r.text for r in found.reasons[1:]), strict=True))


def test_a_kernel_without_faults_gives_no_reason_of_its_own() -> None:
    assert list(diagnosed()) == [Bottleneck.MEMORY_BANDWIDTH]
    assert "nothing measured explains" in diagnosed()[Bottleneck.MEMORY_BANDWIDTH]


@pytest.mark.parametrize(
    ("bottleneck", "facts", "text"),
    [
        (Bottleneck.COMPUTE, {"aot__spills": 40}, "40 registers of a thread are spilled to memory"),
        (Bottleneck.PARALLELISM, {"gpu__waves": 0.1}, "the grid has 10%"),
        (
            Bottleneck.PARALLELISM,
            {"aot__occupancy": 0.125, "aot__occupancy_limit": "shared"},
            "at most 12% of the possible warps are resident (limit: shared)",
        ),
        (Bottleneck.OVERHEAD, {"gpu__idle_fraction": 0.7}, "no kernel runs for 70%"),
    ],
)
def test_every_fault_is_named(bottleneck: Bottleneck, facts: dict[str, Any], text: str) -> None:
    assert text in diagnosed(**facts)[bottleneck]


def test_of_two_reasons_for_one_bottleneck_the_larger_is_given() -> None:
    busy = diagnosed(gpu__dram_fraction=0.9, task__bound_by="compute", aot__load_bytes=4.0)
    assert "memory is busy for 90%" in busy[Bottleneck.MEMORY_BANDWIDTH]


def test_facts_of_a_gpu_do_not_speak_where_they_are_unknown() -> None:
    none = diagnose(Evidence(facts={"task.bound_by": "compute"}))
    assert none == diagnose(
        Evidence(facts={"task.bound_by": "compute", "aot.spills": None, "gpu.waves": None})
    )


@pytest.mark.parametrize(
    ("skill", "facts"),
    [
        ("triton-launch-tuning", {"aot__spills": 40, "aot__occupancy": 0.25}),
        ("kernel-fission", {"aot__spills": 40, "aot__occupancy": 0.25}),
        ("split-reduction", {"gpu__waves": 0.05, "graph__n_reductions": 1}),
        ("rows-per-block", {"gpu__waves": 0.05, "graph__n_reductions": 1}),
    ],
)
def test_the_facts_lift_skills_that_the_expert_can_carry_out(skill: str, facts: dict[str, Any]) -> None:
    def score(**known: Any) -> float:
        values = {**WELL, **{name.replace("__", "."): value for name, value in known.items()}}
        evidence = Evidence(facts=values)
        ranked = rank(SKILLS, evidence, diagnose(evidence), "cuda/triton", EmptyLedger())
        return next(entry.score for entry in ranked if entry.skill == skill)

    assert SKILLS[skill].lowering is not None
    assert score(**facts) > 1.5 * score()
