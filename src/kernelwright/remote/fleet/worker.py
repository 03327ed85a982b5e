"""What runs beside a device: one referee, one request at a time."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from kernelwright.core.candidate import Candidate
from kernelwright.core.closing import Closer
from kernelwright.core.errors import UserError
from kernelwright.core.finalists import Alternation
from kernelwright.core.machine import Machine
from kernelwright.core.roofline import Peaks
from kernelwright.core.task import Task
from kernelwright.remote.fleet.parcel import TaskParcel
from kernelwright.remote.fleet.records import (
    Admission,
    AlternationAnswer,
    AlternationRequest,
    Beginning,
    ClosingAnswer,
    FleetQuestion,
    WorkerOrder,
    WorkerVersion,
)
from kernelwright.remote.floors import floors_here
from kernelwright.remote.problems import problem_of
from kernelwright.remote.records import EvaluationAnswer, JobState
from kernelwright.remote.sessions import Opens, Sessions
from kernelwright.remote.targets import target_problem
from kernelwright.runs.evaluator import AlternatingSession, Session

MAX_REMEMBERED = 256
"""Answers that are given again to the same question, and tasks; ours."""


@dataclass(frozen=True)
class WorkerSetup:
    """What a worker judges with."""

    start: Callable[[], AbstractContextManager[Opens[Session]]]
    """Gives a fresh referee."""
    machine: Machine
    """The one that it judges on, told to drivers so that they plan for it."""
    peaks: Peaks | None = None
    """Of the device, to compute floors with; None takes the driver's floors as they are."""
    modules: Path | None = None
    """Where pickles of live modules go; None: none is read here."""
    close: Closer | None = None
    """Closes what candidates leave open; None: nobody does here."""
    build: Callable[[Sequence[str]], None] | None = None
    """Has programs built elsewhere, so that the referee finds them built; None: it builds them."""


class RefereeActor:
    """Judges what drivers send. None of its methods raises for a bad request.

    A task comes as a ``TaskParcel``; everything else, and every answer, is JSON.
    """

    def __init__(self) -> None:
        self._device = ""
        self._setup: WorkerSetup | None = None
        self._sessions: Sessions[Session] | None = None
        self._tasks: OrderedDict[str, Task] = OrderedDict()
        self._settled: OrderedDict[str, str] = OrderedDict()
        self._built: dict[str, None] = {}
        """Candidates that were given to build nodes."""

    def hello(self) -> str:
        """Say which Kernelwright this is; understood by every version."""
        return WorkerVersion.here().model_dump_json()

    def begin(self, order: str) -> str:
        """Make ready to judge; returns a ``Beginning``. May measure for a minute."""
        try:
            wanted = WorkerOrder.model_validate_json(order)
            module, _, name = wanted.bring.partition(":")
            self._setup = setup = getattr(import_module(module), name)(wanted)
            self._device = wanted.device
            self._sessions = Sessions(setup.start)
            return Beginning(machine=setup.machine, card=self._card()).model_dump_json()
        except Exception as error:  # the border: the driver says it
            return Beginning(problem=problem_of(error)).model_dump_json()

    def admit(self, task: TaskParcel) -> str:
        """Open a task; returns an ``Admission``."""
        try:
            return Admission(baseline_ms=self._open().admit(self._task(task))).model_dump_json()
        except Exception as error:  # the border
            return Admission(problem=problem_of(error)).model_dump_json()

    def evaluate(self, task: TaskParcel, candidate: str, question: str) -> str:
        """Judge a candidate; returns an ``EvaluationAnswer``, the same for the same ``FleetQuestion``."""
        wanted = FleetQuestion.model_validate_json(question)
        name = wanted.id
        known = self._settled.get(name)
        if known is not None:
            return known
        try:
            answer = self._judge(self._task(task), Candidate.model_validate_json(candidate), wanted)
        except Exception as error:  # the border
            failed = EvaluationAnswer(id=name, state=JobState.FAILED, problem=problem_of(error))
            return failed.model_dump_json()
        self._settled[name] = answer
        while len(self._settled) > MAX_REMEMBERED:
            self._settled.popitem(last=False)
        return answer

    def alternate(self, task: TaskParcel, request: str, *candidates: str) -> str:
        """Time finalists in turn; returns an ``AlternationAnswer``."""
        try:
            wanted = AlternationRequest.model_validate_json(request)
            finalists = tuple(map(Candidate.model_validate_json, candidates))
            found = self._alternate(self._task(task), finalists, wanted.limit_s)
            return AlternationAnswer(alternation=found).model_dump_json()
        except Exception as error:  # the border
            return AlternationAnswer(problem=problem_of(error)).model_dump_json()

    def tune(self, task: TaskParcel, candidate: str, seconds: float) -> str:
        """Close what a candidate leaves open in about so many seconds; returns a ``ClosingAnswer``."""
        try:
            close = self._setup.close if self._setup is not None else None
            if close is None:
                return ClosingAnswer().model_dump_json()
            closing = close(self._task(task), Candidate.model_validate_json(candidate), seconds)
            return ClosingAnswer(closing=closing).model_dump_json()
        except Exception as error:  # the border
            return ClosingAnswer(problem=problem_of(error)).model_dump_json()

    def close(self) -> str:
        """End the referee with its processes."""
        if self._sessions is not None:
            self._sessions.close()
        return ""

    def _card(self) -> str:
        """Return the GPU that the cluster gave to this worker; a cluster that gives any has its own way."""
        return ""

    def _judge(self, task: Task, candidate: Candidate, wanted: FleetQuestion) -> str:
        assert self._setup is not None
        if problem := target_problem(candidate.target, self._device):
            raise UserError(problem)
        self._have_built((candidate,))
        evaluation = self._open().evaluate(
            task,
            candidate,
            final=wanted.final,
            floors=floors_here(wanted.floors, self._setup.peaks),
            baselines=wanted.baselines,
        )
        # a live module's task has another id here
        named = evaluation.model_copy(update={"task_id": wanted.task_id})
        return EvaluationAnswer(id=wanted.id, state=JobState.DONE, evaluation=named).model_dump_json()

    def _alternate(
        self, task: Task, candidates: tuple[Candidate, ...], limit_s: float | None
    ) -> Alternation | None:
        self._have_built(candidates)
        with self._open().use(task) as session:
            if not isinstance(session, AlternatingSession):
                return None
            return session.alternate(candidates, limit_s)

    def _have_built(self, candidates: Sequence[Candidate]) -> None:
        build = self._setup.build if self._setup is not None else None
        programs = [c.program for c in candidates if c.id not in self._built]
        if build is None or not programs:
            return
        build(programs)
        self._built |= dict.fromkeys(candidate.id for candidate in candidates)
        while len(self._built) > MAX_REMEMBERED:
            self._built.pop(next(iter(self._built)))

    def _open(self) -> Sessions[Session]:
        if self._sessions is None:
            raise UserError("this worker was not told how to judge; is the driver of the same version?")
        return self._sessions

    def _task(self, parcel: TaskParcel) -> Task:
        known = self._tasks.get(parcel.task)
        if known is None:
            folder = self._setup.modules if self._setup is not None else None
            known = self._tasks[parcel.task] = parcel.unpack(folder)
            while len(self._tasks) > MAX_REMEMBERED:
                self._tasks.popitem(last=False)
        return known
