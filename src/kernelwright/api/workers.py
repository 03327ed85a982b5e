"""A fleet for a request, and what its workers judge with."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import Self

from kernelwright.api.building import BUILD
from kernelwright.api.closing import closer
from kernelwright.api.machines import bound_settings, parse_target, require_device
from kernelwright.api.referees import open_referee
from kernelwright.api.serving import machine_to_tell, peaks_to_judge_by
from kernelwright.core.candidate import Candidate
from kernelwright.core.closing import ClosedParameters
from kernelwright.core.machine import Machine
from kernelwright.core.policy import Policy
from kernelwright.core.target import TargetName
from kernelwright.core.task import Task
from kernelwright.core.workers import HERE
from kernelwright.machine.built_elsewhere import BuildElsewhere, put_into_cache
from kernelwright.referee.device import parse_device
from kernelwright.referee.settings import make_referee_settings
from kernelwright.remote.fleet.fleet import Fits, Fleet
from kernelwright.remote.fleet.records import WorkerOrder
from kernelwright.remote.fleet.session import FleetEvaluator, FleetPlace, FleetSession
from kernelwright.remote.fleet.worker import WorkerSetup
from kernelwright.runs.evaluator import Evaluator
from kernelwright.settings import Settings
from kernelwright.targets.registry import target_of

BRING = f"{__name__}:bring"
"""How workers find ``bring``."""


def bring(order: WorkerOrder) -> WorkerSetup:
    """Return what this machine judges with; called on a worker, which keeps to its own configuration.

    Raises:
        UserError: the sandbox is weaker than the driver requires, or there is no such device.
        MachineError: no compiler to measure the machine's peaks with.
    """
    where = bound_settings(None, order.require_sandbox, confine_tasks=order.confine_tasks)
    require_device(order.device)
    machine = machine_to_tell(where, order.device)
    settings = make_referee_settings(where)

    farm = None if parse_device(order.device).is_apart else _farm(order)

    def close(task: Task, candidate: Candidate, seconds: float) -> ClosedParameters:
        return closer(candidate.target, lambda: machine, where, farm)(task, candidate, seconds)

    def build(programs: Sequence[str]) -> None:
        if farm is not None:
            put_into_cache(settings.build_cache, farm(programs, settings.build_timeout_s, True))

    return WorkerSetup(
        start=partial(open_referee, where, order.policy, device=order.device, is_search=True),
        machine=machine,
        close=close,
        peaks=peaks_to_judge_by(where, order.device),
        build=build if farm is not None else None,
        modules=None if where.confine_tasks else where.data_dir / "modules",
    )


def _farm(order: WorkerOrder) -> BuildElsewhere:
    """Return the build nodes of the cluster that this process is a worker of; there may be none."""
    # lazy: needs the package of the extra "ray"
    from kernelwright.remote.fleet.ray_cluster import RayFarm

    return RayFarm(BUILD, order.require_sandbox)


def open_fleet(workers: str, target: TargetName, settings: Settings, policy: Policy | None = None) -> Fleet:
    """Connect to a cluster; nothing is started on its devices yet.

    Args:
        workers: ``ray`` or ``ray://HOST:PORT``.
        target: decides which devices are used.
        settings: which sandbox workers must have.
        policy: what they judge by.

    Raises:
        UserError: Ray is not installed.
        MachineError: no such cluster.
    """
    # lazy: needs the package of the extra "ray"
    from kernelwright.remote.fleet.ray_cluster import RayCluster

    kind = target_of(target).device
    order = WorkerOrder(
        bring=BRING,
        device=kind.name,
        policy=policy or Policy(),
        require_sandbox=settings.require_sandbox,
        confine_tasks=settings.confine_tasks,
    )
    address = None if workers == HERE else workers
    cluster = RayCluster(address, kind.name, is_apart=kind.is_apart)
    where = "the Ray cluster on this machine" if address is None else f"the Ray cluster at {address}"
    return Fleet(cluster, order, where)


def any_machine(machine: Machine) -> bool:
    """Fit every machine."""
    return True


class FleetRun:
    """The evaluator of one run: one device of a fleet, from the first question about its machine on."""

    def __init__(
        self,
        workers: str,
        target: str,
        settings: Settings,
        policy: Policy | None = None,
        fits: Fits = any_machine,
    ) -> None:
        """Connect to nothing yet; ``fits`` says which machines may judge."""
        self._open_fleet = partial(
            open_fleet, workers, parse_target(target, is_elsewhere=True), settings, policy
        )
        self._fits = fits
        self._fleet: Fleet | None = None
        self._place: FleetPlace | None = None

    def machine(self) -> Machine:
        """Return the machine that judges; raises MachineError where there is none."""
        return self._evaluator().machine()

    def open(self, task: Task) -> FleetSession:
        """See ``FleetEvaluator``."""
        return self._evaluator().open(task)

    def share(self) -> FleetEvaluator:
        """Return an evaluator on the same device for another run; the device stays this one's."""
        return self._evaluator()

    def close(self) -> None:
        """Leave the cluster."""
        if self._fleet is not None:
            self._fleet.close()
        self._fleet = self._place = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _evaluator(self) -> FleetEvaluator:
        if self._place is None:
            fleet = self._fleet = self._fleet or self._open_fleet()
            seat = fleet.wait_for(self._fits)
            assert seat.machine is not None
            self._place = FleetPlace(fleet, seat, seat.machine)
        return FleetEvaluator(self._place)


def shared(evaluator: Evaluator | None) -> Evaluator | None:
    """Return who judges the parts of a run: in a fleet the same device, which no part leaves."""
    return evaluator.share() if isinstance(evaluator, FleetRun) else evaluator


def is_of_fleet(evaluator: object) -> bool:
    """Tell whether a device of a fleet judges: it also closes what candidates leave open."""
    return isinstance(evaluator, FleetRun | FleetEvaluator)


def leave(evaluator: object) -> None:
    """Have a run leave its fleet, where it has one of its own."""
    if isinstance(evaluator, FleetRun):
        evaluator.close()


@contextmanager
def closing(evaluator: object) -> Iterator[None]:
    """Have a run leave its fleet afterwards, where it has one of its own."""
    try:
        yield
    finally:
        leave(evaluator)
