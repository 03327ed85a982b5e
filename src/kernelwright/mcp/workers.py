"""Carries jobs out, each in a process of its own and one at a time, so that timings are not disturbed.

A process has no secrets in its environment, unless a model is to be asked: what a task's source does when it
is loaded is not known. A call that is cancelled interrupts its process; a run is consistent then and can be
carried on.
"""

import json
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, replace
from typing import Any, TypeVar

import anyio
from anyio.abc import Process

from kernelwright.core.errors import KernelwrightError, MachineError
from kernelwright.core.request_words import asks_models
from kernelwright.machine.children import bare_environment, whole_environment
from kernelwright.mcp.answers import Answer
from kernelwright.remote.problems import error_of
from kernelwright.remote.records import RequestProblem
from kernelwright.settings import Settings

A = TypeVar("A", bound=Answer)
Tell = Callable[[float, str], Awaitable[None]]
"""Given the seconds since the call began, and what is being done."""

MAX_WAITING = 16
"""Jobs that may wait; ours."""
GRACE_S = 15.0
"""Seconds that a job has to close its run after it was cancelled."""
BEAT_S = 5.0
"""A caller hears at least so often that its job is at work."""
NEED_STORE = frozenset({"diagnose", "memory_recall", "optimize"})
"""Jobs that are told where the store is; its address may hold a password."""
KEPT = ("CXX", "CUDA_HOME", "CUDA_PATH", "ROCM_PATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL")
NO_STORE = "sqlite://"
COMMAND = (sys.executable, "-m", "kernelwright.mcp.child")


class Workers:
    """The processes of a server's jobs; ``command`` starts one."""

    def __init__(self, settings: Settings, command: Sequence[str] = COMMAND) -> None:
        self._settings, self._command = settings, command
        self._turn = anyio.Lock()
        self._waiting = 0

    async def run(self, name: str, arguments: Mapping[str, Any], answer: type[A], tell: Tell) -> A:
        """Carry a job out and return its answer.

        Raises:
            UserError: the job refused its arguments; TaskError: their task.
            MachineError: it failed otherwise, its process died, or too many jobs wait.
        """
        if self._waiting > MAX_WAITING:
            raise MachineError(
                f"{MAX_WAITING} calls wait already; wait for one of yours to end, then call again"
            )
        begin = time.monotonic()
        latest = _Latest("waiting for another call to end" if self._turn.locked() else "starting")
        self._waiting += 1
        try:
            async with anyio.create_task_group() as beating:
                beating.start_soon(_beat, tell, latest, begin)
                async with self._turn:
                    found = await self._carry_out(name, arguments, latest)
                beating.cancel_scope.cancel()
        except* KernelwrightError as group:
            raise _first(group) from None
        finally:
            self._waiting -= 1
        return answer.model_validate(found)

    async def _carry_out(self, name: str, arguments: Mapping[str, Any], latest: "_Latest") -> Any:
        store = self._settings.store if name in NEED_STORE else NO_STORE
        settings = replace(self._settings, store=store, confine_tasks=True)
        job = {"name": name, "arguments": dict(arguments), "settings": asdict(settings)}
        with tempfile.TemporaryDirectory(prefix="kernelwright-job-") as folder:
            place = None if name == "optimize" else folder  # its run remembers where it was asked for
            environment = self._environment(arguments, folder)
            async with _process(self._command, environment, place) as process:
                assert process.stdin is not None and process.stdout is not None
                with suppress(anyio.BrokenResourceError):
                    await process.stdin.send((json.dumps(job, default=str) + "\n").encode())
                async for line in _lines(process):
                    if "say" in line:
                        latest.say(line["say"])
                    elif "answer" in line:
                        return line["answer"]
                    else:
                        raise error_of(RequestProblem.model_validate(line["problem"]))
                code = await process.wait()
        raise MachineError(
            f"the process of {name} ended with {code} and no answer; the server's log may say why. Call again"
        )

    def _environment(self, arguments: Mapping[str, Any], folder: str) -> dict[str, str]:
        """Return what the job's process sees: keys only where a model is to be asked."""
        options = arguments.get("options") or {}
        team = options.get("team") or self._settings.defaults.get("team", "")
        if arguments.get("resume") or asks_models(str(team)):
            return whole_environment()
        return bare_environment(folder, kept=KEPT)


class _Latest:
    """What a job said last."""

    def __init__(self, text: str) -> None:
        self.text, self.is_new = text, anyio.Event()

    def say(self, text: str) -> None:
        self.text = text
        self.is_new.set()


async def _beat(tell: Tell, latest: _Latest, begin: float) -> None:
    """Tell what a job says, and every BEAT_S seconds that it is still at work."""
    while True:
        latest.is_new = anyio.Event()
        await tell(time.monotonic() - begin, latest.text)
        with anyio.move_on_after(BEAT_S):
            await latest.is_new.wait()


@asynccontextmanager
async def _process(
    command: Sequence[str], environment: dict[str, str], folder: str | None
) -> AsyncIterator[Process]:
    """Start a job's process; at the end it is gone, interrupted first where it is still at work."""
    process = await anyio.open_process(
        command,
        stderr=None,
        env=environment,
        cwd=folder,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with anyio.CancelScope(shield=True):
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGINT)
            with anyio.move_on_after(GRACE_S):
                await process.wait()
            with suppress(ProcessLookupError):
                process.kill()
            await process.aclose()


async def _lines(process: Process) -> AsyncIterator[dict[str, Any]]:
    """Yield the documents that a process writes, one a line."""
    assert process.stdout is not None
    kept = b""
    async for chunk in process.stdout:
        *whole, kept = (kept + chunk).split(b"\n")
        for line in whole:
            yield json.loads(line)


def _first(group: BaseExceptionGroup[Any]) -> BaseException:
    """Return the first exception of a group, however deep."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
