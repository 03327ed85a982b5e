"""What a run sees of a fleet: an evaluator on one device."""

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from kernelwright.core.candidate import Candidate
from kernelwright.core.closing import ClosedParameters
from kernelwright.core.errors import MachineError
from kernelwright.core.evaluation import Evaluation
from kernelwright.core.finalists import Alternation
from kernelwright.core.machine import Machine
from kernelwright.core.roofline import Floor
from kernelwright.core.task import Task
from kernelwright.remote.fleet.cluster import PendingAnswer, WorkerLost
from kernelwright.remote.fleet.fleet import MAX_DEATHS, Fleet, WorkerSeat
from kernelwright.remote.fleet.parcel import TaskParcel
from kernelwright.remote.fleet.records import (
    Admission,
    AlternationAnswer,
    AlternationRequest,
    ClosingAnswer,
    FleetQuestion,
)
from kernelwright.remote.problems import error_of
from kernelwright.remote.records import EvaluationAnswer

POLL_S = 0.25
"""Seconds after which a wait looks whether it is to end; ours."""
Aside = Callable[[], AbstractContextManager[object]]


@dataclass
class FleetPlace:
    """The device that a run has; another one that is like it after a loss."""

    fleet: Fleet
    seat: WorkerSeat
    machine: Machine
    aside: Aside = nullcontext
    """What is entered while an answer is waited for."""

    def ask(self, what: str, method: str, *values: object) -> str:
        """Return a worker's answer; a question that was lost with its worker is asked again.

        Args:
            what: is asked about, in messages.
            method: of ``RefereeActor``.
            values: texts, or what the fleet has sent.

        Raises:
            MachineError: workers die of this question, the answer takes too long, or no device is left.
            KeyboardInterrupt: the fleet was stopped.
        """
        n_dead = 0
        while True:
            if self.seat.handle is not None:
                try:
                    return self._wait(what, self.seat.handle.ask(method, *values))
                except WorkerLost as lost:
                    # a device that is gone took its worker along, whatever that was asked
                    n_dead += self.seat.device in self.fleet.cluster.devices()
                    if n_dead == MAX_DEATHS:
                        self.seat.forget_worker()
                        raise MachineError(f"{what}: {n_dead} workers in a row died of it: {lost}") from lost
            self.seat = self.fleet.replace(self.seat, self.machine, self.aside)

    def give_back(self) -> None:
        """Let others have the device."""
        self.fleet.release(self.seat)

    def _wait(self, what: str, answer: PendingAnswer) -> str:
        limit_s = self.fleet.patience.answer_s
        until = time.monotonic() + limit_s
        with self.aside():
            while not answer.wait(POLL_S):
                if self.fleet.is_stopped:
                    raise KeyboardInterrupt
                if time.monotonic() > until:
                    self.seat.forget_worker()  # it is at work on what nobody waits for
                    raise MachineError(f"{what}: no answer of {self.seat.name} in {limit_s:.0f} s")
        return answer.get()


class FleetEvaluator:
    """Judges on one device of a fleet; satisfies the engine's ``Evaluator``."""

    def __init__(self, place: FleetPlace) -> None:
        self._place = place

    def machine(self) -> Machine:
        """Return the machine that judges."""
        return self._place.machine

    def open(self, task: Task) -> "FleetSession":
        """Have a task admitted.

        Raises:
            TaskError: the referee refuses the task.
            UserError: it is a live module, and the worker confines tasks.
            MachineError: no device is left, or the worker failed.
        """
        return FleetSession(self._place, task)


class FleetSession:
    """One admitted task. Nothing is measured twice because an answer was lost on its way."""

    def __init__(self, place: FleetPlace, task: Task) -> None:
        self._place, self._task = place, task
        self._attempt = uuid.uuid4().hex
        self._parcel = place.fleet.send(TaskParcel.of(task))
        admitted = Admission.model_validate_json(place.ask(task.name, "admit", self._parcel))
        if admitted.problem is not None:
            raise error_of(admitted.problem)
        self._baseline_ms = admitted.baseline_ms

    @property
    def baseline_ms(self) -> Mapping[str, float]:
        """Eager latency per workload, as the device had it at admission."""
        return self._baseline_ms

    def evaluate(
        self,
        candidate: Candidate,
        *,
        final: bool = False,
        floors: Mapping[str, Floor] | None = None,
        baselines: tuple[str, ...] = ("eager",),
    ) -> Evaluation:
        """Return the verdict on a candidate, which names the device.

        Raises:
            TaskError: the reference failed.
            MachineError: see ``FleetPlace.ask``; or the worker failed.
        """
        question = FleetQuestion(
            task_id=self._task.id,
            candidate_id=candidate.id,
            final=final,
            floors=dict(floors or {}),
            baselines=tuple(baselines),
            attempt=self._attempt,
        )
        what = f"candidate {candidate.id}"
        values = (self._parcel, self._sent(candidate), question.model_dump_json())
        answer = EvaluationAnswer.model_validate_json(self._place.ask(what, "evaluate", *values))
        if answer.problem is not None:
            raise error_of(answer.problem)
        found, wanted = answer.evaluation, (self._task.id, candidate.id, final)
        if found is None or (found.task_id, found.candidate_id, found.is_final) != wanted:
            raise MachineError(f"{what}: {self._place.seat.name} answers something else")
        return found.model_copy(update={"device": self._place.seat.name})

    def alternate(self, candidates: Sequence[Candidate], limit_s: float | None = None) -> Alternation | None:
        """Return how these candidates were timed in turn, None where that could not be."""
        request = AlternationRequest(limit_s=limit_s).model_dump_json()
        sent = map(self._sent, candidates)
        text = self._place.ask("the finalists", "alternate", self._parcel, request, *sent)
        answer = AlternationAnswer.model_validate_json(text)
        if answer.problem is not None:
            raise error_of(answer.problem)
        return answer.alternation

    def close_parameters(self, candidate: Candidate, seconds: float) -> ClosedParameters | None:
        """Return what cheap timings on the device chose, None where nobody takes them there."""
        text = self._place.ask(
            f"the parameters of candidate {candidate.id}",
            "tune",
            self._parcel,
            self._sent(candidate),
            seconds,
        )
        answer = ClosingAnswer.model_validate_json(text)
        if answer.problem is not None:
            raise error_of(answer.problem)
        return answer.closing

    def _sent(self, candidate: Candidate) -> object:
        return self._place.fleet.send(candidate.model_dump_json())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        """The worker keeps the task open as long as it sees fit."""
