"""The nouns: illegal states cannot be made, identity follows content."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from kernelwright.core.budget import Budget, Spent
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import UserError
from kernelwright.core.evaluation import (
    Evaluation,
    OrdinaryResult,
    PeakMemory,
    Speedup,
    Stage,
    Status,
    Timing,
    WorkloadResult,
)
from kernelwright.core.frozen import content_hash
from kernelwright.core.plan import Move, Plan
from kernelwright.core.roofline import BandwidthPoint, Peaks, Work, floor
from kernelwright.core.target import TargetName
from kernelwright.core.task import Task, Workload

TIMING = Timing(median_ms=2.0, p10_ms=1.9, p90_ms=2.1, n_samples=9, calls_per_sample=3)


def result(workload: str, ratio: float, floor_ms: float | None = None) -> WorkloadResult:
    speedup = Speedup(baseline="eager", ratio=ratio, low=ratio * 0.9, high=ratio * 1.1)
    return WorkloadResult(
        workload=workload, candidate=TIMING, baselines={}, speedups=(speedup,), floor_ms=floor_ms
    )


def test_timings_need_a_verified_candidate() -> None:
    with pytest.raises(ValidationError, match="no timings"):
        Evaluation(
            candidate_id="c",
            task_id="t",
            stage=Stage.TIME,
            status=Status.REJECTED,
            results=(result("w", 2.0),),
        )
    with pytest.raises(ValidationError, match="go together"):
        Evaluation(candidate_id="c", task_id="t", stage=Stage.TIME, status=Status.VERIFIED)


def test_the_speedup_of_several_workloads_is_their_geometric_mean() -> None:
    evaluation = Evaluation(
        candidate_id="c",
        task_id="t",
        stage=Stage.DONE,
        status=Status.VERIFIED,
        results=(result("a", 1.0), result("b", 4.0)),
    )
    assert evaluation.geomean_speedup() == pytest.approx(2.0)
    assert evaluation.geomean_speedup("torch_compile") is None


def test_figures_of_an_ordinary_process_are_quoted_first() -> None:
    ordinary = OrdinaryResult(
        timed="module",
        all_threads=result("a", 0.5),
        memory=PeakMemory(delivered_bytes=3, original_bytes=2),
    )
    evaluation = Evaluation(
        candidate_id="c",
        task_id="t",
        stage=Stage.DONE,
        status=Status.VERIFIED,
        results=(result("a", 2.0),),
        ordinary=(ordinary,),
    )
    assert evaluation.geomean_speedup() == pytest.approx(0.5)
    assert ordinary.memory is not None and ordinary.memory.ratio == 1.5
    read = Evaluation.model_validate_json(evaluation.model_dump_json())
    assert read == evaluation


def test_an_evaluation_stored_before_there_were_ordinary_processes_reads_as_it_was() -> None:
    stored = {"candidate_id": "c", "task_id": "t", "stage": "done", "status": "verified", "policy": {}}
    evaluation = Evaluation.model_validate({**stored, "results": [result("a", 2.0).model_dump()]})
    assert evaluation.ordinary is None and evaluation.told == evaluation.results
    assert evaluation.geomean_speedup() == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (1.01, 1.2, "faster"),
        (0.8, 0.99, "slower"),
        (0.9, 1.1, "no_significant_change"),
        (1.0, 1.1, "no_significant_change"),
    ],
)
def test_faster_means_that_the_interval_excludes_one(low: float, high: float, verdict: str) -> None:
    assert Speedup(baseline="eager", ratio=1.0, low=low, high=high).verdict == verdict


def test_evaluations_come_back_from_json_infinities_included() -> None:
    timing = TIMING.model_copy(update={"p90_ms": math.inf})
    assert Timing.model_validate_json(timing.model_dump_json()) == timing


def test_an_unknown_field_is_an_error() -> None:
    with pytest.raises(ValidationError):
        Budget.model_validate({"evaluation": 3})


def test_a_candidate_is_its_target_and_text() -> None:
    assert Candidate(source="a", role="coder").id == Candidate(source="a", role="user").id
    assert Candidate(source="a").id != Candidate(source="b").id


def test_a_plan_is_what_is_done_in_order_not_why() -> None:
    tile, unroll = Move(skill="tile", params={"n": 8}), Move(skill="unroll")
    assert Plan(moves=(tile, unroll)).id != Plan(moves=(unroll, tile)).id
    assert Plan().then(tile.model_copy(update={"why": "because"})).id == Plan().then(tile).id


def test_a_task_is_its_contract_not_its_path() -> None:
    task = Task(name="t", source="s", path="/a")
    assert task.id == Task(name="other", source="s", path="/b").id
    assert task.id != Task(name="t", source="s", workloads=(Workload(overrides={"n": 2}),)).id
    with pytest.raises(ValidationError, match="unique"):
        Task(name="t", source="s", workloads=(Workload(), Workload()))


def test_a_target_s_name_is_a_device_and_a_language() -> None:
    assert str(TargetName.parse("tpu/pallas")) == "tpu/pallas"
    for text in ("cpu", "cpu/", "/cpp", "a/b/c"):
        with pytest.raises(UserError, match="DEVICE/LANGUAGE"):
            TargetName.parse(text)


def test_the_first_amount_used_up_is_named() -> None:
    assert Spent(evaluations=3).exhausts(Budget(evaluations=3, seconds=1.0)) == "evaluations"
    assert Spent(evaluations=2).exhausts(Budget(evaluations=3)) is None
    assert Spent(evaluations=10**6).exhausts(Budget()) is None


@given(st.lists(st.text()), st.lists(st.text()))
def test_hashes_tell_lists_apart(a: list[str], b: list[str]) -> None:
    assert (content_hash(*a) == content_hash(*b)) == (a == b)


@given(st.integers(1, 10**9), st.integers(1, 10**9), st.integers(0, 10**12))
def test_the_floor_grows_with_the_work(n_bytes: int, more: int, flops: int) -> None:
    curve = tuple(BandwidthPoint(working_set=10**e, gbps=1000.0 / e) for e in range(3, 10))
    peaks = Peaks(
        device="d", n_threads=1, bandwidth_gbps=10, cache_bandwidth_gbps=90, cache_bytes=1000, fma_gflops=100,
        source="made up for a test", curve=curve,
    )  # fmt: skip
    small = floor(Work(flops=flops, min_bytes=n_bytes), peaks)
    large = floor(Work(flops=flops, min_bytes=n_bytes + more), peaks)
    assert 0 < small.ms <= large.ms
    assert small.bound_by in ("memory", "compute")
