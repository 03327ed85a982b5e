"""A cluster of Ray: the only module that speaks to it."""

import contextlib
import logging
import signal
import socket
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from kernelwright.core.errors import MachineError, missing
from kernelwright.machine.built_elsewhere import toolchain
from kernelwright.machine.ray_environment import set_for_ray
from kernelwright.machine.topology import usable_cores
from kernelwright.remote.fleet.cluster import FleetDevice, Sendable, WorkerLost
from kernelwright.remote.fleet.farm import BUILDS, BuildOrder, BuiltFiles
from kernelwright.remote.fleet.records import WorkerVersion
from kernelwright.remote.fleet.worker import RefereeActor
from kernelwright.remote.lines import one_line

set_for_ray()
try:
    import ray
    from ray import exceptions
    from ray._private import worker as ray_driver
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
except ImportError as error:
    raise missing(error, "ray") from error

log = logging.getLogger(__name__)

OBJECT_STORE_BYTES = 100_000_000
"""Of a cluster of our own: texts pass through it, and live modules; Ray puts what is larger on disk; ours."""
N_CONNECTIONS = 4
"""Attempts to reach a client server; ours."""
LOST = (
    exceptions.RayActorError,
    exceptions.ActorUnschedulableError,
    exceptions.ActorPlacementGroupRemoved,
    exceptions.NodeDiedError,
    exceptions.ObjectLostError,
    exceptions.WorkerCrashedError,
    exceptions.LocalRayletDiedError,
    exceptions.OutOfMemoryError,
)
CONNECT_S = 20.0
PROCESSORS, GPUS = "CPU", "GPU"
"""What Ray calls these resources."""


class RayCluster:
    """See FleetCluster. A cluster of this process's own ends with it; of another one only our workers do."""

    def __init__(self, address: str | None, kind: str, *, is_apart: bool) -> None:
        """Connect.

        Args:
            address: what ``ray.init`` takes; None: start a cluster on this machine.
            kind: of the devices, as they are called.
            is_apart: they are GPUs.

        Raises:
            MachineError: nobody answers there, or it is another version of Ray or of Python.
        """
        self._kind, self._is_apart = kind, is_apart
        self._is_ours = not ray.is_initialized()
        if self._is_ours:
            _connect(address)
        self._actor = ray.remote(RayReferee)

    def devices(self) -> tuple[FleetDevice, ...]:
        """See FleetCluster."""
        with _connected():
            nodes = [node for node in ray.nodes() if node["Alive"]]
        nodes.sort(key=lambda node: (str(node["NodeManagerHostname"]), str(node["NodeID"])))
        return tuple(device for node in nodes for device in _devices(node, self._kind, self._is_apart))

    def put(self, value: Sendable) -> object:
        """See FleetCluster."""
        with _connected():
            return ray.put(value)

    def start(self, device: FleetDevice) -> "RayWorker":
        """See FleetCluster."""
        with _connected():
            actor = self._actor.options(
                num_cpus=device.cpus,
                num_gpus=device.gpus,
                max_restarts=0,
                max_task_retries=0,
                scheduling_strategy=NodeAffinitySchedulingStrategy(device.node, soft=False),
            )
            return RayWorker(actor.remote())

    def close(self) -> None:
        """See FleetCluster."""
        if self._is_ours:
            ray.shutdown()


class RayReferee(RefereeActor):
    """Knows which GPU is its own: of several of its node Ray gives it any that is free."""

    def _card(self) -> str:
        return ",".join(ray.get_runtime_context().get_accelerator_ids().get(GPUS, ()))


class RayWorker:
    """See WorkerHandle."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    def ask(self, method: str, *values: object) -> "RayAnswer":
        """See WorkerHandle."""
        with _connected():
            return RayAnswer(getattr(self._actor, method).remote(*values))

    def kill(self) -> None:
        """See WorkerHandle."""
        with _connected():
            ray.kill(self._actor)


class RayAnswer:
    """See PendingAnswer."""

    def __init__(self, reference: Any) -> None:
        self._reference = reference

    def wait(self, seconds: float) -> bool:
        """See PendingAnswer."""
        with _connected():
            done, _ = ray.wait([self._reference], timeout=seconds)
        return bool(done)

    def get(self) -> str:
        """See PendingAnswer."""
        with _connected():
            return str(ray.get(self._reference))


class RayFarm:
    """The build nodes of the cluster that this process is a worker of; see ``BuildElsewhere``."""

    def __init__(self, bring: str, require_sandbox: str | None = None) -> None:
        """``bring``: see ``BuildOrder``."""
        self._bring, self._require = bring, require_sandbox
        self._build = ray.remote(_build)
        self._told: set[str] = set()

    def __call__(self, programs: Sequence[str], limit_s: float, is_reported: bool) -> dict[str, bytes]:
        """Return what build nodes have built in time; nothing where there are none."""
        try:
            if not ray.cluster_resources().get(BUILDS):
                return {}
            build = self._build.options(num_cpus=0, resources={BUILDS: 1})
            asked = [build.remote(self._order(text, limit_s, is_reported)) for text in programs]
            done, late = ray.wait(asked, num_returns=len(asked), timeout=limit_s)
            for reference in late:
                ray.cancel(reference, force=True)
        except (exceptions.RayError, ConnectionError) as error:
            self._tell(one_line(error))
            return {}
        return {name: data for reference in done for name, data in self._files(reference).items()}

    def _order(self, program: str, limit_s: float, is_reported: bool) -> str:
        return BuildOrder(
            bring=self._bring, program=program, toolchain=toolchain(), version=WorkerVersion.here(),
            limit_s=limit_s, is_reported=is_reported, require_sandbox=self._require,
        ).model_dump_json()  # fmt: skip

    def _files(self, reference: Any) -> dict[str, bytes]:
        try:
            built: BuiltFiles = ray.get(reference)
        except exceptions.RayError as error:  # its node died, and so did those it was tried on after that
            built = BuiltFiles(problem=one_line(error))
        if built.problem:
            self._tell(built.problem)
        return built.files

    def _tell(self, problem: str) -> None:
        """Log each reason once."""
        if problem not in self._told:
            self._told.add(problem)
            log.warning("a build node did not compile, so this machine does: %s", problem)


def _build(order: str) -> BuiltFiles:
    """Carry an order out; runs on a build node."""
    wanted = BuildOrder.model_validate_json(order)
    module, _, name = wanted.bring.partition(":")
    built: BuiltFiles = getattr(import_module(module), name)(wanted)
    return built


def _connect(address: str | None) -> None:
    own: dict[str, Any] = {
        "num_cpus": len(usable_cores()),
        "object_store_memory": OBJECT_STORE_BYTES,
        "include_dashboard": False,
    }
    with warnings.catch_warnings(), _own_signals():
        warnings.simplefilter("ignore")
        ray_driver._worker_logs_enabled = False  # Ray prints deaths to stdout, where results go; we log them
        try:
            if address is not None:
                _require_somebody(address)
            _init(address, own if address is None else {})
        except (OSError, RuntimeError, ValueError, exceptions.RayError) as error:
            where = "on this machine" if address is None else f"at {address}"
            raise MachineError(
                f"no Ray cluster {where}: {one_line(error)}; start one with `ray start --head`, of the same "
                "versions of Ray and Python"
            ) from error


def _init(address: str | None, own: Mapping[str, Any]) -> None:
    """Call ``ray.init``, again where the client server at ``ray://`` aborts.

    That server starts a process for each client. Now and then the process ends at once, and Ray answers that
    the connection was aborted; whoever asks again gets another process.
    """
    for attempt in range(1, N_CONNECTIONS + 1):
        try:
            ray.init(address or "local", log_to_driver=False, logging_level=logging.ERROR, **own)
            return
        except ConnectionAbortedError:
            if attempt == N_CONNECTIONS:
                raise
            log.info("the client server at %s aborted the connection; once more", address)
        finally:
            if not ray.is_initialized():
                ray.shutdown()  # a failed client leaves Ray in client mode: no other cluster is reached


def _require_somebody(address: str) -> None:
    """Raise OSError where nobody listens: Ray itself would try for a minute."""
    place = urlsplit(address if "://" in address else f"//{address}")
    with socket.create_connection((place.hostname or "", place.port or 0), CONNECT_S):
        pass


@contextlib.contextmanager
def _own_signals() -> Iterator[None]:
    """Keep what SIGTERM does in this process: Ray would end it where a run is to be left in order."""
    is_ours = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if is_ours:
            signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def _connected() -> Iterator[None]:
    """Make of Ray's errors what a fleet knows."""
    try:
        yield
    except LOST as error:
        raise WorkerLost(one_line(error)) from error
    except (exceptions.RayError, ConnectionError) as error:
        raise MachineError(f"Ray failed: {one_line(error)}") from error


def _devices(node: Mapping[str, Any], kind: str, is_apart: bool) -> Iterable[FleetDevice]:
    """Return what a node has: its processor with all that Ray may use of it, or every GPU.

    A build node has nothing to time on.
    """
    resources: Mapping[str, float] = node["Resources"]
    if resources.get(BUILDS):
        return []
    name, host = str(node["NodeID"]), str(node["NodeManagerHostname"])
    cpus, gpus = resources.get(PROCESSORS, 0.0), int(resources.get(GPUS, 0.0))
    if is_apart:
        own = 1 if cpus >= gpus else 0
        return [FleetDevice(name, host, kind, number, own, 1) for number in range(gpus)]
    return [FleetDevice(name, host, kind, cpus=cpus)] if cpus >= 1 else []
