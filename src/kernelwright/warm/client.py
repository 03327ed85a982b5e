"""Finds the warm referee of this user, starts it where there is none, and asks it."""

import contextlib
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from pydantic import ValidationError

from kernelwright.core.errors import KernelwrightError, MachineError, TaskError, UserError
from kernelwright.core.evaluation import Evaluation
from kernelwright.machine.device_lease import Tell
from kernelwright.remote.records import JobState
from kernelwright.warm.place import WarmPlace, environment, identity_here, peer_user, place_for, short_path
from kernelwright.warm.records import MAX_LINE, WarmQuestion, WarmReply, WarmRequest, WarmStart, WarmState

START_S = 60.0
"""Longest wait for a process that was started, on a busy machine with cold disks."""
LOOK_S = 0.01
TRIES = 3
_PROBLEMS: dict[str, type[KernelwrightError]] = {
    "task": TaskError,
    "user": UserError,
    "machine": MachineError,
}


class NoWarmReferee(Exception):
    """There is none and none can be started, or it ended before it answered."""


class WarmClient:
    """Judges through the warm referee; a context manager. Nothing is started before the first question."""

    def __init__(self, cache_dir: Path, device: str, idle_s: float, tell: Tell) -> None:
        """Raises NoWarmReferee where there is no folder for its socket."""
        self._cache_dir, self._device, self._idle_s, self._tell = cache_dir, device, idle_s, tell
        self._identity = identity_here(cache_dir, device)
        self._place = _place(cache_dir, device)
        self._line: _Line | None = None

    def judge(self, question: WarmQuestion) -> Evaluation:
        """Return the verdict.

        Raises:
            TaskError, UserError, MachineError: as the referee does.
            NoWarmReferee: see there.
        """
        for _ in range(TRIES):
            line = self._line or self._reach()
            self._line = line
            evaluation = self._ask(line, question)
            if evaluation is not None:
                return evaluation
            self._replace(line)
        raise NoWarmReferee("another version of Kernelwright keeps replacing it")

    def close(self) -> None:
        """Hang up; the process stays for others."""
        if self._line is not None:
            self._line.close()
            self._line = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask(self, line: "_Line", question: WarmQuestion) -> Evaluation | None:
        """Return the verdict; None where the process is of another identity, or is ending."""
        line.send(WarmRequest(what="judge", identity=self._identity, idle_s=self._idle_s, question=question))
        while True:
            reply = line.receive()
            if reply is None:
                raise NoWarmReferee("it ended before it answered")
            if reply.said:
                self._tell(reply.said)
            if reply.is_other:
                return None
            if reply.answer is None:
                continue
            if reply.answer.problem is not None:
                raise _PROBLEMS[reply.answer.problem.kind](reply.answer.problem.line)
            if reply.answer.state is JobState.CANCELLED or reply.answer.evaluation is None:
                return None
            return reply.answer.evaluation

    def _reach(self) -> "_Line":
        """Connect; start the process where nobody listens."""
        line = _connect(self._place)
        if line is not None:
            return line
        self._start()
        end = time.monotonic() + START_S
        while time.monotonic() < end:
            line = _connect(self._place)
            if line is not None:
                return line
            time.sleep(LOOK_S)  # another process is starting one
        raise NoWarmReferee("another process starts one and does not finish")

    def _start(self) -> None:
        """Start the process; it listens on return, or another one is about to."""
        start = WarmStart(
            identity=self._identity,
            cache_dir=str(self._cache_dir.resolve()),
            device=self._device,
            idle_s=self._idle_s,
        )
        command = [sys.executable, "-P", "-m", "kernelwright.warm.server", start.model_dump_json()]
        try:
            with open(self._place.log, "wb", opener=_private) as log:
                done = subprocess.run(
                    command, env=environment(), cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                    start_new_session=True, timeout=START_S, check=False,
                )  # fmt: skip
        except (OSError, subprocess.SubprocessError) as error:
            raise NoWarmReferee(f"it does not start: {error}") from error
        if done.returncode:
            raise NoWarmReferee(f"it does not start: {_last_words(self._place)}")

    def _replace(self, line: "_Line") -> None:
        """Have a process of another identity leave its place; what it is judging it still answers."""
        self._line = None
        with contextlib.suppress(NoWarmReferee):
            line.send(WarmRequest(what="end"))
            line.receive()
        line.close()
        _wait_until_gone(self._place)


class _Line:
    """One connection."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._file = sock.makefile("rb")

    def send(self, request: WarmRequest) -> None:
        try:
            self._sock.sendall(request.model_dump_json().encode() + b"\n")
        except OSError as error:
            raise NoWarmReferee(f"it hung up ({error})") from error

    def receive(self) -> WarmReply | None:
        """Return the next line; None at the end. Raises NoWarmReferee for something else than a reply."""
        try:
            text = self._file.readline(MAX_LINE)
            return WarmReply.model_validate_json(text) if text else None
        except (OSError, ValidationError) as error:
            raise NoWarmReferee(f"it speaks otherwise than this version ({type(error).__name__})") from error

    def close(self) -> None:
        self._file.close()
        self._sock.close()


def find_warm(cache_dir: Path, device: str) -> WarmState | None:
    """Return what a warm referee that runs says of itself; None where none answers."""
    return _said(cache_dir, device, WarmRequest(what="show"))


def end_warm(cache_dir: Path, device: str) -> WarmState | None:
    """Have the warm referee end, and return what it was; None where none answers."""
    found = _said(cache_dir, device, WarmRequest(what="end"))
    if found is not None:
        _wait_until_gone(_place(cache_dir, device))
    return found


def _said(cache_dir: Path, device: str, request: WarmRequest) -> WarmState | None:
    try:
        line = _connect(_place(cache_dir, device))
        if line is None:
            return None
        with contextlib.closing(line):
            line.send(request)
            reply = line.receive()
    except NoWarmReferee:
        return None
    return None if reply is None else reply.state


def _place(cache_dir: Path, device: str) -> WarmPlace:
    try:
        return place_for(cache_dir, device)
    except MachineError as error:
        raise NoWarmReferee(str(error)) from error


def _connect(place: WarmPlace) -> _Line | None:
    """Return a connection to a process of this user; None where nobody listens."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with short_path(place.socket) as name:
            sock.connect(name)
        peer = peer_user(sock)
    except OSError:
        sock.close()
        return None
    if peer != os.getuid():
        sock.close()
        raise NoWarmReferee(f"{place.socket} is another user's")
    return _Line(sock)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def _wait_until_gone(place: WarmPlace) -> None:
    end = time.monotonic() + START_S
    while place.socket.exists() and time.monotonic() < end:
        time.sleep(LOOK_S)


def _last_words(place: WarmPlace) -> str:
    with contextlib.suppress(OSError):
        lines = place.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        if lines:
            return lines[-1][:300]
    return "no answer"
