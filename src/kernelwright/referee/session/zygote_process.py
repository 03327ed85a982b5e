"""The parent's end of a zygote: starts it, asks it, ends it."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence

from kernelwright.core.errors import MachineError
from kernelwright.referee.worker import wire
from kernelwright.referee.worker.wire import Message

START_TIMEOUT_S = 300.0
"""Importing torch on a busy machine with cold disks."""
_END_S = 5.0
_DYING_S = 1.0
"""Its children may be seen to have ended a moment before it is."""


class ZygoteProcess:
    """One zygote; raises MachineError when it does not start, or is not there any more."""

    def __init__(
        self, options: Mapping[str, object], environment: Mapping[str, str], before: Sequence[str] = ()
    ) -> None:
        """Start it without waiting for its imports.

        Args:
            options: see ``zygote.py``.
            environment: all of it.
            before: words of a command that runs it.
        """
        self.options = options
        self._sock, theirs = socket.socketpair()
        module = [sys.executable, "-m", "kernelwright.referee.zygote"]
        with theirs:
            self._process = subprocess.Popen(
                [*before, *module, str(theirs.fileno()), json.dumps(options)],
                pass_fds=[theirs.fileno()],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        self._hello: Message | None = None

    @property
    def is_running(self) -> bool:
        """True as long as it has not ended."""
        return self._process.poll() is None

    def hello(self) -> Message:
        """Wait until it is ready and return what it says of itself."""
        if self._hello is None:
            try:
                self._hello = wire.receive(self._sock, START_TIMEOUT_S)
            except (wire.Closed, wire.Late, wire.Malformed) as error:
                raise MachineError(f"the worker process cannot start: {self._last_words()}") from error
        if "error" in self._hello:
            raise MachineError(self._hello["error"])
        return self._hello

    def ask(self, message: Message, fds: Sequence[int] = ()) -> Message:
        """Send a request with descriptors and return the answer."""
        try:
            wire.send(self._sock, message, fds)
            return wire.receive(self._sock, START_TIMEOUT_S)
        except (wire.Closed, wire.Late, wire.Malformed) as error:
            raise MachineError(
                self.how_it_ended() or "the process that forks workers does not answer"
            ) from error

    def reap(self, pid: int) -> int | None:
        """Return the exit code (negative: signal) of a dead child of its, None when it is gone itself."""
        try:
            code = self.ask({"op": "reap", "pid": pid})["exit_code"]
        except MachineError:
            return None
        return None if code is None else int(code)

    def how_it_ended(self) -> str | None:
        """Say in one line how it came to its end, which nobody asked for; None while it runs.

        What it has forked ended with it, through no fault of the task or of a candidate.
        """
        try:
            code = self._process.wait(timeout=_DYING_S)
        except subprocess.TimeoutExpired:
            return None
        return f"the process that forks workers {describe_exit(code)}: killed from outside, or out of memory"

    def close(self) -> None:
        """Hang up, and kill it with who runs it when that is not enough."""
        self._sock.close()
        try:
            self._process.wait(timeout=_END_S)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        if self._process.stderr is not None:
            self._process.stderr.close()

    def _last_words(self) -> str:
        if self._process.stderr is None or self._process.poll() is None:
            return "no answer"
        lines = self._process.stderr.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"exit code {self._process.returncode}"


def describe_exit(code: int | None) -> str:
    """Say in words how a process ended."""
    if code is None:
        return "ended in an unknown way"
    if code < 0:
        try:
            return f"killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"killed by signal {-code}"
    return f"exited with code {code}"
