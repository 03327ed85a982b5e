"""Tells open pages when the store says something new: one look at the store serves all pages."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

from kernelwright.core.errors import StoreError
from kernelwright.core.frozen import content_hash
from kernelwright.report.runlist import standing
from kernelwright.store.base import Store

LOOK_S = 1.0
"""Between two looks at the store; ours."""
KEEP_ALIVE_S = 15.0
"""Silence after which a comment is sent, so that nobody between closes the connection; ours."""
SHOWN_RUNS = 100
"""Newest runs on the first page."""


class Changes:
    """Marks of what pages show: a mark differs when the page would."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._seen: dict[str | None, tuple[float, str]] = {}
        self._lock = asyncio.Lock()
        self.is_over = False

    def stop(self) -> None:
        """Let every open stream end."""
        self.is_over = True

    async def stream(self, run_id: str | None) -> AsyncIterator[str]:
        """Yield server-sent events of the list of runs, or of one run, until the server ends.

        Where the store cannot be read it ends, too: browsers ask anew.
        """
        with suppress(StoreError):
            last, said_at = await self._mark(run_id), time.monotonic()
            yield f"data: {last}\n\n"
            while not self.is_over:
                await asyncio.sleep(LOOK_S)
                mark, now = await self._mark(run_id), time.monotonic()
                if mark != last:
                    yield f"data: {mark}\n\n"
                elif now - said_at > KEEP_ALIVE_S:
                    yield ": still here\n\n"
                else:
                    continue
                last, said_at = mark, now

    async def _mark(self, run_id: str | None) -> str:
        async with self._lock:
            at, mark = self._seen.get(run_id, (0.0, ""))
            if not mark or time.monotonic() - at >= LOOK_S:
                read: Callable[[], str] = (
                    self._list_mark if run_id is None else lambda: self._run_mark(run_id)
                )
                mark = await asyncio.to_thread(read)
                self._seen[run_id] = (time.monotonic(), mark)
            return mark

    def _list_mark(self) -> str:
        return content_hash(*self._store.run_marks(SHOWN_RUNS))

    def _run_mark(self, run_id: str) -> str:
        record = self._store.get_run(run_id)
        return content_hash(standing(self._store, record), f"{record.updated_at:%s%f}")
