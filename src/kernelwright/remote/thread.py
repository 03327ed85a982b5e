"""One thread that calls are sent to, one after the other."""

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class OneThread:
    """Like an executor with one worker, but the interpreter can end while a call is stuck in it."""

    def __init__(self, name: str) -> None:
        self._calls: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    async def call(self, work: Callable[[], T]) -> T:
        """Carry out ``work`` on the thread and return, or raise, what it does."""
        future: Future[T] = Future()
        self._calls.put((future, work))
        return await asyncio.wrap_future(future)

    def end(self, timeout_s: float) -> bool:
        """Let the thread end after the calls sent so far; returns whether it did within the time."""
        self._calls.put(None)
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _serve(self) -> None:
        while (call := self._calls.get()) is not None:
            future, work = call
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(work())
            except BaseException as error:  # the border: it is raised again where the call was made
                future.set_exception(error)
