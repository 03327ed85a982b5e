"""The trusted side of the process that times points: starts it confined, asks it, ends it in time."""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kernelwright.core.errors import MachineError, TaskError, UserError
from kernelwright.core.task import Mode, Task
from kernelwright.machine.children import bare_environment
from kernelwright.machine.device_lease import lease_processor
from kernelwright.tasks.namespace import bind_source

START_S = 120.0
LOG_TAIL = 500
ANSWER_BYTES = 8 << 20
_CONFINED = "kernelwright.referee.session.confined"


class WorkerEnded(Exception):
    """The process died or was too late."""


class PointTimer:
    """Builds and times closed sources in one confined process; a process that dies is started again."""

    def __init__(self, task: Task, *, threads: int) -> None:
        if task.artifact is not None:
            raise UserError(f"{task.name}: tuning takes tasks that are files, not modules of this process")
        self._task, self._threads = task, threads
        self._folder = tempfile.TemporaryDirectory(prefix="kernelwright-tune-", ignore_cleanup_errors=True)
        self._process: subprocess.Popen[bytes] | None = None
        self._answers = -1
        self._pending = b""
        self._sources: dict[int, str] = {}
        """Of the points that are loaded."""
        self.n_restarts = 0

    def __enter__(self) -> Self:
        self._be_there()  # now, so that no point is charged for it
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()
        self._folder.cleanup()

    def load(self, sources: Mapping[int, str], timeout_s: float) -> dict[int, str | None]:
        """Build and load points; return what is wrong with each. Those that end the process are named so.

        It takes no longer than ``timeout_s`` and a start of the process; what is left then has no time left.
        """
        deadline = time.monotonic() + timeout_s
        if timeout_s <= 0:
            return dict.fromkeys(sources, "no time was left to build it")
        try:
            found = self._ask({"op": "load", "sources": {str(n): s for n, s in sources.items()}}, timeout_s)
        except WorkerEnded as error:
            self._revive()
            if len(sources) == 1:
                return dict.fromkeys(sources, f"it ended the process: {error}")
            middle = len(sources) // 2
            items = list(sources.items())
            first, second = dict(items[:middle]), dict(items[middle:])
            found_first = self.load(first, deadline - time.monotonic())
            return {**found_first, **self.load(second, deadline - time.monotonic())}
        told = {int(n): why for n, why in found.items()} if isinstance(found, dict) else {}
        wrong: dict[int, str | None] = {n: told.get(n, "no answer") for n in sources}
        self._sources |= {n: sources[n] for n, why in wrong.items() if why is None}
        return wrong

    def time(self, points: Sequence[int], rounds: int, timeout_s: float) -> dict[int, list[float]]:
        """Return milliseconds of each point, turn by turn; empty where the process ended over it."""
        try:
            self._be_there()
            with lease_processor():  # nobody else times meanwhile, whatever command it belongs to
                found = self._call({"op": "time", "points": list(points), "rounds": rounds}, timeout_s)
        except WorkerEnded:
            self._revive()
            return {}
        if not isinstance(found, dict):
            return {}
        sound = {n: times for n, times in found.items() if _are_times(times, rounds)}
        return {int(n): [float(ms) for ms in times] for n, times in sound.items()}

    # -- the process -------------------------------------------------------------------------------

    def _ask(self, request: dict[str, Any], timeout_s: float) -> Any:
        self._be_there()
        return self._call(request, timeout_s)

    def _be_there(self) -> None:
        if self._process is None:
            self._start()

    def _start(self) -> None:
        folder = self._folder.name
        reading, writing = os.pipe()
        log = open(Path(folder, "log.txt"), "wb")  # noqa: SIM115  handed to the child
        command = [sys.executable, "-m", _CONFINED, str(writing), folder, sys.executable, "-m"]
        command += ["kernelwright.referee.point_worker", str(writing), str(self._threads)]
        try:
            self._process = subprocess.Popen(
                command,
                cwd=folder,
                env=bare_environment(
                    folder, threads=self._threads, LANG="C.UTF-8", PYTHONDONTWRITEBYTECODE="1"
                ),
                stdin=subprocess.PIPE, stdout=log, stderr=log, pass_fds=[writing], start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise MachineError(f"no process can be started to time points: {error}") from error
        finally:
            os.close(writing)
            log.close()
        self._answers, self._pending = reading, b""
        self._line(time.monotonic() + START_S)  # the sandbox's tier
        opened = {"op": "open", "task": bind_source(self._task, self._task.workloads[0])}
        try:
            self._call({**opened, "is_eval": self._task.mode is Mode.EVAL}, START_S)
        except WorkerEnded as error:
            self._end()
            raise TaskError(f"{self._task.name}: the reference does not run to be timed: {error}") from error

    def _call(self, request: dict[str, Any], timeout_s: float) -> Any:
        assert self._process is not None and self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
            reply = json.loads(self._line(time.monotonic() + timeout_s))
        except (OSError, ValueError) as error:
            raise WorkerEnded(self._last_words() or str(error)) from error
        if not isinstance(reply, dict) or "answer" not in reply:
            raise WorkerEnded(str(reply.get("error")) if isinstance(reply, dict) else "no answer")
        return reply["answer"]

    def _line(self, deadline: float) -> bytes:
        while b"\n" not in self._pending:
            ready, _, _ = select.select([self._answers], [], [], max(0.0, deadline - time.monotonic()))
            piece = os.read(self._answers, 1 << 16) if ready else b""
            if not piece or len(self._pending) > ANSWER_BYTES:
                raise WorkerEnded("too late" if not ready else self._last_words() or "it ended")
            self._pending += piece
        line, _, self._pending = self._pending.partition(b"\n")
        return line

    def _last_words(self) -> str:
        try:
            text = Path(self._folder.name, "log.txt").read_bytes()[-LOG_TAIL:]
        except OSError:
            return ""
        lines = text.decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""

    def _revive(self) -> None:
        """Start again, with the points that were there."""
        self._end()
        self.n_restarts += 1
        kept, self._sources = self._sources, {}
        if kept:
            self.load(kept, START_S)

    def _end(self) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            if self._process.stdin is not None:
                self._process.stdin.close()
            os.close(self._answers)
            self._process = None


def _are_times(times: object, rounds: int) -> bool:
    if not isinstance(times, list) or len(times) != rounds:
        return False
    return all(isinstance(ms, int | float) and 0 < ms < 1e9 for ms in times)
