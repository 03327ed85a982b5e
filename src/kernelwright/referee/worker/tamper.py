"""Detects changes to what a candidate must leave alone: the functions that judge it and global state.

A fingerprint is taken before the candidate is imported and compared after its calls. It finds programs that
replace functions or flip switches. Against programs that rewrite memory, the parent relies on what it sees
itself: output values, its own clock, processor time.
"""

import builtins
import ctypes
import gc
import json
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FunctionType, ModuleType
from typing import Any

import torch
from torch.nn.modules import module as nn_module

from kernelwright.referee.worker import driver, layouts, placement, runner, snapshots, tensors, threads, wire

OURS: tuple[ModuleType, ...] = (runner, tensors, wire, layouts, placement, driver, snapshots, threads)
LIBRARY: tuple[ModuleType, ...] = (builtins, time, math, json, torch, torch.nn.functional, torch.linalg)
CLASSES: tuple[type, ...] = (
    torch.Tensor, torch.nn.Module, torch.nn.Parameter, torch.UntypedStorage, torch.no_grad,
)  # fmt: skip
DEVICE_OWNERS: tuple[Any, ...] = (torch.cuda, torch.cuda.Event, torch.cuda.Stream)
"""Also compared where tensors live on a device."""
GLOBAL_HOOKS = (
    "_global_forward_hooks", "_global_forward_pre_hooks", "_global_buffer_registration_hooks",
    "_global_module_registration_hooks", "_global_parameter_registration_hooks",
)  # fmt: skip
N_NAMED = 4


class Fingerprint:
    """The state of the process at one moment."""

    def __init__(
        self, more_switches: Mapping[str, Callable[[], Any]] | None = None, more_owners: Sequence[Any] = ()
    ) -> None:
        """Take the fingerprint, with ``more_switches`` and ``more_owners`` besides the standard ones."""
        self._readers = {**SWITCHES, **(more_switches or {})}
        self._attributes = [(owner, _attributes(owner)) for owner in (*_owners(), *more_owners)]
        self._codes = [(function, _code(function)) for function in _own_functions()]
        self._modules = dict(sys.modules)
        self._switches = {name: read() for name, read in self._readers.items()}

    def changes(self) -> list[str]:
        """Return the forbidden changes since then, in words; empty when there are none."""
        return [*self._replaced(), *self._rewritten(), *self._flipped()][:N_NAMED]

    def notes(self) -> list[str]:
        """Return the allowed changes since then, for the record."""
        before = self._switches
        return [
            f"{name} {before[name]} -> {NOTED[name]()}" for name in NOTED if NOTED[name]() != before[name]
        ]

    def _replaced(self) -> Iterator[str]:
        for owner, before in self._attributes:
            now = _attributes(owner)
            for name, value in before.items():
                if now.get(name) is not value and _is_behaviour(value):
                    yield f"{_name(owner)}.{name} was replaced"
            if not isinstance(owner, ModuleType | type):
                hidden = [name for name in now if name not in before and hasattr(type(owner), name)]
                yield from (f"{_name(owner)}.{name} was replaced" for name in hidden)
        for name, module in self._modules.items():
            is_watched = name.partition(".")[0] in ("kernelwright", "torch", "time", "json", "builtins")
            if is_watched and sys.modules.get(name) is not module:
                yield f"sys.modules[{name!r}] was replaced"

    def _rewritten(self) -> Iterator[str]:
        for function, before in self._codes:
            if _code(function) != before:
                yield f"the code of {function.__module__}.{function.__qualname__} was exchanged"

    def _flipped(self) -> Iterator[str]:
        for name, read in self._readers.items():
            if name not in NOTED and read() != self._switches[name]:
                yield f"{name} was {self._switches[name]} and is {read()}"


def _owners() -> list[Any]:
    own = [value for module in OURS for value in vars(module).values() if _is_own_class(value)]
    mains = [m for m in (sys.modules.get("kernelwright.referee.worker.main"),) if m is not None]
    own += [value for module in mains for value in vars(module).values() if _is_own_class(value)]
    return [*OURS, *mains, *LIBRARY, *CLASSES, *dict.fromkeys(own)]


def _is_behaviour(value: Any) -> bool:
    return callable(value) or hasattr(type(value), "__get__")


def _attributes(owner: Any) -> dict[str, Any]:
    """Return the attributes of a module or a class, inherited ones included."""
    classes = reversed(owner.__mro__[:-1]) if isinstance(owner, type) else [owner]
    return {name: value for one in classes for name, value in vars(one).items()}


def _is_own_class(value: Any) -> bool:
    return isinstance(value, type) and value.__module__.startswith("kernelwright.")


def _own_functions() -> list[FunctionType]:
    functions = [
        value for owner in _owners() for value in vars(owner).values() if isinstance(value, FunctionType)
    ]
    return [function for function in functions if function.__module__.startswith("kernelwright.")]


def _code(function: FunctionType) -> tuple[Any, ...]:
    return function.__code__, function.__defaults__, function.__kwdefaults__


def _name(owner: Any) -> str:
    if isinstance(owner, ModuleType):
        return owner.__name__
    kind = owner if isinstance(owner, type) else type(owner)
    return f"{kind.__module__}.{kind.__qualname__}"


def _rounding() -> str:
    """Return how the processor rounds, found from sums whose results differ between rounding modes."""
    tiny = [2.0**-53, -(2.0**-53), 3 * 2.0**-54]
    sums = (1.0 + tiny[0] == 1.0, -1.0 + tiny[1] == -1.0, 1.0 + tiny[2] == 1.0 + 2.0**-52)
    return "to nearest" if sums == (True, True, True) else f"another way {sums}"


class Mallinfo(ctypes.Structure):
    """What glibc's ``mallinfo2`` returns."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks",
            "keepcost",
        )
    )  # fmt: skip


def _large_blocks() -> str | None:
    """Return where malloc takes a block from that fits in no free memory; None where it is not told.

    Nor where the referee itself has malloc keep all memory.
    """
    told = getattr(_libc, "mallinfo2", None)
    if told is None or os.environ.get("MALLOC_MMAP_MAX_") == "0":
        return None
    before = told()
    block = _libc.malloc(max(33 << 20, before.fordblks + (1 << 20)))
    is_apart = not block or told().hblkhd > before.hblkhd
    _libc.free(block)
    return "pages of their own" if is_apart else "the heap"


def _c_library() -> ctypes.CDLL:
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, (ctypes.c_size_t,)
    libc.free.argtypes = (ctypes.c_void_p,)
    if hasattr(libc, "mallinfo2"):
        libc.mallinfo2.restype = Mallinfo
    return libc


_libc = _c_library()
SWITCHES: dict[str, Callable[[], Any]] = {
    "the default dtype": torch.get_default_dtype,
    "the default device": torch.get_default_device,
    "deterministic algorithms": torch.are_deterministic_algorithms_enabled,
    "matmul precision": torch.get_float32_matmul_precision,
    "oneDNN": lambda: torch._C._get_mkldnn_enabled(),
    "autocast": lambda: torch.is_autocast_enabled("cpu"),
    "anomaly mode": torch.is_anomaly_enabled,
    "the number of function modes": lambda: torch._C._len_torch_function_stack(),
    "the number of dispatch modes": lambda: torch._C._len_torch_dispatch_stack(),
    "global module hooks": lambda: sum(len(getattr(nn_module, name, ())) for name in GLOBAL_HOOKS),
    "the trace function": sys.gettrace,
    "the profile function": sys.getprofile,
    "the profile function of threads": threading.getprofile,
    "callbacks of the collector": lambda: len(gc.callbacks),
    "rounding": _rounding,
    "where large blocks come from": _large_blocks,
    "threads": torch.get_num_threads,
    "denormals": lambda: "kept" if 5e-324 * float(len("1")) > 0 else "flushed",
    "the collector": gc.isenabled,
}
"""Name in messages -> function that reads the state."""
NOTED = {name: SWITCHES[name] for name in ("threads", "denormals", "the collector")}
"""A candidate may change these in its own process; changes are only recorded."""
