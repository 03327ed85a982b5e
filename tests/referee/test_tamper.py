"""The fingerprint finds what was replaced or flipped, and nothing in an honest process."""

import builtins
import ctypes
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from kernelwright.referee.worker import runner
from kernelwright.referee.worker.tamper import Fingerprint


@contextmanager
def patched(owner: Any, name: str, value: Any) -> Iterator[None]:
    is_own = name in vars(owner)
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if is_own:
            setattr(owner, name, before)
        else:
            delattr(owner, name)


@contextmanager
def exchanged_code() -> Iterator[None]:
    def _as_list(result: Any) -> Any:
        return result

    before = runner._as_list.__code__
    runner._as_list.__code__ = _as_list.__code__
    try:
        yield
    finally:
        runner._as_list.__code__ = before


@contextmanager
def double_precision() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


@contextmanager
def a_mode_left_on() -> Iterator[None]:
    with torch.device("cpu"):
        yield


@contextmanager
def large_blocks_from_the_heap() -> Iterator[None]:
    libc, m_mmap_max = ctypes.CDLL(None), -4
    if not hasattr(libc, "mallinfo2"):
        pytest.skip("this C library does not tell where blocks come from")
    libc.mallopt(m_mmap_max, 0)
    try:
        yield
    finally:
        libc.mallopt(m_mmap_max, 65536)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (large_blocks_from_the_heap, "where large blocks come from"),
        (lambda: patched(time, "perf_counter_ns", lambda: 0), "time.perf_counter_ns was replaced"),
        (lambda: patched(torch, "allclose", lambda *args: True), "torch.allclose was replaced"),
        (lambda: patched(torch.Tensor, "data_ptr", lambda self: 0), "Tensor.data_ptr was replaced"),
        (lambda: patched(torch.Tensor, "shape", property(lambda self: ())), "Tensor.shape was replaced"),
        (lambda: patched(runner.Runner, "dump", lambda self, message: {}), "Runner.dump was replaced"),
        (lambda: patched(builtins, "zip", lambda *args: []), "builtins.zip was replaced"),
        (exchanged_code, "the code of"),
        (double_precision, "default dtype"),
        (a_mode_left_on, "mode"),
    ],
)
def test_what_was_changed_is_named(change: Callable[[], Any], words: str) -> None:
    fingerprint = Fingerprint()
    with change():
        changes = list(fingerprint.changes())
    assert any(words in change for change in changes), changes
    assert fingerprint.changes() == []


def test_the_number_of_threads_is_noted_and_allowed() -> None:
    fingerprint = Fingerprint()
    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)
    try:
        assert fingerprint.changes() == []
        assert fingerprint.notes() == [f"threads {before} -> {before + 1}"]
    finally:
        torch.set_num_threads(before)
