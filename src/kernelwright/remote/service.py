"""The evaluation service as an ASGI application; docs/serve.md has its endpoints."""

import asyncio
import contextlib
import logging
import math
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial

from kernelwright.core.errors import missing
from kernelwright.core.evaluation import Evaluation
from kernelwright.core.frozen import Frozen, content_hash
from kernelwright.core.machine import Machine
from kernelwright.core.roofline import Floor, Peaks
from kernelwright.core.task import Task
from kernelwright.core.version import __version__
from kernelwright.remote.floors import floors_here
from kernelwright.remote.intake import Intake, shown
from kernelwright.remote.records import (
    EvaluationAnswer,
    EvaluationRequest,
    Health,
    JobState,
    Refusal,
    TaskAnswer,
)
from kernelwright.remote.request_queue import ENDING, Full, RequestQueue, Ticket
from kernelwright.remote.sessions import Sessions
from kernelwright.remote.targets import target_problem
from kernelwright.remote.thread import OneThread
from kernelwright.runs.evaluator import Evaluator

try:
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route
except ImportError as error:
    raise missing(error, "serve") from error

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ServiceSettings:
    """Limits of a service; every default is ours."""

    max_queue: int = 64
    """Requests that may wait."""
    max_per_client: int = 8
    """Requests of one address that may wait or run."""
    max_bytes: int = 4_000_000
    """Size of one body."""
    max_wait_s: float = 30.0
    """Longest that an answer is held back."""
    max_open: int = 2
    """Tasks held open with their processes and inputs."""
    max_tasks: int = 64
    """Admitted tasks that are remembered."""
    max_finished: int = 256
    """Settled requests whose outcome is remembered."""
    grace_s: float = 10.0
    """How long the end of the service waits for the evaluation that is running."""
    baselines: tuple[str, ...] = ("eager", "torch_compile")
    """What may be compared with."""
    device: str = "cpu"
    """Kind of device that candidates are judged on: ``cpu``, ``cuda`` or ``hip``."""
    gpu: str = ""
    """Its model, for a GPU that is known."""


class Admitted(Frozen):
    """What opening a task gave."""

    baseline_ms: dict[str, float]


def make_app(
    start: Callable[[], AbstractContextManager[Evaluator]],
    *,
    token: str | None,
    peaks: Peaks | None = None,
    machine: Machine | None = None,
    settings: ServiceSettings | None = None,
) -> Starlette:
    """Return the application; its lifespan owns the thread, the referee and the open tasks.

    Args:
        start: Gives a fresh referee; called on the referee's thread with the first task, and again after a
            referee has failed. No code of a task or candidate may run in this process: the real one's
            children do that.
        token: What clients must send. None admits everyone who names this machine in the Host header:
            listen on a loopback address only.
        peaks: Of this machine, to compute floors with; None takes the client's floors as they are.
        machine: This one, told to clients so that they plan for it; None: it is not told.
        settings: Limits.
    """
    service = _Service(start, token, peaks, machine, settings or ServiceSettings())
    routes = [
        Route("/health", service.health, methods=["GET"]),
        Route("/machine", service.machine, methods=["GET"]),
        Route("/tasks", service.add_task, methods=["POST"]),
        Route("/evaluations", service.add_evaluation, methods=["POST"]),
        Route("/evaluations/{id}", service.get_evaluation, methods=["GET"]),
        Route("/evaluations/{id}", service.cancel_evaluation, methods=["DELETE"]),
    ]
    app = Starlette(routes=routes, lifespan=service.lifespan, exception_handlers={HTTPException: _refuse})
    app.state.stop = service.stop
    return app


class _Service:
    def __init__(
        self,
        start: Callable[[], AbstractContextManager[Evaluator]],
        token: str | None,
        peaks: Peaks | None,
        machine: Machine | None,
        settings: ServiceSettings,
    ) -> None:
        self._peaks, self._machine, self._settings = peaks, machine, settings
        self._intake = Intake(token, max_bytes=settings.max_bytes, max_wait_s=settings.max_wait_s)
        self._sessions = Sessions(start, max_open=settings.max_open)
        self._tasks: OrderedDict[str, tuple[Task, Admitted]] = OrderedDict()
        self._thread = OneThread("referee")
        self._queue = RequestQueue(
            self._thread,
            max_queue=settings.max_queue,
            max_per_client=settings.max_per_client,
            max_finished=settings.max_finished,
        )

    @contextlib.asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        """Serve the queue while the application runs; end the referee's processes after it."""
        serving = asyncio.ensure_future(self._queue.serve())
        try:
            yield
        finally:
            self._queue.stop()
            done, _ = await asyncio.wait([serving], timeout=self._settings.grace_s)
            if done:
                await self._thread.call(self._sessions.close)
                self._thread.end(self._settings.grace_s)
            else:  # the kernel ends the referee's processes with ours
                log.warning("an evaluation was still running; it ends with this process")

    def stop(self) -> None:
        """Answer everyone who waits; call it on the event loop's thread."""
        self._queue.stop()

    async def health(self, request: Request) -> Response:
        """Say that we are here and how long the queue is."""
        health = Health(
            version=__version__,
            queued=self._queue.n_waiting,
            running=self._queue.n_running,
            gpu=self._settings.gpu,
        )
        return _json(health)

    async def machine(self, request: Request) -> Response:
        """Say what candidates are judged on."""
        self._intake.require_access(request)
        if self._machine is None:
            raise HTTPException(404, "this service does not say what its machine is")
        return _json(self._machine)

    async def add_task(self, request: Request) -> Response:
        """Admit a task, or say how far that has come."""
        task = await self._intake.read(request, Task)
        if task.artifact is not None:
            raise HTTPException(422, "a live module's pickle stays on its machine; send a task with a source")
        known = self._tasks.get(task.id)
        if known is None:
            ticket_id = content_hash("task", _client(request), task.id)
            ticket = self._queue.find(ticket_id)  # it may have failed while nobody was waiting
            if ticket is None or ticket.state is JobState.CANCELLED:
                ticket = self._submit(request, ticket_id, self._admit(task))
            await self._queue.wait(ticket, self._settings.max_wait_s)
            known = self._outcome(task, ticket)
            if known is None:
                return _json(TaskAnswer(task_id=task.id, state=ticket.state), 202)
        self._tasks.move_to_end(task.id)
        return _json(TaskAnswer(task_id=task.id, state=JobState.DONE, baseline_ms=known[1].baseline_ms))

    async def add_evaluation(self, request: Request) -> Response:
        """Queue an evaluation."""
        wanted = await self._intake.read(request, EvaluationRequest)
        self._check(wanted)
        known = self._tasks.get(wanted.task_id)
        if known is None:
            raise HTTPException(404, f"no task {shown(wanted.task_id)} here; POST it to /tasks first")
        self._tasks.move_to_end(wanted.task_id)
        ticket = self._submit(request, wanted.id_for(_client(request)), self._evaluate(known[0], wanted))
        return _json(self._answer(ticket), 202)

    async def get_evaluation(self, request: Request) -> Response:
        """Say how far an evaluation has come, after waiting for its end as long as the client wants."""
        self._intake.require_access(request)
        ticket = self._find(request)
        await self._queue.wait(ticket, self._intake.wait_s(request))
        if self._queue.is_stopping and ticket.state not in (JobState.DONE, JobState.FAILED):
            raise _ending()
        return _json(self._answer(ticket))

    async def cancel_evaluation(self, request: Request) -> Response:
        """Take an evaluation out of the queue."""
        self._intake.require_access(request)
        ticket = self._find(request)
        if not self._queue.cancel(ticket):
            raise HTTPException(
                409, f"evaluation {ticket.id} is {ticket.state}; only a queued one can be cancelled"
            )
        return _json(self._answer(ticket))

    def _admit(self, task: Task) -> Callable[[], Frozen]:
        return lambda: Admitted(baseline_ms=self._sessions.admit(task))

    def _evaluate(self, task: Task, wanted: EvaluationRequest) -> Callable[[], Frozen]:
        return partial(
            self._sessions.evaluate,
            task,
            wanted.candidate,
            final=wanted.final,
            floors=self._floors(wanted),
            baselines=wanted.baselines,
        )

    def _submit(self, request: Request, ticket_id: str, work: Callable[[], Frozen]) -> Ticket:
        ticket = self._queue.submit(ticket_id, _client(request), work)
        if isinstance(ticket, Full):
            status = 503 if ticket.is_ending else 429
            raise HTTPException(status, ticket.line, {"Retry-After": str(ticket.retry_after_s)})
        return ticket

    def _outcome(self, task: Task, ticket: Ticket) -> tuple[Task, Admitted] | None:
        """Remember an admitted task; None while it is not; a refusal is delivered once and forgotten."""
        if ticket.problem is not None:
            self._queue.forget(ticket)
            raise HTTPException(422 if ticket.problem.kind == "task" else 500, ticket.problem.line)
        if ticket.state is JobState.CANCELLED:
            raise _ending()
        if not isinstance(ticket.result, Admitted):
            return None
        self._tasks[task.id] = task, ticket.result
        while len(self._tasks) > self._settings.max_tasks:
            self._tasks.popitem(last=False)
        return self._tasks[task.id]

    def _answer(self, ticket: Ticket) -> EvaluationAnswer:
        return EvaluationAnswer(
            id=ticket.id,
            state=ticket.state,
            ahead=self._queue.ahead(ticket),
            evaluation=ticket.result if isinstance(ticket.result, Evaluation) else None,
            problem=ticket.problem,
        )

    def _check(self, wanted: EvaluationRequest) -> None:
        unknown = sorted(set(wanted.baselines) - set(self._settings.baselines))
        if unknown:
            known = ", ".join(self._settings.baselines)
            raise HTTPException(422, f"unknown baseline {shown(unknown[0])}; known: {known}")
        if problem := target_problem(wanted.candidate.target, self._settings.device):
            raise HTTPException(422, problem)
        try:
            finite = [math.isfinite(floor.ms) for floor in self._floors(wanted).values()]
        except OverflowError as error:
            raise HTTPException(422, "a floor's work is too large for a number") from error
        if not all(finite):
            raise HTTPException(422, "a floor is not finite")

    def _floors(self, wanted: EvaluationRequest) -> dict[str, Floor]:
        return floors_here(wanted.floors, self._peaks)

    def _find(self, request: Request) -> Ticket:
        ticket_id = request.path_params["id"]
        ticket = self._queue.find(ticket_id)
        if ticket is None or isinstance(ticket.result, Admitted):
            raise HTTPException(
                404, f"no evaluation {shown(ticket_id)} here, or it was forgotten; POST it again"
            )
        return ticket


async def _refuse(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _json(Refusal(error=error.detail), error.status_code, dict(error.headers or {}))


def _json(record: Frozen, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(record.model_dump_json() + "\n", status, headers, media_type="application/json")


def _ending() -> HTTPException:
    return HTTPException(503, ENDING, {"Retry-After": "5"})


def _client(request: Request) -> str:
    return request.client.host if request.client is not None else ""
