"""The process of one reference, as the parent calls it: what goes wrong there is a TaskError."""

from collections.abc import Mapping
from typing import Any

from kernelwright.core.task import Task, Workload
from kernelwright.referee import admission
from kernelwright.referee.launcher import ChildError, ChildRefused, Launcher
from kernelwright.referee.memory import SharedMemory
from kernelwright.referee.sandbox import Limits
from kernelwright.referee.settings import RefereeSettings
from kernelwright.referee.worker.wire import Message

ADDRESS_SLACK = 8 << 30
"""Address space beside the tensors: code, stacks, malloc arenas that are reserved and never used."""


class HostProcess:
    """One forked host and the task it is there for."""

    def __init__(self, launcher: Launcher, settings: RefereeSettings, task: Task, workload: Workload) -> None:
        self.task, self.workload = task, workload
        self._settings = settings
        self._stale: list[str] = []
        self._baselines: dict[str, str | None] = {"eager": None}
        usable = admission.usable_bytes(settings.memory_bytes)
        self.child = launcher.spawn("host", Limits(address_space_bytes=usable + ADDRESS_SLACK))

    @property
    def where(self) -> str:
        """Name of the task in messages."""
        return self.task.path or self.task.name

    def call(self, op: str, arenas: Mapping[str, SharedMemory] | None = None, **fields: Any) -> Message:
        """Send a command; raises TaskError when the reference fails at it."""
        unmap, self._stale = self._stale, []
        try:
            return self.child.call(op, self._settings.reference_timeout_s, arenas, unmap=unmap, **fields)
        except ChildError as error:
            if admission.is_out_of_memory(error):
                self._explain_size()
            raise admission.explain(self.task, self.workload, error) from error

    def _explain_size(self) -> None:
        """Raise TaskError with sizes and advice, where they can be had without allocating anything."""
        try:
            size = self.child.call("size", self._settings.reference_timeout_s)
        except ChildError:
            return
        if None not in size.values():
            self.check_memory(size["inputs"], size["outputs"], size["state"])

    def forget(self, arena: str) -> None:
        """Have an arena unmapped with the next call."""
        self._stale.append(arena)

    def check_memory(self, inputs: int, outputs: int, state: int) -> None:
        """Raise TaskError when so many bytes are too many for this machine."""
        limit = self._settings.memory_bytes
        admission.check_memory(self.task, self.workload, inputs, outputs, state, limit)

    def prepare_baseline(self, name: str, example: str) -> str | None:
        """Make a baseline callable, warmed on an argument set; returns why it cannot be, None when it can."""
        if name not in self._baselines:
            try:
                self.child.call("compile", self._settings.reference_timeout_s, set=example)
                self._baselines[name] = None
            except ChildRefused as error:
                self._baselines[name] = f"{error.kind}: {error.text.partition(chr(10))[0]}"
            except ChildError as error:
                raise admission.explain(self.task, self.workload, error) from error
        return self._baselines[name]
