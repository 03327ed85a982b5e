"""Dynamic axes in words: what is asked for, and which extents it comes to."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.core.dynamic import (
    DynamicAxis,
    parse_dynamic,
    read_dynamic,
    sample_extents,
    verified_extents,
)
from kernelwright.core.errors import UserError
from kernelwright.core.places import AtPath
from kernelwright.core.request import RunRequest
from kernelwright.core.request_words import read_values
from kernelwright.core.task import Task, Workload


@pytest.mark.parametrize(
    "text",
    ["batch", "batch:1-64", "batch:1-64@8,64", "rows=x:0:2-7", "rows=x:0,y:1:2-7", "a=0:1:3-9", "batch:4-"],
)
def test_words_come_back(text: str) -> None:
    axis = parse_dynamic(text)
    assert axis.words == text
    assert parse_dynamic(axis.words) == axis


@pytest.mark.parametrize(
    "text",
    ["", "x", "batch=64", "batch:0-4", "batch:9-4", "a=x:a:1-4", "batch:1-64@65", "batch:1-99999999999"],
)
def test_what_is_no_range_gets_one_line(text: str) -> None:
    with pytest.raises(UserError, match="--dynamic"):
        parse_dynamic(text)


def test_dims_of_torch_export_tie_axes() -> None:
    rows = torch.export.Dim("rows", min=2, max=30)
    (axis,) = read_dynamic({"x": {0: rows}, "y": {1: rows, 0: None}})
    assert axis == DynamicAxis(name="rows", axes=(("x", 0), ("y", 1)), low=2, high=30)


@pytest.mark.parametrize("given_", [7, {"x": 0}, {"x": {0: 4}}])
def test_other_values_are_refused(given_: object) -> None:
    with pytest.raises(UserError, match="dynamic"):
        read_dynamic(given_)


def test_a_request_says_it_again() -> None:
    request = RunRequest(
        task=AtPath(path="model.py"), dynamic=read_dynamic(["batch:1-64", "columns=x:1:2-9"])
    )
    words = request.words()
    assert [words[i + 1] for i, word in enumerate(words) if word == "--dynamic"] == [
        "batch:1-64",
        "columns=x:1:2-9",
    ]
    assert (
        read_values(RunRequest, {"dynamic": ["batch:1-64", "columns=x:1:2-9"]})["dynamic"] == request.dynamic
    )


@given(st.integers(1, 90), st.integers(1, 90), st.integers(0, 3))
def test_edges_are_verified_and_samples_are_more_than_one(low: int, more: int, seed: int) -> None:
    axis = DynamicAxis(name="n", low=low, high=low + more, timed=(low,))
    verified = verified_extents([axis], str(seed))
    assert {(low,), (low + more,)} <= set(verified)
    assert all(low <= n <= low + more for (n,) in verified)
    samples = sample_extents([axis], str(seed))
    assert len(set(samples)) >= 4
    assert all(n >= 2 for (n,) in samples)


def test_a_task_keeps_its_id_until_a_workload_is_only_verified() -> None:
    plain = Task(name="t", source="s")
    timed = Task(name="t", source="s", workloads=(Workload(is_timed=True),))
    untimed = Task(name="t", source="s", workloads=(Workload(is_timed=False),))
    assert plain.id == timed.id != untimed.id
