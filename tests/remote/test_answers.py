"""What a platform may write, and that nothing it writes claims more than it knows."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.core.candidate import Candidate
from kernelwright.core.evaluation import Evaluation, Stage, Status
from kernelwright.core.roofline import Floor, Work
from kernelwright.core.task import Task, Workload
from kernelwright.remote.answers import DropRequest, Failed, MalformedAnswer, Refused, read_answer
from kernelwright.testing.fake_run import fake_evaluation

KERNEL = Candidate(source="kernel")
TASK = Task(name="t", source="reference")
TWO = Task(name="t", source="reference", workloads=(Workload(name="small"), Workload(name="large")))
FLOOR = Floor(ms=0.5, bound_by="memory", work=Work(flops=1, min_bytes=1))


def request(task: Task = TASK, *, final: bool = False) -> DropRequest:
    names = [workload.name for workload in task.workloads]
    return DropRequest(
        task=task,
        candidate_id=KERNEL.id,
        target=KERNEL.target,
        final=final,
        floors=dict.fromkeys(names, FLOOR),
    )


def read(document: Any, task: Task = TASK, *, final: bool = False, margin: float = 1.25) -> Any:
    text = document if isinstance(document, str) else json.dumps(document)
    return read_answer(text, request(task, final=final), margin=margin)


def verified(latency: float, baseline: float | None) -> dict[str, Any]:
    eager = {} if baseline is None else {"baseline_ms": {"default": baseline}}
    return {"status": "verified", "latency_ms": {"default": latency}, **eager}


@pytest.mark.parametrize(
    ("latency", "verdict"),
    [
        (4.0, "faster"),
        (8.1, "no_significant_change"),
        (10.0, "no_significant_change"),
        (12.4, "no_significant_change"),
        (20.0, "slower"),
    ],
)
def test_a_single_latency_needs_a_wide_margin_to_mean_something(latency: float, verdict: str) -> None:
    evaluation = read(verified(latency, 10.0))
    (speedup,) = evaluation.results[0].speedups
    assert (speedup.ratio, speedup.verdict) == (10.0 / latency, verdict)
    assert evaluation.is_faster is (verdict == "faster")
    assert evaluation.detail == (
        "single latencies without a spread: speedups are taken to be uncertain by a factor of 1.25"
    )
    assert evaluation.results[0].candidate.n_samples == 1


def test_an_infinite_margin_is_never_significant() -> None:
    evaluation = read(verified(0.001, 1000.0), margin=math.inf)
    assert not evaluation.is_faster
    assert "no speedup is taken for significant" in evaluation.detail
    assert Evaluation.model_validate_json(evaluation.model_dump_json()) == evaluation


def test_the_floor_of_another_machine_is_not_repeated() -> None:
    assert read(verified(1.0, 10.0)).results[0].floor_ms is None


def test_without_a_baseline_no_speedup_is_stated() -> None:
    evaluation = read(verified(1.0, None))
    assert evaluation.is_verified and evaluation.geomean_speedup() is None
    assert "no speedup can be stated" in evaluation.detail
    assert not evaluation.is_faster


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.VERIFIED])
def test_every_other_status_keeps_its_words_and_has_no_timings(status: Status) -> None:
    evaluation = read({"status": status.value, "detail": "it\nfailed", "latency_ms": {"default": 1.0}})
    assert (evaluation.status, evaluation.detail, evaluation.results) == (status, "it failed", ())
    assert evaluation.stage is not Stage.DONE
    assert read({"status": status.value}).detail == "no reason given"


def test_final_is_what_was_asked_for() -> None:
    assert read(verified(1.0, 10.0), final=True).is_final
    assert not read(verified(1.0, 10.0)).is_final


def test_a_whole_evaluation_is_taken_as_it_is() -> None:
    whole = fake_evaluation(KERNEL, TASK, 3.0)
    assert read(whole.model_dump_json()) == whole


def test_a_refusal_and_a_failure_are_told_apart() -> None:
    assert read({"refused": "not deterministic"}) == Refused(refused="not deterministic")
    assert read({"failed": "queue lost"}) == Failed(failed="queue lost")


MALFORMED: list[tuple[Any, str]] = [
    ("", "Expecting value"),
    ("{", "Expecting"),
    ("[1]", "no JSON object"),
    ("null", "no JSON object"),
    ("[" * 100_000, ""),
    ({}, "status: Field required"),
    ({"status": "great"}, "status: Input should be"),
    ({"status": "verified"}, "latency_ms is not of exactly the workloads default"),
    (verified(0.0, 10.0), "latency_ms.default: Input should be greater than or equal to"),
    (verified(-1.0, 10.0), "latency_ms.default"),
    (verified(math.nan, 10.0), "latency_ms.default"),
    (verified(math.inf, 10.0), "latency_ms.default"),
    (verified(1.0, 0.0), "baseline_ms.default"),
    (verified(1.0, math.inf), "baseline_ms.default"),
    ({"status": "verified", "latency_ms": {"other": 1.0}}, "not of exactly"),
    ({"status": "verified", "latency_ms": {"default": 1, "more": 1}}, "not of exactly"),
    (verified(1.0, None) | {"baseline_ms": {"other": 1.0}}, "baseline_ms is of some other workloads"),
    (verified(1.0, 10.0) | {"speedup": 10}, "speedup: Extra inputs"),
    ({"refused": "x", "status": "verified"}, "status: Extra inputs"),
    (fake_evaluation(Candidate(source="other"), TASK, 3.0).model_dump_json(), "of another request"),
    (fake_evaluation(KERNEL, TWO, 3.0).model_dump_json(), "of another request"),
    (fake_evaluation(KERNEL, TASK, 3.0, final=True).model_dump_json(), "of another request"),
]


@pytest.mark.parametrize(("document", "words"), MALFORMED)
def test_what_is_no_answer_is_malformed_and_says_why(document: Any, words: str) -> None:
    answer = read(document)
    assert isinstance(answer, MalformedAnswer), answer
    assert words in answer.why and "\n" not in answer.why


def test_a_latency_of_some_workloads_is_not_enough() -> None:
    half = {"status": "verified", "latency_ms": {"small": 1.0}}
    assert isinstance(read(half, TWO), MalformedAnswer)
    both = {"small": 1.0, "large": 2.0}
    assert isinstance(read(half | {"latency_ms": both, "baseline_ms": {"small": 9.0}}, TWO), MalformedAnswer)
    full = read(half | {"latency_ms": both, "baseline_ms": {"large": 8.0, "small": 9.0}}, TWO)
    assert full.geomean_speedup() == pytest.approx(6.0)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    ["status", "detail", "latency_ms", "baseline_ms", "refused", "failed", "candidate_id"]
)
VALUES = (
    JSON
    | st.sampled_from([status.value for status in Status])
    | st.dictionaries(st.just("default"), st.floats(), max_size=1)
)


@given(st.text() | JSON | st.dictionaries(FIELDS, VALUES))
def test_nothing_raises_and_nothing_is_faster_within_the_margin(document: Any) -> None:
    answer = read(document)
    assert isinstance(answer, Evaluation | Refused | Failed | MalformedAnswer)
    for result in answer.results if isinstance(answer, Evaluation) else ():
        for speedup in result.speedups:
            assert 0 < speedup.low < speedup.ratio < speedup.high < math.inf
