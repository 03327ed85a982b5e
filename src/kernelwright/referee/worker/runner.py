"""Holds one module and carries out the parent's commands on it.

Candidate and reference share this code, so that both pay exactly the same for a timed call.
"""

import ctypes
import os
import socket
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from kernelwright.referee.worker import wire
from kernelwright.referee.worker.held_state import HeldState
from kernelwright.referee.worker.layouts import Slot, arena_of, lanes_of, shifted
from kernelwright.referee.worker.placement import Placement, place, use_tf32
from kernelwright.referee.worker.tensors import Arena, dtype_name, is_dense
from kernelwright.referee.worker.wire import Message

TRACEBACK_CHARS = 4000
M_PERTURB = -6
"""Option of glibc's mallopt that fills memory when it is handed out and when it is freed."""

_libc = ctypes.CDLL(None)
_now = time.perf_counter_ns  # taken before any candidate is imported


class Runner:
    """Command handlers around ``self.model``; subclasses add the commands that construct the model."""

    def __init__(self) -> None:
        self.placement = Placement()
        self.arenas: dict[str, Arena] = {}
        self.sets: dict[str, Any] = {}
        self.model: nn.Module | None = None
        self.callables: dict[str, Callable[..., Any]] = {}
        self.last: list[Any] = []
        self.previous: list[Any] = []
        self.kept: list[list[Any]] = []
        self._held: HeldState | None = None

    def handlers(self) -> dict[str, Callable[[Message], Message]]:
        """Return operation name -> function."""
        return {
            "map": lambda message: {},  # the memory has come with the message
            "place": self.place,
            "bind": self.bind,
            "upload": self.upload,
            "download": self.download,
            "reserve": self.reserve,
            "perturb": perturb,
            "forget_kept": self.forget_kept,
            "hold_state": self.hold_state,
            "upload_state": self.upload_state,
            "run": self.run,
            "time": self.time,
            "replay": self.replay,
            "dump": self.dump,
            "dump_state": self.dump_state,
        }

    def map_arenas(self, names: Sequence[str], sizes: Sequence[int], fds: Sequence[int]) -> None:
        """Map the memory that came with a message."""
        for name, size, fd in zip(names, sizes, fds, strict=True):
            self.arenas[name] = Arena(fd, size)
            os.close(fd)

    def unmap(self, names: Sequence[str]) -> None:
        """Release arenas; memory that a tensor still views is freed with its last view."""
        for name in names:
            self.arenas.pop(name, None)
            for key in [key for key in self.sets if key == name or key.startswith(f"{name}:")]:
                del self.sets[key]
                self.placement.forget(key)

    def place(self, message: Message) -> Message:
        """Have tensors live on a device from now on; answers with what is to be known of it."""
        self.placement, facts = place(message["device"])
        use_tf32(message["tf32"])
        return facts

    def bind(self, message: Message) -> Message:
        """Make argument sets from the tensors of an arena: one under its name, or ``copies`` of them.

        Copy i is called ``NAME:i`` and lies ``stride`` bytes after the copy before it. On a device one set
        can have several ``lanes``: copies of the same values at other addresses, ``NAME``, ``NAME:1`` ...
        """
        name = message["arena"]
        arena = self.arenas.get(name)
        if "copies" not in message:
            for lane in lanes_of(name, message.get("lanes", 1)):
                self.sets[lane] = self.placement.bind(lane, message["args"], arena)
            return {}
        stride = message["stride"]
        for i in range(message["copies"]):
            copy, args = f"{name}:{i}", shifted(message["args"], i * stride)
            self.sets[copy] = self.placement.bind(copy, args, arena, i * stride, (i + 1) * stride)
        return {}

    def upload(self, message: Message) -> Message:
        """Update all argument sets of an arena after the parent has written to it."""
        arena = message["arena"]
        self.placement.upload([name for name in self.sets if arena_of(name) == arena])
        return {}

    def download(self, message: Message) -> Message:
        """Write the present values of an argument set to its arena."""
        self.placement.download(message["set"])
        return {}

    def reserve(self, message: Message) -> Message:
        """Take ``bytes`` of memory from the system and from the device, and keep them for tensors."""
        self.placement.reserve(message["bytes"])
        return reserve(message)

    def hold_state(self, message: Message) -> Message:
        """Have the module's state live in an arena; answers with the slots in which it lies there."""
        if self._held is None:
            self._held = HeldState(self.arenas[message["arena"]])
        return {"state": self._held.hold(self.state())}

    def upload_state(self, message: Message) -> Message:
        """Copy named tensors from an arena to the device, past the version counters."""
        arena, own = self.arenas[message["arena"]], self.state()
        for name, slot in message["slots"].items():
            own[name].data.copy_(arena.tensor(slot))
        return {}

    def state(self) -> dict[str, torch.Tensor]:
        """Return the module's parameters and persistent buffers by name."""
        assert self.model is not None
        return {
            name: value
            for name, value in self.model.state_dict(keep_vars=True).items()
            if isinstance(value, torch.Tensor)
        }

    def run(self, message: Message) -> Message:
        """Call the module once on an argument set and describe what it returned.

        On a device, free memory is poisoned first, in blocks of the sizes in ``poison``.
        """
        args = self.sets[message["set"]]
        self.placement.settle()
        self.placement.poison(message.get("poison", ()))
        result = self.callables[message["callable"]](*args)
        self.placement.synchronise()
        outputs, is_tuple = _as_list(result)
        self.previous, self.last = self.last, outputs
        if message.get("keep"):
            self.kept.append(outputs)
        owned = self._owned(args)
        return {"is_tuple": is_tuple, "outputs": [self._describe(value, owned) for value in outputs]}

    def _owned(self, args: Any) -> list[tuple[str, torch.Tensor]]:
        named = [(f"input {i}", value) for i, value in enumerate(args) if isinstance(value, torch.Tensor)]
        named += [(f"state {name}", value) for name, value in self.state().items()]
        named += [(f"previous output {i}", v) for i, v in enumerate(self.previous) if type(v) is torch.Tensor]
        return named

    def _describe(self, value: Any, owned: list[tuple[str, torch.Tensor]]) -> Message:
        if type(value) is not torch.Tensor:
            return {"type": f"{type(value).__module__}.{type(value).__qualname__}"}
        shared = [name for name, other in owned if _share_memory(value, other)]
        return {
            "type": "torch.Tensor",
            "device": value.device.type,
            "dtype": dtype_name(value.dtype),
            "shape": list(value.shape),
            "layout": str(value.layout),
            "is_dense": value.layout is torch.strided and is_dense(value),
            "shares": shared[:1],
        }

    def time(self, message: Message) -> Message:
        """Call the module ``calls`` times, rotating through the argument sets; keep the last output.

        At any time two outputs are alive, whatever ``calls`` is: the one kept from the command before and the
        one being computed. Otherwise the heap would sometimes grow, and fresh pages from the system can cost
        more time than a kernel.
        """
        call = self.callables[message["callable"]]
        arguments = [self.sets[name] for name in message["sets"]]
        n_sets = len(arguments)
        if message["calls"]:
            self.previous, self.last = self.last, []
        result = None
        self.placement.settle()
        begin = _now()
        first = self.placement.mark()
        for i in range(message["calls"]):
            result = None
            result = call(*arguments[i % n_sets])
        second = self.placement.mark()
        self.placement.synchronise()
        elapsed = _now() - begin
        if message["calls"]:
            self.last = _as_list(result)[0]
        return {"ns": elapsed, **self.placement.between(first, second)}

    def replay(self, message: Message) -> Message:
        """Call the module once on every set, keeping all outputs."""
        call = self.callables[message["callable"]]
        arguments = [self.sets[name] for name in message["sets"]]
        results: list[Any] = []
        self.placement.settle()
        begin = _now()
        for args in arguments:
            results.append(call(*args))
        self.placement.synchronise()
        elapsed = _now() - begin
        self.kept = [_as_list(result)[0] for result in results]
        return {"ns": elapsed}

    def forget_kept(self, message: Message) -> Message:
        """Release the outputs that were kept."""
        self.kept = []
        return {}

    def dump(self, message: Message) -> Message:
        """Copy the outputs of the last, the previous or a kept call to an arena, row-major."""
        arena, which = self.arenas[message["arena"]], message["which"]
        last_two = {"last": self.last, "previous": self.previous}
        outputs = self.kept[which] if isinstance(which, int) else last_two[which]
        self.placement.synchronise()
        with torch.no_grad():
            for value, slot in zip(outputs, message["slots"], strict=True):
                arena.tensor(slot).copy_(_checked(value, slot))
        return {}

    def dump_state(self, message: Message) -> Message:
        """Copy named parameters and buffers to an arena."""
        arena, own = self.arenas[message["arena"]], self.state()
        self.placement.synchronise()
        with torch.no_grad():
            for name, slot in message["slots"].items():
                arena.tensor(slot).copy_(own[name])
        return {}


def reserve(message: Message) -> Message:
    """Take ``bytes`` of memory from the system into this process's heap.

    The environment tells malloc to return no memory to the system, so later tensors reuse these pages.
    """
    torch.empty(message["bytes"], dtype=torch.uint8).fill_(1)
    return {}


def perturb(message: Message) -> Message:
    """Fill memory with ``value`` when it is freed and with the complement when it is taken; 0 stops this.

    A module that reads memory it has not written then finds the same huge number every time, and never, by
    luck, an earlier answer.
    """
    _libc.mallopt(M_PERTURB, message["value"])
    return {}


def _as_list(result: Any) -> tuple[list[Any], bool]:
    if isinstance(result, list | tuple):
        return list(result), True
    return [result], False


def _checked(value: Any, slot: Slot) -> torch.Tensor:
    if type(value) is not torch.Tensor or list(value.shape) != slot["shape"]:
        raise TypeError("the output changed its type or shape between calls")
    if dtype_name(value.dtype) != slot["dtype"]:
        raise TypeError("the output changed its dtype between calls")
    return value


def _share_memory(left: torch.Tensor, right: torch.Tensor) -> bool:
    if left.numel() == 0 or right.numel() == 0 or torch.strided not in (left.layout, right.layout):
        return False
    a, b = left.untyped_storage(), right.untyped_storage()
    return a.data_ptr() < b.data_ptr() + b.nbytes() and b.data_ptr() < a.data_ptr() + a.nbytes()


def serve(sock: socket.socket, runner: Runner) -> None:
    """Carry out commands until the parent hangs up; an exception in a command becomes its answer."""
    while True:
        try:
            message, fds = wire.receive_with_fds(sock)
            nonce = message.pop(wire.NONCE, None)
            wire.send(sock, {**_answer(runner, message, fds), wire.NONCE: nonce})
        except wire.Closed:
            return


def _answer(runner: Runner, message: Message, fds: list[int]) -> Message:
    try:
        runner.unmap(message.pop("unmap", ()))
        runner.map_arenas(message.pop("map", ()), message.pop("sizes", ()), fds)
        with torch.no_grad():
            return runner.handlers()[message["op"]](message)
    except BaseException as error:  # a border: whatever the module's code raises becomes an answer
        return {
            "error": type(error).__name__,
            "message": str(error)[:TRACEBACK_CHARS],
            "traceback": traceback.format_exc()[-TRACEBACK_CHARS:],
        }
