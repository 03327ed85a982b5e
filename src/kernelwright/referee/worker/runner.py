"""Holds one module and carries out the parent's commands on it.

Candidate and reference share this code, so that both pay exactly the same for a timed call.
"""

import ctypes
import os
import socket
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from kernelwright.referee.worker import wire
from kernelwright.referee.worker.call_loop import CallLoop, generator_at
from kernelwright.referee.worker.held_state import HeldState
from kernelwright.referee.worker.layouts import Slot, arena_of, lanes_of, shifted
from kernelwright.referee.worker.placement import Placement, place, use_tf32
from kernelwright.referee.worker.tensors import Arena, dtype_name
from kernelwright.referee.worker.threads import use_threads
from kernelwright.referee.worker.wire import Message

TRACEBACK_CHARS = 4000
M_PERTURB = -6
"""Option of glibc's mallopt that fills memory when it is handed out and when it is freed."""
M_MMAP_THRESHOLD = -3
"""Option of glibc's mallopt: from how many bytes on a block is pages of its own, and they go with it."""

_libc = ctypes.CDLL(None)


class Runner:
    """Command handlers around ``self.model``; subclasses add the commands that construct the model."""

    sock: socket.socket
    raised: Message

    def __init__(self, loop: CallLoop) -> None:
        self.loop = loop
        self.is_open = False
        """Calls come from the queue."""
        self.placement = Placement()
        self.arenas: dict[str, Arena] = {}
        self.sets: dict[str, Any] = {}
        self.model: nn.Module | None = None
        self.callables: dict[str, Callable[..., Any]] = {}
        self._numbers: dict[str, int] = {}
        self._poison_sizes: list[int] = []
        self._marks: list[Any] = []
        self._first = 0
        """Number of the first call after the last mark."""
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
            "hold_state": self.hold_state,
            "upload_state": self.upload_state,
            "open_loop": self.open_loop,
            "keep_last": self.keep_last,
            "use": self.use,
            "poison": self.poison,
            "failure": self.failure,
            "seed": seed,
            "events": self.events,
            "taken": self.taken,
            "put_off": self.put_off,
            "dump": self.dump,
            "dump_state": self.dump_state,
            "use_threads": use_threads,
            "trim": self.trim,
            "map_blocks": map_blocks,
        }

    def map_arenas(self, names: Sequence[str], sizes: Sequence[int], fds: Sequence[int]) -> None:
        """Map the memory that came with a message."""
        for name, size, fd in zip(names, sizes, fds, strict=True):
            self.arenas[name] = Arena(fd, size)
            os.close(fd)

    def attend(self) -> bool:
        """Carry out one command of the parent's; False when it has hung up."""
        try:
            message, fds = wire.receive_with_fds(self.sock)
            nonce = message.pop(wire.NONCE, None)
            wire.send(self.sock, {**self._answer(message, fds), wire.NONCE: nonce})
        except wire.Closed:
            return False
        return True

    def _answer(self, message: Message, fds: list[int]) -> Message:
        try:
            self.unmap(message.pop("unmap", ()))
            self.map_arenas(message.pop("map", ()), message.pop("sizes", ()), fds)
            with torch.no_grad():
                return self.handlers()[message["op"]](message)
        except BaseException as error:  # a border: whatever the module's code raises becomes an answer
            return _described(error)

    def trim(self, message: Message) -> Message:
        """Give memory that nothing uses back to the system, and take all pages of some arenas.

        What the process takes from now on is the module's doing, and not a first look at its inputs.
        """
        _libc.malloc_trim(0)
        for name in message["touched"]:
            self.arenas[name].touch()
        return {}

    def unmap(self, names: Sequence[str]) -> None:
        """Release arenas; memory that a tensor still views is freed with its last view."""
        for name in names:
            self.arenas.pop(name, None)
            for key in [key for key in self.sets if key == name or key.startswith(f"{name}:")]:
                del self.sets[key]
                self.placement.forget(key)
                self.loop.drop(self._numbers.pop(key))

    def place(self, message: Message) -> Message:
        """Have tensors live on a device from now on; answers with what is to be known of it."""
        self.placement, facts = place(message["device"])
        use_tf32(message["tf32"])
        return facts

    def bind(self, message: Message) -> Message:
        """Make argument sets from the tensors of an arena: one under its name, or one for each number.

        With a ``stride``, every set lies that many bytes after the one before it. On a device one set can
        have several ``lanes``: copies of the same values at other addresses, ``NAME``, ``NAME:1`` ...
        """
        name = message["arena"]
        arena = self.arenas.get(name)
        if "stride" not in message:
            for lane in lanes_of(name, message.get("lanes", 1)):
                self.sets[lane] = self.placement.bind(lane, message["args"], arena)
        else:
            stride = message["stride"]
            for i, copy in enumerate(message["numbers"]):
                args = shifted(message["args"], i * stride)
                self.sets[copy] = self.placement.bind(copy, args, arena, i * stride, (i + 1) * stride)
        for bound, number in message["numbers"].items():
            self._numbers[bound] = number
            self.loop.put(number, self.sets[bound])
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
        held = self._held.hold(self.state())
        return {"state": held, "ranges": self._ranges()}

    def _ranges(self) -> Message:
        """Return the memory of every parameter and buffer."""
        storages = {name: value.untyped_storage() for name, value in self.state().items()}
        return {name: [storage.data_ptr(), storage.nbytes()] for name, storage in storages.items()}

    def upload_state(self, message: Message) -> Message:
        """Copy named tensors from an arena to the device, past the version counters."""
        arena, own = self.arenas[message["arena"]], self.state()
        for name, slot in message["slots"].items():
            own[name].data.copy_(arena.tensor(slot))
        return {"ranges": self._ranges()}

    def state(self) -> dict[str, torch.Tensor]:
        """Return the module's parameters and persistent buffers by name."""
        assert self.model is not None
        return {
            name: value
            for name, value in self.model.state_dict(keep_vars=True).items()
            if isinstance(value, torch.Tensor)
        }

    def open_loop(self, message: Message) -> Message:
        """Take calls from a queue from now on; messages are announced there too."""
        self.loop.open(
            self.arenas[message["arena"]], (self.attend, self._settle, self._synchronise, self._mark)
        )
        self.is_open = True
        return {"address": self.loop.address, "generator": generator_at()}

    def keep_last(self, message: Message) -> Message:
        """Keep the outputs of the last ``count`` calls, ``bytes`` each."""
        self.loop.keep_last(message["count"])
        if (snapshots := self.placement.snapshots) is not None:
            snapshots.make_room(message["count"], message["bytes"])
        return {}

    def use(self, message: Message) -> Message:
        """Call the named callable from now on."""
        self.loop.use(self.callables[message["callable"]])
        return {}

    def poison(self, message: Message) -> Message:
        """Before the next calls, poison free memory of the device in blocks of these sizes."""
        self._poison_sizes = message["blocks"]
        return {}

    def failure(self, message: Message) -> Message:
        """Answer with the exception that the module raised in the loop, and go on."""
        self.loop.forgive()
        return self.raised

    def _settle(self) -> bool:
        self.placement.settle()
        self.placement.poison(self._poison_sizes)
        return True

    def _mark(self) -> bool:
        self._marks = [self.placement.mark()]
        self._first = self.loop.count()
        return True

    def _synchronise(self) -> bool:
        self._marks.append(self.placement.mark())
        if (snapshots := self.placement.snapshots) is not None:
            snapshots.take(self._first, self.loop.count(), self._output_of)
        self.placement.synchronise()
        return True

    def _output_of(self, number: int) -> Any:
        return self.loop.output(number, is_kept=False)

    def taken(self, message: Message) -> Message:
        """Return the numbers of the last series' calls whose outputs were copied at once."""
        snapshots = self.placement.snapshots
        return {"numbers": [] if snapshots is None else snapshots.numbers()}

    def events(self, message: Message) -> Message:
        """Return the time of the last calls by the device's own clock."""
        return self.placement.between(*self._marks)

    def put_off(self, message: Message) -> Message:
        """Say which outputs of a call are conjugated, and which negated, only when they are read."""
        outputs = _as_list(self.loop.output(message["which"], is_kept=message["is_kept"]))
        return {"outputs": [[torch.is_conj(value), value.is_neg()] for value in outputs]}

    def dump(self, message: Message) -> Message:
        """Copy a call's outputs to an arena, row-major: the call ``which``, or the one kept in this place.

        With ``is_at_once`` as they were right after the series, where they were copied then.
        """
        arena, which = self.arenas[message["arena"]], message["which"]
        snapshots = self.placement.snapshots if message.get("is_at_once") else None
        outputs = None if snapshots is None else snapshots.of(which)
        if outputs is None:
            outputs = _as_list(self.loop.output(which, is_kept=message["is_kept"]))
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


def seed(message: Message) -> Message:
    """Seed torch's random generator, so that whoever leaves it in another state is seen."""
    torch.manual_seed(message["seed"])
    return {}


def perturb(message: Message) -> Message:
    """Fill memory with ``value`` when it is freed and with the complement when it is taken; 0 stops this.

    A module that reads memory it has not written then finds the same huge number every time, and never, by
    luck, an earlier answer.
    """
    _libc.mallopt(M_PERTURB, message["value"])
    return {}


def map_blocks(message: Message) -> Message:
    """Have blocks of ``bytes`` and more be pages of their own: taken with the block, given back with it."""
    _libc.mallopt(M_MMAP_THRESHOLD, message["bytes"])
    return {}


def _as_list(result: Any) -> list[Any]:
    return list(result) if isinstance(result, list | tuple) else [result]


def _checked(value: Any, slot: Slot) -> torch.Tensor:
    if type(value) is not torch.Tensor or list(value.shape) != slot["shape"]:
        raise TypeError("the output changed its type or shape between calls")
    if dtype_name(value.dtype) != slot["dtype"]:
        raise TypeError("the output changed its dtype between calls")
    return value


def serve(sock: socket.socket, runner: Runner) -> None:
    """Carry out commands and calls until the parent hangs up; an exception becomes an answer."""
    torch.set_grad_enabled(False)
    runner.sock = sock
    while not runner.is_open:
        if not runner.attend():
            return
    while True:
        try:
            runner.loop.serve()
            return
        except BaseException as error:  # a border: whatever the module's code raises becomes an answer
            runner.raised = _described(error)


def _described(error: BaseException) -> Message:
    return {
        "error": type(error).__name__,
        "message": str(error)[:TRACEBACK_CHARS],
        "traceback": "".join(traceback.format_exception(error))[-TRACEBACK_CHARS:],
    }
