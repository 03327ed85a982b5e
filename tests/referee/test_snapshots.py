"""Copies of outputs, taken when calls have returned: which, of what form, and what later writes change."""

import ctypes
from typing import Any

import pytest
import torch

from kernelwright.referee.worker.snapshots import N_OTHERS, Snapshots

OUTPUT_BYTES = 4 * 6 * 4


def memmove(to: int, source: int, size: int) -> None:
    ctypes.memmove(to, source, size)


def taken(results: list[Any], depth: int = 4, first: int = 0) -> Snapshots:
    snapshots = Snapshots("cpu", memmove)
    snapshots.make_room(depth, OUTPUT_BYTES)
    snapshots.take(first, len(results), lambda number: results[number])
    return snapshots


def test_a_copy_stays_what_the_output_was() -> None:
    outputs = [torch.full((4, 6), float(i)) for i in range(9)]
    snapshots = taken(list(outputs))
    for output in outputs:
        output.fill_(-1)
    for number in snapshots.numbers():
        copies = snapshots.of(number)
        assert copies is not None and torch.equal(copies[0], torch.full((4, 6), float(number)))


def test_the_last_call_is_always_among_them_and_only_kept_calls_of_the_series() -> None:
    seen = set()
    for _ in range(60):
        numbers = taken([torch.zeros(4, 6)] * 9, depth=4).numbers()
        assert 8 in numbers and len(numbers) <= 1 + N_OTHERS
        seen |= set(numbers)
    assert seen == {5, 6, 7, 8}
    assert taken([torch.zeros(4, 6)] * 9, first=8).numbers() == [8]
    assert taken([torch.zeros(4, 6)] * 9, first=9).numbers() == []


@pytest.mark.parametrize(
    "result",
    [
        torch.arange(24.0).view(4, 6),
        torch.arange(24.0).view(6, 4).t(),
        torch.tensor(3.0).expand(4, 6),
        torch.arange(24, dtype=torch.uint8).view(4, 6),
        (torch.ones(2, 3), torch.zeros(3, dtype=torch.int64)),
        [torch.ones(4), torch.empty(0, 5)],
        torch.tensor(1.5),
    ],
)
def test_copies_have_values_and_strides_of_the_outputs(result: Any) -> None:
    copies = taken([result]).of(0)
    outputs = list(result) if isinstance(result, tuple | list) else [result]
    assert copies is not None and len(copies) == len(outputs)
    for copy, output in zip(copies, outputs, strict=True):
        assert torch.equal(copy, output) and copy.dtype == output.dtype and copy.stride() == output.stride()


@pytest.mark.parametrize(
    "result",
    [
        None,
        torch.zeros(4, 6, device="meta"),
        torch.zeros(4, 6).to_sparse(),
        torch.zeros(9000),
        torch.nn.Parameter(torch.zeros(4, 6)),
    ],
)
def test_what_has_no_plain_memory_or_no_room_is_not_copied(result: Any) -> None:
    assert taken([result]).numbers() == []
