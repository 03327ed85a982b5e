"""What the parent makes of what the loop noted, and of memory that it reads from outside."""

import ctypes
import mmap
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tests.referee.conftest import HEAD, judge

from kernelwright.core.task import Task
from kernelwright.referee.sandbox.processes import family_of, state_of
from kernelwright.referee.sandbox.stopping import stopped
from kernelwright.referee.session.call_queue import RECORD
from kernelwright.referee.session.call_records import (
    SPAN_BYTES,
    Unreadable,
    can_read,
    describe,
    is_dense,
    ranges_of,
    read_memory,
    read_output,
    resolve,
    spoil_output,
    write_memory,
)
from kernelwright.referee.session.candidate_process import Failure, check_form
from kernelwright.referee.session.input_samples import OutputSpec
from kernelwright.referee.session.referee import Referee

FLOAT32 = 6
CONJUGATED = f"""{HEAD}
class Model(nn.Module):
    def forward(self, z):
        return torch.resolve_conj((z * (1 + z.abs())).conj()), z.real + 1
def get_inputs():
    return [torch.randn(16, 24, dtype=torch.complex64)]
def get_init_inputs():
    return []
"""


def record_of(values: np.ndarray[Any, Any], shape: list[int], stride: list[int]) -> Any:
    record = np.zeros((), RECORD)
    record["n_outputs"] = 1
    one = record["outputs"][0]
    one["kind"], one["dtype"], one["ndim"] = 1, FLOAT32, len(shape)
    one["size"][: len(shape)], one["stride"][: len(shape)] = shape, stride
    one["data"], one["storage_bytes"] = values.ctypes.data, values.nbytes
    return record


def test_an_expanded_row_is_not_dense() -> None:
    values = np.arange(4, dtype=np.float32)
    found = describe(record_of(values, [3, 4], [0, 1]))["outputs"][0]
    assert (found["shape"], found["dtype"], found["is_dense"]) == ([3, 4], "float32", False)


@pytest.mark.parametrize(
    ("shape", "stride", "dense"),
    [([2, 3], [3, 1], True), ([2, 3], [1, 2], True), ([2, 1], [1, 7], True), ([2, 3], [4, 1], False)],
)
def test_density_is_told_from_strides(shape: list[int], stride: list[int], dense: bool) -> None:
    assert is_dense(shape, stride) is dense


def test_memory_shared_with_an_input_is_named() -> None:
    values = np.zeros(4, np.float32)
    record = record_of(values, [4], [1])
    owned = [("input 0", values.ctypes.data + 8, 4)]
    assert describe(record, owned)["outputs"][0]["shares"] == ["input 0"]
    assert ranges_of(record, "out") == [("out", values.ctypes.data, 16)]


@pytest.mark.parametrize("stride", [[3, 1], [1, 2]])
def test_outputs_are_read_row_major(stride: list[int]) -> None:
    values = np.arange(6, dtype=np.float32)
    into = np.empty(24, np.uint8)
    read_output(os.getpid(), record_of(values, [2, 3], stride)["outputs"][0], into)
    wanted = np.lib.stride_tricks.as_strided(values, (2, 3), [4 * step for step in stride])
    assert np.array_equal(into.view(np.float32).reshape(2, 3), wanted)


def test_elements_outside_the_storage_are_refused() -> None:
    values = np.zeros(4, np.float32)
    one = record_of(values, [100], [1])["outputs"][0]
    with pytest.raises(Unreadable, match="outside its storage"):
        read_output(os.getpid(), one, np.empty(400, np.uint8))


def test_the_stride_of_one_element_may_be_anything() -> None:
    values = np.arange(6, dtype=np.float32)
    into = np.empty(24, np.uint8)
    read_output(os.getpid(), record_of(values, [1, 6], [1 << 62, 1])["outputs"][0], into)
    assert np.array_equal(into.view(np.float32), values)


def test_elements_far_apart_are_not_read_with_all_between_them() -> None:
    one = record_of(np.zeros(4, np.float32), [2, 2], [SPAN_BYTES, 1])["outputs"][0]
    one["storage_bytes"] = 8 * SPAN_BYTES
    with pytest.raises(Unreadable, match="spread over"):
        read_output(os.getpid(), one, np.empty(16, np.uint8))


def test_memory_that_is_not_there_is_unreadable() -> None:
    assert not can_read(os.getpid(), 8)
    with pytest.raises(Unreadable):
        read_memory(os.getpid(), 8, np.empty(8, np.uint8))
    assert can_read(os.getpid(), ctypes.addressof(ctypes.c_uint64(1)))


@pytest.mark.parametrize(("shape", "stride"), [([4, 8], [8, 1]), ([4, 8], [1, 4]), ([4, 4], [8, 2])])
def test_what_is_written_to_an_output_stays_within_its_elements(shape: list[int], stride: list[int]) -> None:
    rng, touched = random.Random(0), np.zeros(64, bool)
    for _ in range(100):
        values = np.zeros(64, np.float32)
        one = record_of(values, shape, stride)["outputs"][0]
        spoil_output(os.getpid(), one, rng)
        assert (values.view(np.int32) != 0).any()
        touched |= values.view(np.int32) != 0
    elements = np.zeros(64, bool)
    np.lib.stride_tricks.as_strided(elements, shape, stride)[:] = True
    assert np.array_equal(touched, elements)


def test_memory_that_may_only_be_read_is_not_written_to() -> None:
    text = ctypes.create_string_buffer(b"text")
    write_memory(os.getpid(), ctypes.addressof(text), np.frombuffer(b"next", np.uint8))
    assert text.value == b"next"
    with mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ) as page, pytest.raises(Unreadable):
        write_memory(os.getpid(), np.frombuffer(page, np.uint8).ctypes.data, np.zeros(4, np.uint8))


def test_a_process_and_its_child_stand_still_and_go_on() -> None:
    parent = "import subprocess, sys; subprocess.Popen(['sleep', '60']); print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        family = family_of(process.pid)
        with stopped(process.pid, lambda: family):
            assert [state_of(pid) for pid in family] == ["T", "T"]
        deadline = time.monotonic() + 10
        while "T" in map(state_of, family) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert "T" not in map(state_of, family)
        for pid in reversed(family):
            os.kill(pid, 9)


def test_a_process_that_goes_on_is_stopped_again() -> None:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        has_gone_on = False

        def family() -> list[int]:
            """As the end of a child may do it, whose exit signal is SIGCONT."""
            nonlocal has_gone_on
            if not has_gone_on:
                _await_state(process.pid, is_stopped=True)
                process.send_signal(signal.SIGCONT)
                has_gone_on = True
            return [process.pid]

        try:
            with stopped(process.pid, family):
                _await_state(process.pid, is_stopped=True)
            _await_state(process.pid, is_stopped=False)
        finally:
            process.kill()


def _await_state(pid: int, *, is_stopped: bool) -> None:
    deadline = time.monotonic() + 10
    while (state_of(pid) == "T") is not is_stopped:
        assert time.monotonic() < deadline
        time.sleep(0.001)


def two_outputs(memory: np.ndarray[Any, Any], begins: tuple[int, int], size: int) -> Any:
    record = record_of(memory, [size], [1])
    record["n_outputs"] = 2
    record["outputs"][1] = record["outputs"][0]
    for one, begin in zip(record["outputs"], begins, strict=False):
        one["data"], one["offset"] = memory.ctypes.data + 4 * begin, begin
    return record


@pytest.mark.parametrize(
    ("begins", "size", "overlaps"),
    [((0, 0), 4, [(0, 1)]), ((0, 3), 4, [(0, 1)]), ((4, 0), 4, []), ((0, 0), 0, [])],
)
def test_outputs_that_lie_in_each_other_are_told_from_those_in_one_storage(
    begins: tuple[int, int], size: int, overlaps: list[tuple[int, int]]
) -> None:
    reply = describe(two_outputs(np.zeros(8, np.float32), begins, size))
    assert reply["overlaps"] == overlaps


def test_outputs_share_memory_with_each_other_only_where_the_references_do() -> None:
    reply = describe(two_outputs(np.zeros(8, np.float32), (0, 0), 4))
    first = OutputSpec("float32", (4,), may_share=False, must_be_dense=True)
    with pytest.raises(Failure, match="out1 shares memory with out0"):
        check_form(reply, (first, first), is_tuple=False)
    check_form(reply, (first, replace(first, overlaps=frozenset({0}))), is_tuple=False)
    check_form(reply, (first, replace(first, must_be_dense=False)), is_tuple=False)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
@pytest.mark.parametrize("is_conjugated", [False, True])
@pytest.mark.parametrize("is_negated", [False, True])
def test_what_torch_has_put_off_is_carried_out(
    dtype: torch.dtype, is_conjugated: bool, is_negated: bool
) -> None:
    z = torch.randn(7, dtype=dtype)
    raw = np.frombuffer(z.numpy().tobytes(), np.uint8).copy()
    resolve(raw, str(dtype).removeprefix("torch."), is_conjugated=is_conjugated, is_negated=is_negated)
    wanted = z.conj() if is_conjugated else z
    wanted = torch._neg_view(wanted) if is_negated else wanted
    assert torch.equal(torch.from_numpy(raw.view(z.numpy().dtype)), torch.resolve_conj(wanted).resolve_neg())


@pytest.mark.parametrize("how", ["{}.conj()", "torch._neg_view(-{}.conj())", "{}.conj().resolve_conj()"])
def test_a_complex_output_may_be_conjugated_when_it_is_read(referee: Referee, how: str) -> None:
    with referee.open(Task(name="conjugated", source=CONJUGATED)) as session:
        assert judge(session, f"return {how.format('(x * (1 + x.abs()))')}, x.real + 1").is_verified
        assert not judge(session, "return x * (1 + x.abs()), x.real + 1").is_verified
