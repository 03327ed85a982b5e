"""The parent's side of a zygote: starts it, sends requests, ends it."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence

from kernelwright.core.errors import MachineError
from kernelwright.referee.worker import wire
from kernelwright.referee.worker.wire import Message

START_TIMEOUT_S = 300.0
"""Limit for the start, which imports torch: long enough for a busy machine with cold disks."""
_END_S = 5.0
_DYING_S = 1.0
"""Seconds to wait for the zygote's end: its children may end a moment earlier."""


class ZygoteProcess:
    """One zygote. Its methods raise MachineError when the zygote did not start or has died.

    Several threads may ask at once.
    """

    def __init__(
        self, options: Mapping[str, object], environment: Mapping[str, str], before: Sequence[str] = ()
    ) -> None:
        """Start the zygote without waiting for its imports.

        Args:
            options: see ``zygote.py``.
            environment: its whole environment.
            before: a command line to put before it, such as that of ``bwrap``.
        """
        self.options = options
        self._sock, theirs = socket.socketpair()
        module = [sys.executable, "-P", "-m", "kernelwright.referee.zygote"]
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
        self._asking = threading.RLock()

    @property
    def is_running(self) -> bool:
        """True while the process has not ended."""
        return self._process.poll() is None

    def hello(self) -> Message:
        """Wait until the zygote is ready and return its first message."""
        with self._asking:
            if self._hello is None:
                try:
                    self._hello = wire.receive(self._sock, START_TIMEOUT_S)
                except (wire.Closed, wire.Late, wire.MalformedMessage) as error:
                    raise MachineError(f"the worker process cannot start: {self._last_words()}") from error
        if "error" in self._hello:
            raise MachineError(self._hello["error"])
        return self._hello

    def ask(self, message: Message, fds: Sequence[int] = ()) -> Message:
        """Send a request with descriptors and return the answer."""
        try:
            with self._asking:
                wire.send(self._sock, message, fds)
                return wire.receive(self._sock, START_TIMEOUT_S)
        except (wire.Closed, wire.Late, wire.MalformedMessage) as error:
            raise MachineError(
                self.how_it_ended() or "the process that forks workers does not answer"
            ) from error

    def reap(self, pid: int) -> int | None:
        """Return the exit code (negative: signal) of one of its dead children.

        None when the code is unknown or the zygote itself has died.
        """
        try:
            code = self.ask({"op": "reap", "pid": pid})["exit_code"]
        except MachineError:
            return None
        return None if code is None else int(code)

    def how_it_ended(self) -> str | None:
        """Return one line about the zygote's unexpected end; None while it runs.

        Its children ended with it, which is not the fault of the task or a candidate.
        """
        try:
            code = self._process.wait(timeout=_DYING_S)
        except subprocess.TimeoutExpired:
            return None
        return f"the process that forks workers {describe_exit(code)}: killed from outside, or out of memory"

    def close(self) -> None:
        """Close the connection; kill the process group if the zygote does not end by itself."""
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
