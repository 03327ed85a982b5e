"""How many threads torch uses in a process."""

import contextlib
import ctypes
import functools
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from kernelwright.referee.worker.call_loop import TORCH_LIBRARY
from kernelwright.referee.worker.wire import Message


def use_threads(message: Message) -> Message:
    """Set the number of OpenMP threads for good, in torch and in every loaded OpenMP runtime."""
    torch.set_num_threads(message["count"])
    maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    for path in sorted(set(re.findall(r"/\S*lib(?:g|i)?omp\S*", maps))):
        with contextlib.suppress(AttributeError, OSError):  # a tool beside the runtime, or gone by now
            ctypes.CDLL(path).omp_set_num_threads(message["count"])
    return {}


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Use one thread inside: on a busy machine, short parallel operations take longer than serial ones.

    The process is as before afterwards. ``torch.set_num_threads`` could not be undone: from then on MKL no
    longer chooses how many threads it uses itself, which makes parallel calls of its vector functions slower.
    """
    before = torch.get_num_threads()
    set_threads = _set_openmp_threads()
    set_threads(1)
    try:
        yield
    finally:
        set_threads(before)


@functools.cache
def _set_openmp_threads() -> Callable[[int], object]:
    """Return the function of the OpenMP runtime that torch uses; torch's own where it uses none."""
    try:
        found: Callable[[int], object] = ctypes.CDLL(str(TORCH_LIBRARY)).omp_set_num_threads
    except (AttributeError, OSError):
        return torch.set_num_threads
    return found
