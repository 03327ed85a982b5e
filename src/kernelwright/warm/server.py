"""The process: ``python -m kernelwright.warm.server START``, which ``client.py`` runs.

Answers nobody but its own user, one evaluation at a time, and ends when it has been idle for long enough,
when a client of another version asks it to, or when its socket is gone.
"""

import asyncio
import contextlib
import fcntl
import os
import signal
import socket
import sys
import threading
import time
import uuid
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from kernelwright.core.evaluation import Evaluation
from kernelwright.core.version import __version__
from kernelwright.remote.records import EvaluationAnswer, JobState, RequestProblem
from kernelwright.remote.request_queue import Full, RequestQueue, Ticket
from kernelwright.remote.thread import OneThread
from kernelwright.warm.judge import WarmJudge
from kernelwright.warm.place import WarmPlace, peer_user, place_for, short_path
from kernelwright.warm.records import (
    MAX_LINE,
    WarmQuestion,
    WarmReply,
    WarmRequest,
    WarmStart,
    WarmState,
)

LOOK_S = 1.0
"""Between two looks at whether it is time to end."""
GRACE_S = 10.0
MAX_QUEUE = 64
_OURS_TO_REMOVE: dict[str, Any] = {"cleanup_socket": False} if sys.version_info >= (3, 13) else {}
"""The socket is unlinked here; asyncio would look for it under the short name by which it was bound."""


class WarmServer:
    """Everything but the judging; belongs to the event loop's thread."""

    def __init__(self, start: WarmStart, place: WarmPlace, lock: int) -> None:
        self._start, self._place, self._lock = start, place, lock
        self._idle_s, self._started, self._used = start.idle_s, time.time(), time.monotonic()
        self._judge: WarmJudge
        self._thread = OneThread("referee")
        self._queue = RequestQueue(
            self._thread, max_queue=MAX_QUEUE, max_per_client=MAX_QUEUE, max_finished=1
        )
        self._ending = asyncio.Event()

    async def run(self, sock: socket.socket) -> None:
        """Serve until it is time to end; every process of the referee is gone then."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                asyncio.get_running_loop().add_signal_handler(number, self._ending.set)
        self._judge = WarmJudge(Path(self._start.cache_dir), self._start.device)
        await self._thread.call(self._judge.warm_up)
        serving = asyncio.ensure_future(self._queue.serve())
        server = await asyncio.start_unix_server(self._client, sock=sock, limit=MAX_LINE, **_OURS_TO_REMOVE)
        while not self._is_over():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), LOOK_S)
        self._leave(server)
        done, _ = await asyncio.wait([serving], timeout=GRACE_S if self._queue.n_running else 1.0)
        if not done:
            self._judge.abandon()
            await asyncio.wait([serving], timeout=GRACE_S)
        await self._thread.call(self._judge.close)

    def _is_over(self) -> bool:
        if self._queue.n_running or self._queue.n_waiting:
            self._used = time.monotonic()
        is_idle = time.monotonic() - self._used > self._idle_s
        return self._ending.is_set() or is_idle or not self._place.socket.exists()

    def _leave(self, server: asyncio.Server) -> None:
        """Make room for another process at once; what is running goes on to its end."""
        self._place.socket.unlink(missing_ok=True)
        os.close(self._lock)
        server.close()
        self._queue.stop()

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if _user_of(writer) == os.getuid():
                await self._converse(reader, writer)
        except (OSError, ValidationError, ValueError, asyncio.IncompleteReadError) as error:
            sys.stderr.write(f"a client: {type(error).__name__}: {str(error)[:200]}\n")
        except asyncio.CancelledError:
            return  # the process ends, and the client has no question open
        finally:
            writer.close()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            request = WarmRequest.model_validate_json(line)
            self._used = time.monotonic()
            if request.idle_s is not None:
                self._idle_s = request.idle_s
            if request.what != "judge":
                _send(writer, WarmReply(state=self._state()))
                if request.what == "end":
                    self._ending.set()
            elif request.identity != self._start.identity or request.question is None:
                _send(writer, WarmReply(is_other=True))
            elif not await self._answer(request.question, reader, writer):
                return
            await writer.drain()

    def _state(self) -> WarmState:
        return WarmState(
            pid=os.getpid(),
            version=__version__,
            started=self._started,
            idle_s=self._idle_s,
            tasks=self._judge.tasks,
            judged=self._judge.judged,
            running=self._queue.n_running,
            queued=self._queue.n_waiting,
        )

    async def _answer(
        self, question: WarmQuestion, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Queue an evaluation and send its verdict; False when the client went away."""
        loop = asyncio.get_running_loop()

        def tell(line: str) -> None:
            loop.call_soon_threadsafe(_send, writer, WarmReply(said=line))

        ticket = self._queue.submit(
            uuid.uuid4().hex, str(id(writer)), partial(self._judge.judge, question, tell)
        )
        if isinstance(ticket, Full):
            problem = RequestProblem(kind="machine", line=f"the warm referee: {ticket.line}")
            _send(writer, WarmReply(answer=EvaluationAnswer(id="", state=JobState.FAILED, problem=problem)))
            return True
        if ahead := self._queue.ahead(ticket):
            _send(writer, WarmReply(said=f"waiting for {ahead} other evaluation(s) in the warm referee"))
        gone = asyncio.ensure_future(reader.read(1))
        settled = asyncio.ensure_future(ticket.settled.wait())
        await asyncio.wait([gone, settled], return_when=asyncio.FIRST_COMPLETED)
        if not ticket.settled.is_set():
            settled.cancel()
            self._drop(ticket)
            return False
        gone.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await gone  # the next line is to be read by nobody else
        _send(writer, WarmReply(answer=_answer_of(ticket)))
        return True

    def _drop(self, ticket: Ticket) -> None:
        """Nobody waits for it any more."""
        if not self._queue.cancel(ticket) and ticket.state is JobState.RUNNING:
            self._judge.abandon()


def _answer_of(ticket: Ticket) -> EvaluationAnswer:
    evaluation = ticket.result if isinstance(ticket.result, Evaluation) else None
    return EvaluationAnswer(id=ticket.id, state=ticket.state, evaluation=evaluation, problem=ticket.problem)


def _send(writer: asyncio.StreamWriter, reply: WarmReply) -> None:
    if not writer.is_closing():
        writer.write(reply.model_dump_json().encode() + b"\n")


def _user_of(writer: asyncio.StreamWriter) -> int:
    """Return the user of the process at the other end, as the kernel says it."""
    sock: socket.socket = writer.get_extra_info("socket")
    return peer_user(sock)


def take_lock(place: WarmPlace) -> int | None:
    """Return the lock of who listens there, None while another process has it.

    Not filelock's: this one is held on in the process that ``main`` forks, where filelock gives it up.
    """
    lock = os.open(place.lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return None
    return lock


def listen(place: WarmPlace) -> socket.socket:
    """Return a socket in the place of any that a process which has ended left behind."""
    place.socket.unlink(missing_ok=True)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with short_path(place.socket) as name:
        sock.bind(name)
    place.socket.chmod(0o600)
    sock.listen(MAX_QUEUE)
    return sock


def main() -> None:
    """Leave a process behind that serves, once it listens; none where another process already serves."""
    os.umask(0o077)
    start = WarmStart.model_validate_json(sys.argv[1])
    place = place_for(Path(start.cache_dir), start.device)
    lock = take_lock(place)
    if lock is None:
        return
    sock = listen(place)
    if os.fork():
        os._exit(0)  # who started it has nobody to wait for, and the lock and the socket live on
    asyncio.run(WarmServer(start, place, lock).run(sock))
    os._exit(0)


if __name__ == "__main__":
    main()
