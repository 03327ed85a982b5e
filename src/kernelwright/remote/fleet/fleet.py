"""The devices of a cluster, and who has which: a device is one run's until the run gives it back."""

import contextlib
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from kernelwright.core.errors import MachineError, UserError
from kernelwright.core.frozen import content_hash
from kernelwright.core.machine import Machine
from kernelwright.remote.fleet.cluster import (
    FleetCluster,
    FleetDevice,
    PendingAnswer,
    Sendable,
    WorkerHandle,
    WorkerLost,
)
from kernelwright.remote.fleet.parcel import TaskParcel
from kernelwright.remote.fleet.records import Beginning, WorkerOrder, WorkerVersion
from kernelwright.remote.problems import error_of

log = logging.getLogger(__name__)

Fits = Callable[[Machine], bool]
MAX_DEATHS = 3
"""How often a worker may die on one request, or before it is ready, until that is an error; ours."""
LOOK_S = 0.2
"""Seconds between two looks at the cluster while nothing happens; ours."""
CLOSE_S = 5.0
MAX_SENT = 1024
"""Tasks and candidates that the cluster keeps for later questions; ours."""


@dataclass(frozen=True)
class FleetPatience:
    """Seconds that a fleet spends on waiting; every default is ours."""

    lost_s: float = 600.0
    """While there is no device that could judge: a node may come, or come back."""
    busy_s: float = 3600.0
    """While every device that could judge is somebody else's."""
    answer_s: float = 7200.0
    """For one answer of a worker."""


@dataclass
class WorkerSeat:
    """A device with its worker; owned by the fleet."""

    device: FleetDevice
    handle: WorkerHandle | None = None
    greeting: PendingAnswer | None = None
    beginning: PendingAnswer | None = None
    machine: Machine | None = None
    """Known once the worker is ready."""
    card: str = ""
    """See ``Beginning``; stays what it was until the next worker is ready."""
    is_held: bool = False
    deaths: int = 0
    """Workers that have died here before they were ready."""
    fault: MachineError | UserError | None = None
    """Why no worker is started here any more."""

    @property
    def is_idle(self) -> bool:
        """True when it is ready and nobody's."""
        return self.machine is not None and not self.is_held

    @property
    def name(self) -> str:
        """What the store calls the device."""
        return self.device.with_card(self.card) if self.card else self.device.name

    def exchange_workers(self, other: "WorkerSeat") -> None:
        """Give each the worker of the other one."""
        self.handle, other.handle = other.handle, self.handle
        self.greeting, other.greeting = other.greeting, self.greeting
        self.beginning, other.beginning = other.beginning, self.beginning

    def forget_worker(self) -> None:
        """End the worker, where there is one."""
        if self.handle is not None:
            with contextlib.suppress(WorkerLost):
                self.handle.kill()
        self.handle = self.greeting = self.beginning = self.machine = None


@dataclass
class Fleet:
    """All devices of one kind that a cluster has; a context manager. Belongs to whoever holds the baton.

    Only ``stop`` and ``is_stopped`` may be used without it.
    """

    cluster: FleetCluster
    order: WorkerOrder
    where: str = "the cluster"
    """In messages."""
    patience: FleetPatience = field(default_factory=FleetPatience)
    is_stopped: bool = False
    """True when whoever waits for an answer is to give up."""
    _seats: dict[FleetDevice, WorkerSeat] = field(default_factory=dict)
    _moving: list[Machine] = field(default_factory=list)
    """What runs need that have lost their device: they come first."""
    _sent: OrderedDict[str, object] = field(default_factory=OrderedDict)
    """Values by hash of their content, as the cluster knows them; those used last. A pickle's file is named
    by its content."""

    def look(self) -> None:
        """Take in what has changed: new nodes, lost ones, workers that are ready or have died.

        Raises:
            UserError: every worker has another version, or cannot judge as the order says.
            MachineError: no worker can be started on any device.
        """
        there = self.cluster.devices()
        for gone in self._seats.keys() - set(there):
            seat = self._seats.pop(gone)
            log.warning("lost %s", seat.name)
            seat.forget_worker()
        for device in there:
            self._advance(self._seats.setdefault(device, WorkerSeat(device)))
        faults = [seat.fault for seat in self._seats.values()]
        if faults and all(faults):
            first = faults[0]
            raise (
                first
                if isinstance(first, UserError)
                else MachineError(f"no worker of {self.where} can judge: {first}")
            )

    def take(self, fits: Fits, *, is_moving: bool = False) -> WorkerSeat | None:
        """Give out an idle device whose machine fits; None where there is none now.

        ``is_moving``: for a run that has lost its device; others leave it what it needs.
        """
        for seat in self._seats.values():
            machine = seat.machine
            if machine is None or seat.is_held or not fits(machine):
                continue
            if not is_moving and any(machine.is_like(wanted) for wanted in self._moving):
                continue
            seat.is_held = True
            return seat
        return None

    def release(self, seat: WorkerSeat) -> None:
        """Take a device back."""
        seat.is_held = False

    def replace(
        self, seat: WorkerSeat, machine: Machine, aside: Callable[[], AbstractContextManager[object]]
    ) -> WorkerSeat:
        """Return a device for a run that has lost its worker: the same one, else one that is like it.

        Args:
            seat: what it had.
            machine: what it had, as its worker described it.
            aside: left while nothing is to be done.

        Raises:
            MachineError: there is none, and none came for as long as the patience lasts.
        """
        seat.forget_worker()
        self._moving.append(machine)
        begin = time.monotonic()
        try:
            while True:
                self.look()
                is_there = self._seats.get(seat.device) is seat
                if is_there and seat.machine is not None and seat.machine.is_like(machine):
                    return seat
                is_starting = is_there and seat.machine is None and seat.fault is None
                found = None if is_starting else self.take(machine.is_like, is_moving=True)
                if found is not None:
                    seat.is_held = False
                    return found
                is_hopeless = is_there and not self.could(machine.is_like)
                if is_hopeless or time.monotonic() - begin > self._limit_s(machine.is_like):
                    raise MachineError(
                        f"{seat.name} was lost, and {self.where} has no other device like it; "
                        "go on with --resume when there is one"
                    )
                with aside():
                    self.rest()
        finally:
            self._moving.remove(machine)

    def could(self, fits: Fits) -> bool:
        """Tell whether a device that is there, or about to be ready, may fit."""
        return any(
            fits(seat.machine) if seat.machine is not None else seat.fault is None
            for seat in self._seats.values()
        )

    def wait_for(self, fits: Fits) -> WorkerSeat:
        """Wait for a device whose machine fits and take it.

        Raises:
            MachineError: none fits, or none became free while the patience lasted.
        """
        begin = time.monotonic()
        while True:
            self.look()
            seat = self.take(fits)
            if seat is not None:
                return seat
            if self._seats and not self.could(fits):
                raise self.unlike()
            if time.monotonic() - begin > self._limit_s(fits):
                raise self.nothing()
            self.rest()

    def rest(self) -> None:
        """Pause between two looks; raises KeyboardInterrupt where the fleet was stopped."""
        if self.is_stopped:
            raise KeyboardInterrupt
        time.sleep(LOOK_S)

    def nothing(self) -> MachineError:
        """Say that there is no device."""
        kind = self.order.device
        return MachineError(f"{self.where} has no free device for {kind}; `ray status` shows its nodes")

    def unlike(self) -> MachineError:
        """Say that no device is like the one that was begun on."""
        return MachineError(
            f"no device of {self.where} is like the one that this was begun on, and figures of different "
            "machines are never compared; bring such a machine back, or begin anew under another name"
        )

    def send(self, value: Sendable) -> object:
        """Return a value as workers can be given it; the same one is sent once while it is in use."""
        name = content_hash(value.task if isinstance(value, TaskParcel) else value)
        if name not in self._sent:
            self._sent[name] = self.cluster.put(value)
        self._sent.move_to_end(name)
        while len(self._sent) > MAX_SENT:
            self._sent.popitem(last=False)
        return self._sent[name]

    def stop(self) -> None:
        """Have everybody who waits for an answer give up."""
        self.is_stopped = True

    def close(self) -> None:
        """End all workers and leave the cluster."""
        self.stop()
        try:
            self._close_workers()
        finally:
            self._seats.clear()
            self.cluster.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _close_workers(self) -> None:
        """Let idle workers end their referees; then end them all."""
        ready = [seat.handle for seat in self._seats.values() if seat.handle and seat.is_idle]
        until = time.monotonic() + CLOSE_S
        for answer in [handle.ask("close") for handle in ready]:
            with contextlib.suppress(WorkerLost):
                if answer.wait(max(until - time.monotonic(), 0.0)):
                    answer.get()
        for seat in self._seats.values():
            seat.forget_worker()

    def _limit_s(self, fits: Fits) -> float:
        return self.patience.busy_s if self.could(fits) else self.patience.lost_s

    def _advance(self, seat: WorkerSeat) -> None:
        """Bring a worker nearer to being ready."""
        if seat.fault or seat.machine is not None:
            return
        try:
            if seat.handle is None:
                seat.handle = self.cluster.start(seat.device)
                seat.greeting = seat.handle.ask("hello")
            if seat.greeting is not None and seat.greeting.wait(0.0):
                _require_version(seat.name, seat.greeting.get())
                seat.greeting = None
                seat.beginning = seat.handle.ask("begin", self.order.model_dump_json())
            if seat.beginning is not None and seat.beginning.wait(0.0):
                begun = Beginning.model_validate_json(seat.beginning.get())
                if begun.problem is not None:
                    raise type(error_of(begun.problem))(f"{seat.name}: {begun.problem.line}")
                seat = self._owner_of(begun.card, seat)
                seat.machine, seat.card, seat.deaths = begun.machine, begun.card, 0
        except (MachineError, UserError) as error:
            seat.forget_worker()
            seat.fault = error
            log.warning("%s takes no part: %s", seat.name, error)
        except WorkerLost as lost:
            seat.forget_worker()
            seat.deaths += 1
            if seat.deaths >= MAX_DEATHS:
                seat.fault = MachineError(f"{seat.name}: its worker dies before it is ready: {lost}")
                log.warning("%s takes no part: %s", seat.name, lost)

    def _owner_of(self, card: str, seat: WorkerSeat) -> WorkerSeat:
        """Return the seat that has had a card of this node; workers that start at once may swap theirs."""
        if not card or card == seat.card:
            return seat
        for other in self._seats.values():
            is_starting = other.machine is None and other.fault is None
            if is_starting and (other.device.node, other.card) == (seat.device.node, card):
                seat.exchange_workers(other)
                return other
        return seat


def _require_version(name: str, greeting: str) -> None:
    ours, theirs = WorkerVersion.here(), WorkerVersion.model_validate_json(greeting)
    if theirs == ours:
        return
    have = f"Kernelwright {theirs.version}" if theirs.version != ours.version else "another build"
    raise UserError(
        f"{name} runs {have}, this is {ours.version} ({ours.digest}); install the same on every node"
    )
