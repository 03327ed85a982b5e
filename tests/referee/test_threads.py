"""The number of threads of a process, for a while and for good."""

import ctypes
import subprocess
import sys

import pytest
import torch

from kernelwright.referee.worker.call_loop import TORCH_LIBRARY
from kernelwright.referee.worker.threads import one_thread

ASKED = """
import ctypes, torch
from kernelwright.referee.worker.threads import one_thread, use_threads
ask = ctypes.CDLL({library!r}).mkl_serv_get_dynamic
before = ask()
{then}
print(before, ask())
"""


def asks_mkl(then: str) -> list[str]:
    """Return whether MKL chooses its number of threads, before and after."""
    if not (TORCH_LIBRARY.exists() and hasattr(ctypes.CDLL(str(TORCH_LIBRARY)), "mkl_serv_get_dynamic")):
        pytest.skip("this torch has no MKL that can be asked")
    code = ASKED.format(library=str(TORCH_LIBRARY), then=then)
    return subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout.split()


def test_one_thread_lasts_as_long_as_the_block() -> None:
    before = torch.get_num_threads()
    with one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before


def test_one_thread_ends_with_an_error() -> None:
    before = torch.get_num_threads()
    with pytest.raises(ValueError, match="inside"), one_thread():
        raise ValueError("inside")
    assert torch.get_num_threads() == before


def test_one_thread_leaves_mkl_as_it_was() -> None:
    assert asks_mkl("with one_thread():\n    torch.ones(4)") == ["1", "1"]


def test_the_number_of_torch_does_not_leave_mkl_as_it_was() -> None:
    assert asks_mkl('use_threads({"count": torch.get_num_threads()})') == ["1", "0"]
