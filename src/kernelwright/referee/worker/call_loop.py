"""The measured process's end of the loop in ``call_loop.cpp``: loads it and gives it what it calls."""

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from kernelwright.core.errors import MachineError
from kernelwright.referee.worker.tensors import Arena

WORDS = 16
TORCH_LIBRARY = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
"""It leads to what torch is linked with, too."""


class LoopError(MachineError):
    """The loop does not work with this torch."""


class CallLoop:
    """One process's loop. There is one module, and one table of argument sets by number."""

    def __init__(self, library: str) -> None:
        """Load the loop; call this before any code of a candidate runs.

        Raises:
            LoopError: torch lacks a function, or keeps its tensors in an unknown way.
        """
        self._lib = ctypes.PyDLL(library)
        self._lib.call_setup.restype = ctypes.c_char_p
        self._lib.call_serve.restype = ctypes.py_object
        self._lib.call_output.restype = ctypes.py_object
        self._lib.call_count.restype = ctypes.c_uint64
        missing = self._lib.call_setup(
            str(TORCH_LIBRARY).encode(), ctypes.c_int64(_tensor_at()), ctypes.py_object(torch.Tensor)
        )
        if missing:
            raise LoopError(f"torch {torch.__version__} has no {missing.decode()}")

    def open(self, queue: Arena, callbacks: tuple[Callable[[], Any], ...]) -> None:
        """Serve this queue from now on; the last tokens stand for the callbacks."""
        self._queue = queue
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(queue.memory))
        self._lib.call_open(ctypes.c_void_p(self.address), ctypes.py_object(callbacks))

    def serve(self) -> None:
        """Carry out tokens until a callback returns something false; raises what the module raises."""
        self._lib.call_serve()

    def forgive(self) -> None:
        """Go on after the module raised."""
        self._lib.call_forgive()

    def use(self, module: Callable[..., Any]) -> None:
        """Call this from now on."""
        self._lib.call_use(ctypes.py_object(module))

    def put(self, number: int, args: Any) -> None:
        """Give a number to an argument set."""
        if self._lib.call_set(ctypes.c_uint32(number), ctypes.py_object(tuple(args))):
            raise LoopError(f"no argument set can have the number {number}")

    def drop(self, number: int) -> None:
        """Release the argument set of a number."""
        self._lib.call_set(ctypes.c_uint32(number), None)

    def keep_last(self, count: int) -> None:
        """Keep the outputs of this many calls, and release those kept so far."""
        self._lib.call_ring(ctypes.c_uint32(count))

    def count(self) -> int:
        """Return how many calls were made."""
        return int(self._lib.call_count())

    def output(self, which: int, *, is_kept: bool) -> Any:
        """Return what a call returned: by the call's number, or by the place where it was kept."""
        return self._lib.call_output(ctypes.c_int(is_kept), ctypes.c_uint64(which))


def generator_at() -> int:
    """Return the address of the state of torch's random generator."""
    generator: Any = torch.default_generator
    return int(generator._cdata)


def _tensor_at() -> int:
    """Return where a tensor's Python object holds the tensor, in bytes."""
    probe = torch.zeros(1)
    words = (ctypes.c_uint64 * WORDS).from_address(id(probe))
    try:
        return list(words).index(probe._cdata) * 8
    except ValueError:
        raise LoopError(f"torch {torch.__version__} keeps its tensors in an unknown way") from None
