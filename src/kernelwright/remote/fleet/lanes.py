"""Jobs side by side, one on a device: what a bench or a comparison does with a fleet."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kernelwright.core.errors import MachineError
from kernelwright.core.machine import Machine
from kernelwright.remote.fleet.baton import Baton
from kernelwright.remote.fleet.fleet import LOOK_S, Fits, Fleet, WorkerSeat
from kernelwright.remote.fleet.session import FleetEvaluator, FleetPlace

END_S = 30.0
"""How long the end waits for lanes that were told to give up; ours."""


@dataclass(frozen=True)
class FleetJob:
    """Work that belongs on one device: the runs of one task, one after the other."""

    name: str
    play: Callable[[FleetEvaluator], object]
    fits: Fits = field(default=lambda machine: True)
    """Which machines may do it."""


@dataclass
class _Lane:
    thread: threading.Thread
    error: BaseException | None = None
    is_over: bool = False


class Lanes:
    """Hands jobs to devices as these become free, in the order of the jobs."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._baton = Baton()
        self._lanes: list[_Lane] = []
        self._changed = threading.Event()
        self._idle_since: float | None = None

    def run(self, jobs: Sequence[FleetJob], may_begin: Callable[[], bool] = lambda: True) -> list[FleetJob]:
        """Carry all jobs out; returns those that ``may_begin`` kept from beginning.

        Only one thread works at any time: the others wait for workers.

        Raises:
            MachineError: no device, or none that a job may be done on; what could be done was.
        """
        waiting = list(jobs)
        with self._baton:
            try:
                while waiting or self._lanes:
                    self._collect()
                    if not (may_begin() if waiting else self._lanes):
                        break
                    self._fleet.look()
                    self._begin(waiting)
                    self._require_hope(waiting)
                    with self._baton.aside():
                        self._changed.wait(LOOK_S)
                        self._changed.clear()
                while self._lanes:
                    self._collect()
                    with self._baton.aside():
                        self._changed.wait(LOOK_S)
                        self._changed.clear()
            except BaseException:
                self._fleet.stop()
                with self._baton.aside():
                    self._drain()
                raise
        return waiting

    def _begin(self, waiting: list[FleetJob]) -> None:
        for job in list(waiting):
            seat = self._fleet.take(job.fits)
            if seat is not None:
                waiting.remove(job)
                self._start(job, seat)

    def _start(self, job: FleetJob, seat: WorkerSeat) -> None:
        machine = seat.machine
        assert machine is not None
        place = FleetPlace(self._fleet, seat, machine, self._baton.aside)
        thread = threading.Thread(target=lambda: self._carry(lane, job, place), name=job.name, daemon=True)
        lane = _Lane(thread)
        self._lanes.append(lane)
        thread.start()

    def _carry(self, lane: _Lane, job: FleetJob, place: FleetPlace) -> None:
        with self._baton:
            try:
                job.play(FleetEvaluator(place))
            except BaseException as error:  # raised again where the lanes are run
                lane.error = error
            finally:
                place.give_back()
                lane.is_over = True
        self._changed.set()

    def _collect(self) -> None:
        for lane in [lane for lane in self._lanes if lane.is_over]:
            self._lanes.remove(lane)
            if lane.error is not None:
                raise lane.error

    def _require_hope(self, waiting: list[FleetJob]) -> None:
        """Raise MachineError where nothing is going on and nothing will."""
        if not waiting or self._lanes:
            self._idle_since = None
            return
        begin = self._idle_since = self._idle_since or time.monotonic()
        can_any = any(self._fleet.could(job.fits) for job in waiting)
        patience = self._fleet.patience
        if time.monotonic() - begin > (patience.busy_s if can_any else patience.lost_s):
            raise self._fleet.nothing()
        if not can_any and self._fleet.could(_any):
            raise MachineError(f"{waiting[0].name}: {self._fleet.unlike()}")

    def _drain(self) -> None:
        until = time.monotonic() + END_S
        for lane in self._lanes:
            lane.thread.join(max(until - time.monotonic(), 0.0))


def _any(machine: Machine) -> bool:
    return True
