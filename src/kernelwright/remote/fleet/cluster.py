"""What a fleet needs of a cluster; ``ray_cluster.py`` is the real one."""

from dataclasses import dataclass
from typing import Protocol, TypeAlias

from kernelwright.remote.fleet.parcel import TaskParcel

Sendable: TypeAlias = str | TaskParcel
"""What travels once, and is named in questions."""


class WorkerLost(Exception):
    """A worker has died, or its node has; whatever it was asked for has no answer."""


@dataclass(frozen=True)
class FleetDevice:
    """A device of a node, which one referee has for itself."""

    node: str
    """The cluster's id of the node; another one after the node was started anew."""
    host: str
    kind: str
    """E.g. ``cpu``."""
    index: int | None = None
    """Place among several; None: the node has one. Which card it is a worker finds out (``Beginning``)."""
    cpus: float = 0
    """What the referee reserves of its node, so that nobody else is placed there."""
    gpus: float = 0

    @property
    def name(self) -> str:
        """What messages call it as long as no worker has said which card it has."""
        return self.with_card("" if self.index is None else str(self.index))

    def with_card(self, card: str) -> str:
        """Return what the store calls it; ``card`` is empty where the node has one device."""
        return f"{self.host}-{self.node[:8]}/{self.kind}{':' if card else ''}{card}"


class PendingAnswer(Protocol):
    """What a worker was asked for."""

    def wait(self, seconds: float) -> bool:
        """Wait for the answer; returns whether it is there."""
        ...

    def get(self) -> str:
        """Return the answer, which is there.

        Raises:
            WorkerLost: there is none and there will be none.
        """
        ...


class WorkerHandle(Protocol):
    """A worker as its driver sees it."""

    def ask(self, method: str, *values: object) -> PendingAnswer:
        """Ask for a method of ``RefereeActor``; values are plain, or what ``put`` returned."""
        ...

    def kill(self) -> None:
        """End the worker with all its processes, whatever it is doing."""
        ...


class FleetCluster(Protocol):
    """Nodes with devices."""

    def devices(self) -> tuple[FleetDevice, ...]:
        """Return the devices of the nodes that are alive, in a fixed order."""
        ...

    def put(self, value: Sendable) -> object:
        """Send a value once; every worker can be given what is returned."""
        ...

    def start(self, device: FleetDevice) -> WorkerHandle:
        """Start a worker that has the device for itself, as soon as it is free."""
        ...

    def close(self) -> None:
        """Leave the cluster; what was started for this fleet alone ends."""
        ...
