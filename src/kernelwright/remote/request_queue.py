"""The queue before the referee: first come, first served, one at a time."""

import asyncio
import math
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from kernelwright.core.frozen import Frozen
from kernelwright.remote.problems import problem_of
from kernelwright.remote.records import JobState, RequestProblem
from kernelwright.remote.thread import OneThread

LONGEST_RETRY_S = 60
"""A client is never told to stay away for longer; our choice."""
ENDING = "the service is ending; try again when it is back"


@dataclass
class Ticket:
    """One request and what became of it; owned by the queue."""

    id: str
    client: str
    work: Callable[[], Frozen] | None
    """Carried out on the referee's thread; None once the ticket is settled, so that memory is freed."""
    state: JobState = JobState.QUEUED
    result: Frozen | None = None
    """What ``work`` returned; present exactly when the state is ``done``."""
    problem: RequestProblem | None = None
    settled: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True)
class Full:
    """There is no room for another request."""

    line: str
    retry_after_s: int
    is_ending: bool = False


class RequestQueue:
    """Tickets in order. Every method belongs to the event loop's thread; only ``work`` runs elsewhere."""

    def __init__(self, thread: OneThread, *, max_queue: int, max_per_client: int, max_finished: int) -> None:
        """Take at most ``max_queue`` requests that wait and remember ``max_finished`` that are settled."""
        self._thread = thread
        self._max_queue, self._max_per_client = max_queue, max_per_client
        self._max_finished = max_finished
        self._waiting: deque[Ticket] = deque()
        self._running: Ticket | None = None
        self._finished: OrderedDict[str, Ticket] = OrderedDict()
        self._arrived = asyncio.Event()
        self._stopping = asyncio.Event()
        self._last_s = 1.0

    @property
    def n_waiting(self) -> int:
        """Requests that wait."""
        return len(self._waiting)

    @property
    def n_running(self) -> int:
        """0 or 1."""
        return int(self._running is not None)

    @property
    def is_stopping(self) -> bool:
        """True from ``stop`` on."""
        return self._stopping.is_set()

    def submit(self, ticket_id: str, client: str, work: Callable[[], Frozen]) -> Ticket | Full:
        """Queue a request; the same id again is the same ticket while it waits, runs or is done."""
        known = self.find(ticket_id)
        if known is not None and known.state not in (JobState.FAILED, JobState.CANCELLED):
            return known
        full = self._full(client)
        if full is not None:
            return full
        self._finished.pop(ticket_id, None)
        ticket = Ticket(ticket_id, client, work)
        self._waiting.append(ticket)
        self._arrived.set()
        return ticket

    def find(self, ticket_id: str) -> Ticket | None:
        """Return a ticket by id, None when it is unknown or was forgotten."""
        if self._running is not None and self._running.id == ticket_id:
            return self._running
        waiting = next((ticket for ticket in self._waiting if ticket.id == ticket_id), None)
        return waiting or self._finished.get(ticket_id)

    def ahead(self, ticket: Ticket) -> int | None:
        """Return how many are carried out before it; None when it is not waiting."""
        if ticket.state is not JobState.QUEUED:
            return None
        return self._waiting.index(ticket) + self.n_running

    def cancel(self, ticket: Ticket) -> bool:
        """Take a waiting ticket out of the queue; returns False when it is too late."""
        if ticket.state is JobState.QUEUED:
            self._waiting.remove(ticket)
            self._settle(ticket, JobState.CANCELLED)
        return ticket.state is JobState.CANCELLED

    def forget(self, ticket: Ticket) -> None:
        """Forget a settled ticket: the same request again is carried out again."""
        self._finished.pop(ticket.id, None)

    async def wait(self, ticket: Ticket, seconds: float) -> None:
        """Return when the ticket is settled, the time is over or the queue stops."""
        waits = [asyncio.ensure_future(event.wait()) for event in (ticket.settled, self._stopping)]
        try:
            await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def serve(self) -> None:
        """Carry out one ticket after the other until the queue stops."""
        while not self.is_stopping:
            if not self._waiting:
                self._arrived.clear()
                await self._arrived.wait()
                continue
            await self._carry_out(self._waiting.popleft())

    def stop(self) -> None:
        """Cancel what waits and wake whoever does; what is running goes on to its end."""
        self._stopping.set()
        while self._waiting:
            self._settle(self._waiting.popleft(), JobState.CANCELLED)
        self._arrived.set()

    async def _carry_out(self, ticket: Ticket) -> None:
        work = ticket.work
        assert work is not None
        ticket.state, self._running = JobState.RUNNING, ticket
        begin = time.monotonic()
        try:
            ticket.result = await self._thread.call(work)
            state = JobState.DONE
        except Exception as error:  # the border: the service lives on
            ticket.problem, state = problem_of(error), JobState.FAILED
        self._last_s = time.monotonic() - begin
        self._running = None
        self._settle(ticket, state)

    def _settle(self, ticket: Ticket, state: JobState) -> None:
        ticket.state, ticket.work = state, None
        self._finished[ticket.id] = ticket
        while len(self._finished) > self._max_finished:
            self._finished.popitem(last=False)
        ticket.settled.set()

    def _full(self, client: str) -> Full | None:
        retry_after_s = min(max(math.ceil(self._last_s), 1), LONGEST_RETRY_S)
        if self.is_stopping:
            return Full(ENDING, retry_after_s, is_ending=True)
        if len(self._waiting) >= self._max_queue:
            return Full(f"the queue is full ({self._max_queue} wait); try again later", retry_after_s)
        unsettled = (*self._waiting, *([self._running] if self._running else []))
        if sum(ticket.client == client for ticket in unsettled) >= self._max_per_client:
            return Full(f"you have {self._max_per_client} requests here already; wait for one", retry_after_s)
        return None
