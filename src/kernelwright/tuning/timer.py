"""The trusted side of the process that times points: starts it confined, asks it, ends it in time."""

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pydantic import ValidationError

from kernelwright.core.errors import MachineError, TaskError, UserError
from kernelwright.core.task import Mode, Task
from kernelwright.core.wrong_numbers import LookedAt, OwnDraw
from kernelwright.machine.built_elsewhere import BuildElsewhere
from kernelwright.machine.device_lease import DeviceLease, StillLeased
from kernelwright.referee.device import parse_device
from kernelwright.referee.sandbox.view import make_view
from kernelwright.referee.session.confined import start_confined
from kernelwright.targets.device import PROCESSOR
from kernelwright.targets.gpu.inspect.run import end_session
from kernelwright.tasks.namespace import bind_source
from kernelwright.tuning.search import BASE, FirstCall

START_S = 120.0
GRACE_S = 0.5
"""The process ends what it does in time by itself; so much later it is ended."""
LEAST_CALL_S, PATIENCE = 2.0, 50.0
"""A first call may take so many seconds, or times as long as the base's; then the process is ended."""
LATER_SHARE, TAKE_S = 0.2, 30.0
"""Points after the first ones may take another machine this share of the seconds that are left to build; and
how long the process may take to keep what was built there."""
TOO_LATE = "too late"
LOG_TAIL = 500
ANSWER_BYTES = 8 << 20


class WorkerEnded(Exception):
    """The process died or was too late."""


class PointTimer:
    """Builds and times closed sources in one confined process; a process that dies is started again."""

    def __init__(
        self,
        task: Task,
        *,
        threads: int,
        require: str | None = None,
        device: str = PROCESSOR.name,
        elsewhere: BuildElsewhere | None = None,
    ) -> None:
        """``require``: the sandbox's tier that must at least be there. ``device``: see ``parse_device``.

        ``elsewhere`` builds points; the process builds those that do not come.
        A live module runs there only where its pickle has its classes, or this process has imported them.

        Raises:
            UserError: the device has no such name.
        """
        self._task, self._threads, self._require = task, threads, require
        self._device, self._elsewhere = parse_device(device), elsewhere
        self._folder = tempfile.TemporaryDirectory(prefix="kernelwright-tune-", ignore_cleanup_errors=True)
        self._process: subprocess.Popen[bytes] | None = None
        self._answers = -1
        self._pending = b""
        self._sources: dict[int, str] = {}
        """Of the points that were loaded and are kept."""
        self._loaded: set[int] = set()
        """Those that the process has now."""
        self._base_s: float | None = None
        """Seconds of the base's first call."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()
        self._folder.cleanup()

    def load(
        self,
        sources: Mapping[int, str],
        limit_s: float,
        keep: Sequence[int],
        meanwhile: Callable[[], None] = lambda: None,
    ) -> dict[int, FirstCall]:
        """Build points and call each once (see ``search.Timer``); one that ends the process is named so."""
        started = time.monotonic()

        def left_s() -> float:
            return limit_s - (time.monotonic() - started)

        self._keep(keep)
        wanted = {str(number): source for number, source in sources.items()}
        try:
            self._be_there(limit_s)
            self._take_built(list(wanted.values()), left_s())
            self._ask({"op": "build", "sources": wanted, "limit_s": left_s(), "keep": list(keep)})
            meanwhile()
            built = self._answer(max(left_s(), 0.0) + GRACE_S)
        except WorkerEnded as error:
            self._end()
            return {} if left_s() <= 0 else dict.fromkeys(sources, FirstCall(why=f"it ended: {error}"))
        answered = built if isinstance(built, dict) else {}
        told = {number: answered[str(number)] for number in sources if str(number) in answered}
        found = {n: FirstCall(why=str(why)) for n, why in told.items() if why is not None}
        needed_s = (self._base_s or 0.0) if self._device.has_driver else 0.0  # there a first call compiles
        for number in (n for n in sources if n in told and n not in found):
            if left_s() <= needed_s:
                break
            called = self._first_call(number, sources[number], left_s())
            if called is not None:
                found[number] = called
        return found

    def time(self, points: Sequence[int], rounds: int, limit_s: float) -> dict[int, list[float]]:
        """Return milliseconds of each point, turn by turn.

        Empty where the process ended over it, or where somebody else timed for all of the seconds.
        """
        started = time.monotonic()
        try:
            self._be_there(limit_s)
            if not set(points) <= self._loaded:
                return {}
            request = {"op": "time", "numbers": list(points), "rounds": rounds}
            lease = DeviceLease(self._device.lease_names(), patience_s=limit_s)
            with lease:  # nobody else times meanwhile, whatever command it is
                left_s = max(limit_s - (time.monotonic() - started), 0.0)
                found = self._call({**request, "limit_s": left_s}, left_s + GRACE_S)
        except StillLeased:
            return {}
        except WorkerEnded:
            self._end()
            return {}
        if not isinstance(found, dict):
            return {}
        sound = {n: times for n, times in found.items() if _are_times(times, rounds)}
        return {int(n): [float(ms) for ms in times] for n, times in sound.items()}

    def compare(self, source: str, draws: Sequence[OwnDraw], limit_s: float) -> LookedAt | None:
        """Return where a candidate's outputs are wrong; None where it does not run again, or not in time.

        The process runs the candidate, so what it says is only advice.
        """
        asked = [{**draw.model_dump(), "label": draw.label} for draw in draws]
        started = time.monotonic()
        try:
            self._be_there(limit_s)
            left_s = max(limit_s - (time.monotonic() - started), 0.0)
            request = {"op": "compare", "source": source, "draws": asked, "limit_s": left_s / 2}
            return LookedAt.model_validate(self._call(request, left_s))
        except (WorkerEnded, ValidationError):
            self._end()
            return None

    def _take_built(self, sources: Sequence[str], limit_s: float) -> None:
        """Have points built on another machine; the process writes what comes to its own cache."""
        if self._elsewhere is None or limit_s <= 0:
            return
        patience_s = limit_s * (1.0 if self._base_s is None else LATER_SHARE)
        files = self._elsewhere(sources, patience_s, False)
        if files:
            told = {name: b64encode(data).decode() for name, data in files.items()}
            self._call({"op": "take", "files": told}, TAKE_S)

    def _first_call(self, number: int, source: str, left_s: float) -> FirstCall | None:
        """Return how a point that was built did in its first call; None where there was no time for it."""
        patience_s = LEAST_CALL_S if self._base_s is None else max(LEAST_CALL_S, PATIENCE * self._base_s)
        limit_s = min(left_s + GRACE_S, patience_s if number != BASE else START_S)
        try:
            self._be_there(left_s)
            told = self._call({"op": "call", "number": number, "source": source, "base": BASE}, limit_s)
        except WorkerEnded as error:
            self._end()
            is_late = limit_s < patience_s and str(error) == TOO_LATE
            return None if is_late else FirstCall(why=f"it ended the process: {error}")
        why = told.get("why") if isinstance(told, dict) else "no answer"
        if why is not None:
            return FirstCall(why=str(why))
        ratio, seconds = told.get("ratio"), told.get("seconds")
        if not (_is_time(ratio) and _is_time(seconds)):
            return FirstCall(why="no answer")
        if number == BASE:
            self._base_s = float(seconds)
        self._sources[number] = source
        self._loaded.add(number)
        return FirstCall(ratio=float(ratio))

    def _keep(self, keep: Sequence[int]) -> None:
        self._sources = {number: source for number, source in self._sources.items() if number in keep}
        self._loaded &= set(keep)

    # -- the process -------------------------------------------------------------------------------

    def _be_there(self, limit_s: float) -> None:
        """Start the process where there is none, with the points that the one before had."""
        if self._process is not None:
            return
        deadline = time.monotonic() + limit_s
        self._start(deadline)
        for number in sorted(self._sources, key=lambda n: n != BASE):
            request = {"op": "call", "number": number, "source": self._sources[number], "base": BASE}
            self._call(request, deadline - time.monotonic())
            self._loaded.add(number)

    def _start(self, deadline: float) -> None:
        folder = self._folder.name
        reading, writing = os.pipe()
        log = open(Path(folder, "log.txt"), "wb")  # noqa: SIM115  handed to the child
        worker = "kernelwright.referee.point_worker"
        placing = json.dumps(self._device.placing())
        command = [sys.executable, "-m", worker, str(writing), str(self._threads), placing]
        try:
            self._process = start_confined(
                command, folder, writing, log.fileno(), require=self._require, threads=self._threads,
                device=self._device, shown=_files_of(self._task),
            )  # fmt: skip
        except OSError as error:
            raise MachineError(f"no process can be started to time points: {error}") from error
        finally:
            os.close(writing)
            log.close()
        self._answers, self._pending = reading, b""
        self._require_sandbox(deadline)
        opened = {"op": "open", "task": bind_source(self._task, self._task.workloads[0])}
        try:
            self._call({**opened, "is_eval": self._task.mode is Mode.EVAL}, deadline - time.monotonic())
        except WorkerEnded as error:
            self._end()
            if time.monotonic() >= deadline:
                raise
            where = f"{self._task.name}: the reference does not run on {self._device} to be timed"
            raise TaskError(f"{where}: {error}") from error

    def _require_sandbox(self, deadline: float) -> None:
        told = json.loads(self._line(deadline))
        if "refused" in told:
            self._end()
            raise UserError(str(told["refused"]))

    def _call(self, request: dict[str, Any], timeout_s: float) -> Any:
        self._ask(request)
        return self._answer(timeout_s)

    def _ask(self, request: dict[str, Any]) -> None:
        assert self._process is not None and self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise WorkerEnded(self._last_words() or str(error)) from error

    def _answer(self, timeout_s: float) -> Any:
        try:
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
                raise WorkerEnded(TOO_LATE if not ready else self._last_words() or "it ended")
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

    def _end(self) -> None:
        if self._process is not None:
            end_session(self._process)
            if self._process.stdin is not None:
                self._process.stdin.close()
            os.close(self._answers)
            self._process = None
            self._loaded = set()


def _files_of(task: Task) -> tuple[str, ...]:
    """Return what a task is made of besides its source: a live module's pickle, and what was imported."""
    return () if task.artifact is None else (task.artifact, *make_view().paths)


def _are_times(times: object, rounds: int) -> bool:
    return isinstance(times, list) and 0 < len(times) <= rounds and all(map(_is_time, times))


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and 0 < value < 1e9
