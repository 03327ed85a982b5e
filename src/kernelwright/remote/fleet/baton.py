"""Several runs in one process, of which one at a time works: the others wait for their workers."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType


class Baton:
    """Whoever has it works. Planning and the store need no locks of their own then."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Let others work while this thread waits."""
        self._lock.release()
        try:
            yield
        finally:
            self._lock.acquire()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()
