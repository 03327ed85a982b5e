"""The skills for GPUs: enough of them, within the gate's reach, and silent on other targets."""

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelwright.core.evidence import METRICS, Bottleneck, Evidence
from kernelwright.core.machine import Accelerator
from kernelwright.skills.diagnosis import diagnose
from kernelwright.skills.lint import TEXT_VALUES
from kernelwright.skills.load import load_skills
from kernelwright.skills.ranking import rank
from kernelwright.skills.stats import EmptyLedger
from kernelwright.targets.registry import all_targets
from kernelwright.targets.triton.edits import triton_edits

SKILLS = load_skills()
GPU = {name: skill for name, skill in SKILLS.items() if "cpu/cpp" not in skill.targets}
WITH_HOST_SIDE = [str(target) for target in all_targets() if target.shows_host_side]
SHARED = [s for s in SKILLS.values() if "cpu/cpp" in s.targets and set(s.targets) & set(WITH_HOST_SIDE)]


DOCS = Path(__file__).parents[2] / "docs/gpu-skills.md"
METHODS = """
    Alignment_and_Tail_Minimization Approximate_Transcendentals_or_LUT GEMM_Rewrite_CUBLASLT_TF32
    CUDA_Graph_Capture_Replay_StaticBuffers Improve_Coalescing_and_TransactionSize Increase_ILP_WorkPerThread
    Increase_Memory_Level_Parallelism Increase_Occupancy_if_limited KernelFission KernelFusion Launch_Tuning
    MultiKernelScheduling Reduce_Address_Calculation_Overhead Reduce_Instruction_Count Reduce_Live_Ranges
    Reduce_Unrolling RegisterBlocking SharedMemoryTiling SharedMemory_Tradeoff_if_Beneficial
    SoftwarePrefetching TensorCore_or_CUBLASLT Vectorization_Refinement Vectorized_Math
    WarpUniformControlFlow
"""
"""KernelSkill's catalogue (arXiv 2603.10085)."""


def test_every_method_of_the_published_catalogue_is_covered_by_skills_that_exist() -> None:
    text = DOCS.read_text(encoding="utf-8").partition("| KernelSkill's method |")[2].partition("\n\n")[0]
    rows = dict(re.findall(r"^\| (\w+) \| (.+) \|$", text, re.MULTILINE))
    assert len(METHODS.split()) == 24 and sorted(rows) == sorted(METHODS.split())
    for method, covered in rows.items():
        named = re.findall(r"[a-z0-9]+(?:-[a-z0-9]+)+", covered)
        assert named and set(named) <= set(GPU), method


def test_every_lowering_in_triton_is_in_the_table_of_the_docs() -> None:
    text = DOCS.read_text(encoding="utf-8").partition("## What the expert carries out in Triton")[2]
    table = dict(re.findall(r"^\| ([\w-]+) \| `([\w:-]+)`", text, re.MULTILINE))
    assert table == {name: skill.lowering for name, skill in GPU.items() if skill.lowering}
    assert {f"schedule:{name}" for name in triton_edits(Accelerator())} <= set(table.values())


def names(target: str, **facts: Any) -> list[str]:
    evidence = Evidence(facts={name.replace("__", "."): value for name, value in facts.items()})
    return [entry.skill for entry in rank(SKILLS, evidence, diagnose(evidence), target, EmptyLedger())]


def test_there_are_skills_for_every_gpu_target_and_only_algebra_is_for_the_cpu_too() -> None:
    assert len(GPU) >= 35
    for target in WITH_HOST_SIDE:
        assert sum(target in skill.targets for skill in GPU.values()) >= 35
    assert SHARED and all((skill.lowering or "").startswith("rewrite:") for skill in SHARED)


def test_the_cpu_s_ranking_sees_none_of_them() -> None:
    ranked = names("cpu/cpp", task__bound_by="memory", graph__n_matmuls=2, graph__n_convolutions=1)
    assert ranked and not set(ranked) & set(GPU)


def _values(metric: str) -> st.SearchStrategy[Any]:
    spec = METRICS[metric]
    if spec.kind == "bool":
        return st.booleans()
    if spec.kind == "text":
        return st.sampled_from(TEXT_VALUES.get(metric, ("other",)))
    return st.floats(0, 1) if spec.unit == "0..1" else st.integers(0, 4096)


@pytest.mark.parametrize("target", WITH_HOST_SIDE)
@given(facts=st.fixed_dictionaries({}, optional={name: _values(name) for name in METRICS}))
@settings(max_examples=40)
def test_every_profile_gets_a_skill_for_its_bottleneck(target: str, facts: dict[str, Any]) -> None:
    evidence = Evidence(facts=facts)
    diagnosis = diagnose(evidence)
    ranked = rank(SKILLS, evidence, diagnosis, target, EmptyLedger())
    if diagnosis.bottleneck is not Bottleneck.AT_FLOOR:
        assert any(diagnosis.bottleneck in SKILLS[entry.skill].bottlenecks for entry in ranked)
        assert all(target in SKILLS[entry.skill].targets for entry in ranked)


@pytest.mark.parametrize(
    ("first", "target", "facts"),
    [
        (
            "bank-conflict-free-layout",
            "cuda/cuda",
            {
                "task__bound_by": "compute", "run__floor_fraction": 0.3, "gpu__bank_conflict_fraction": 0.6,
                "gpu__stall_shared": 0.4, "aot__shared_accesses": 64, "graph__n_pointwise": 0,
            },
        ),
        (
            "split-reduction",
            "cuda/triton",
            {
                "task__bound_by": "memory", "run__floor_fraction": 0.2, "machine__n_threads": 132,
                "run__thread_scaling": 1.0, "gpu__waves": 0.05, "gpu__sm_fraction": 0.05,
                "graph__n_reductions": 1,
            },
        ),
        (
            "graph-replay",
            "hip/triton",
            {
                "run__latency_ms": 0.1, "run__overhead_ms": 0.08, "gpu__idle_fraction": 0.8,
                "gpu__launches": 12, "gpu__kernel_us": 4.0, "graph__n_pointwise": 0,
            },
        ),
    ],
)  # fmt: skip
def test_clear_evidence_brings_the_skill_to_the_front(first: str, target: str, facts: dict[str, Any]) -> None:
    assert first in names(target, **facts)[:5]


def test_precision_is_only_lowered_where_the_gate_can_see_it_is_allowed() -> None:
    assert "split-precision-product" not in names("cuda/cuda", graph__n_matmuls=1, task__dtype="bfloat16")
    for tolerance in ("strict", "tf32", "bf16", "kernelbench"):
        offered = names("cuda/triton", graph__n_matmuls=1, task__dtype="float32", task__tolerance=tolerance)
        assert ("tensor-core-product" in offered) == (tolerance in ("tf32", "bf16"))
    assert "tma-tiles" not in names("cuda/triton", gpu__architecture="sm_80")
    assert "tma-tiles" in names("cuda/triton", gpu__architecture="sm_90")
    assert "float32-accumulator" not in names("hip/hip", task__dtype="float32")
