"""The parent's side of one host process. Every error of the reference in it is a TaskError."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kernelwright.core.errors import MachineError
from kernelwright.core.task import Task, Workload
from kernelwright.referee.device import Device, DeviceFacts, parse_device
from kernelwright.referee.session import admission
from kernelwright.referee.session.call_queue import Bytes
from kernelwright.referee.session.calls import Calls, Made
from kernelwright.referee.session.launcher import Child, ChildError, ChildRefused, Launcher
from kernelwright.referee.session.shared_memory import SharedMemory, TensorMemory
from kernelwright.referee.settings import RefereeSettings
from kernelwright.referee.worker.layouts import Slot
from kernelwright.referee.worker.wire import Message

ADDRESS_SLACK = 8 << 30
"""Address space besides the tensors: code, stacks, malloc arenas that are reserved and never used."""


class HostProcess:
    """One forked host and its task."""

    def __init__(self, launcher: Launcher, settings: RefereeSettings, task: Task, workload: Workload) -> None:
        self.task, self.workload = task, workload
        self._settings = settings
        self._stale: list[str] = []
        self._used = "eager"
        self._baselines: dict[str, str | None] = {"eager": None}
        self.device = parse_device(settings.device)
        usable = admission.usable_bytes(settings.memory_bytes)
        ceiling = None if self.device.has_driver else usable + ADDRESS_SLACK
        self.child = launcher.spawn_host(ceiling, is_trusted=is_trusted(task, settings))
        try:
            self.child.open_loop(launcher.loop, settings.load_timeout_s)
            self.calls = Calls(self.child, is_apart=self.device.is_apart)
            self.device_facts = put_on_device(self.child, self.device, settings, is_tf32=False)
        except BaseException:
            self.child.kill()
            raise

    @property
    def room_bytes(self) -> int:
        """Bytes for tensors on their device."""
        free = self.device_facts.free_bytes
        return admission.usable_bytes(self._settings.memory_bytes) if free is None else free

    @property
    def where(self) -> str:
        """Name of the task in messages."""
        return self.task.path or self.task.name

    def call(self, op: str, arenas: Mapping[str, SharedMemory] | None = None, **fields: Any) -> Message:
        """Send a command; raises TaskError when the reference fails at it."""
        unmap, self._stale = self._stale, []
        with self._explained():
            return self.child.call(op, self._settings.reference_timeout_s, arenas, unmap=unmap, **fields)

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except ChildError as error:
            if admission.is_out_of_memory(error):
                self._explain_size()
            raise admission.explain(self.task, self.workload, error) from error

    def bind(
        self, name: str, args: Any, memory: SharedMemory | None = None, *, names: Sequence[str] = (),
        **fields: Any,
    ) -> None:  # fmt: skip
        """Make an argument set of an arena, or several under ``names``; see the worker's ``bind``."""
        numbers = self.calls.bind(names or [name])
        self.call("bind", {name: memory} if memory else {}, arena=name, args=args, numbers=numbers, **fields)

    def make_calls(
        self, names: Sequence[str], counted: int = 1, *, callable: str = "eager", per_call_s: float = 1.0,
        keep: Sequence[int] = (),
    ) -> Made:  # fmt: skip
        """Call the reference, or a baseline; raises TaskError when it fails."""
        if callable != self._used:
            self.call("use", callable=callable)
            self._used = callable
        timeout_s = self._settings.reference_timeout_s
        with self._explained():
            made = self.calls.make(names, counted, timeout_s, per_call_s=per_call_s, keep=keep)
            self.child.drain(timeout_s)
            return made

    def run_written(
        self, sets: Mapping[str, TensorMemory], values: Sequence[Bytes], *, is_single: bool = False
    ) -> Made:
        """Call the reference once on each of ``values``; see Calls.make_written."""
        if self._used != "eager":
            self.call("use", callable="eager")
            self._used = "eager"
        with self._explained():
            timeout_s = self._settings.reference_timeout_s
            return self.calls.make_written(sets, values, timeout_s, is_single=is_single)

    def write_output(self, arena: str, slots: Sequence[Slot], which: int | None = None) -> None:
        """Have a kept output, or the last call's, written to an arena."""
        number = self.child.queue.n_calls - 1 if which is None else which
        self.call("dump", arena=arena, slots=slots, which=number, is_kept=which is not None)

    def _explain_size(self) -> None:
        """Raise TaskError with sizes and advice, if the sizes can be found without allocating anything."""
        try:
            size = self.child.call("size", self._settings.reference_timeout_s)
        except ChildError:
            return
        if None not in size.values():
            self.check_memory(size["inputs"], size["outputs"], size["state"])

    def forget(self, arena: str) -> None:
        """Have an arena unmapped with the next command."""
        self._stale.append(arena)
        self.calls.forget(arena)

    def check_memory(self, inputs: int, outputs: int, state: int) -> None:
        """Raise TaskError when tensors of these sizes in bytes are too large for this machine."""
        limit = self._settings.memory_bytes
        admission.check_memory(self.task, self.workload, inputs, outputs, state, limit)

    def prepare_baseline(self, name: str, example: str) -> str | None:
        """Make a baseline callable, warmed on an argument set; returns why it cannot be, None when it can."""
        if name not in self._baselines:
            try:
                self.child.call("compile", self._settings.reference_timeout_s, set=example, name=name)
                self._baselines[name] = None
            except ChildRefused as error:
                self._baselines[name] = f"{error.kind}: {error.text.partition(chr(10))[0]}"
            except ChildError as error:
                raise admission.explain(self.task, self.workload, error) from error
        return self._baselines[name]


def is_trusted(task: Task, settings: RefereeSettings) -> bool:
    """True where a task's reference may run with the user's rights: a live module is the user's own."""
    return not settings.confine_references or task.artifact is not None


def put_on_device(child: Child, device: Device, settings: RefereeSettings, *, is_tf32: bool) -> DeviceFacts:
    """Place a child's tensors on a device; does nothing on ``cpu``.

    Raises:
        MachineError: the child finds no such device.
    """
    if not device.is_apart:
        return DeviceFacts()
    try:
        reply = child.call("place", settings.load_timeout_s, device=device.placing(), tf32=is_tf32)
    except ChildError as error:
        words = str(error).partition("\n")[0]
        raise MachineError(
            f"device {device}: not available here ({words:.200}); name another one, or cpu"
        ) from error
    architecture = settings.device_architecture or reply["architecture"]
    facts = DeviceFacts.of(str(reply["name"]), int(reply["cache_bytes"]), reply["free_bytes"], architecture)
    if settings.device_cache_bytes is None:
        return facts
    return replace(facts, cache_bytes=settings.device_cache_bytes)
