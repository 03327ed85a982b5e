"""Starts the zygote and, through it, the processes that run references and candidates."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from kernelwright.core.errors import MachineError
from kernelwright.referee.memory import SharedMemory
from kernelwright.referee.sandbox import Limits
from kernelwright.referee.settings import RefereeSettings
from kernelwright.referee.worker import wire
from kernelwright.referee.worker.wire import Message

START_TIMEOUT_S = 120.0
"""Importing torch on a busy machine with cold disks."""
LOG_TAIL_BYTES = 4000
OWN_END_S = 1.0
"""A core dump or a busy machine may delay the end of a process that has closed its socket."""
ENDED = (None, "Z", "X")
STATE, MINOR_FAULTS = 0, 7
"""Places in what :func:`_process_stat` returns."""


class ChildError(Exception):
    """A child did not do what it was told."""


class ChildDied(ChildError):
    """The process ended; ``how`` names the signal or the exit code."""

    def __init__(self, how: str) -> None:
        super().__init__(how)
        self.how = how


class ChildLate(ChildError):
    """No answer in time; the process group has been killed."""


class ChildRefused(ChildError):
    """The command raised in the child."""

    def __init__(self, reply: Message) -> None:
        self.kind, self.text = str(reply.get("error")), str(reply.get("message"))
        self.traceback = str(reply.get("traceback"))
        super().__init__(f"{self.kind}: {self.text}")


class Child:
    """One forked process, its socket, its log and its scratch directory."""

    def __init__(
        self, launcher: "Launcher", pid: int, sock: socket.socket, log_fd: int, scratch: str
    ) -> None:
        self._launcher, self.pid, self._sock = launcher, pid, sock
        self._log_fd, self._scratch = log_fd, scratch
        self.is_alive = True

    def call(
        self, op: str, timeout_s: float, arenas: Mapping[str, SharedMemory] | None = None, **fields: Any
    ) -> Message:
        """Send one command, with memory to map, and return the answer.

        Raises ChildDied, ChildLate (both after killing the group) or ChildRefused.
        """
        if not self.is_alive:
            raise ChildDied("had ended before")
        arenas = arenas or {}
        message = {"op": op, **fields}
        if arenas:
            message["map"] = list(arenas)
            message["sizes"] = [memory.size for memory in arenas.values()]
        try:
            self._sock.settimeout(timeout_s)
            wire.send(self._sock, message, [memory.fd for memory in arenas.values()])
            reply = wire.receive(self._sock, timeout_s)
        except wire.Late as error:
            self.kill()
            raise ChildLate(f"no answer within {timeout_s:.3g} s") from error
        except (wire.Closed, wire.Malformed) as error:
            raise ChildDied(self.kill()) from error
        if "error" in reply:
            raise ChildRefused(reply)
        return reply

    def kill(self) -> str:
        """End the process group and say how the process ended."""
        if not self.is_alive:
            return "had ended before"
        self.is_alive = False
        self._wait_for_own_end()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._sock.close()
        how = describe_exit(self._launcher.reap(self.pid))
        shutil.rmtree(self._scratch, ignore_errors=True)
        return how

    def _wait_for_own_end(self) -> None:
        """Give a process that is dying a moment, so that its own signal is reported and not ours."""
        self._sock.setblocking(False)
        deadline = time.monotonic() + OWN_END_S
        while (
            time.monotonic() < deadline and _is_hung_up(self._sock) and _process_state(self.pid) not in ENDED
        ):
            time.sleep(0.002)

    def log_tail(self) -> str:
        """Return the end of what it wrote to stdout and stderr."""
        size = os.fstat(self._log_fd).st_size
        data = os.pread(self._log_fd, LOG_TAIL_BYTES, max(size - LOG_TAIL_BYTES, 0))
        return data.decode(errors="replace")

    def minor_faults(self) -> int:
        """Return how many pages the process has been given so far; 0 when it has ended."""
        return int((_process_stat(self.pid) or ["0"] * (MINOR_FAULTS + 1))[MINOR_FAULTS])

    def __del__(self) -> None:
        os.close(self._log_fd)


class Launcher:
    """Owns the zygote. Starts it on first use, and again should it ever die."""

    def __init__(self, settings: RefereeSettings) -> None:
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        self._sock: socket.socket | None = None
        self._children: weakref.WeakSet[Child] = weakref.WeakSet()

    @property
    def build_cache(self) -> Path:
        """Folder of the libraries that candidates load by content hash."""
        return self._settings.cache_dir / "build"

    def start(self) -> None:
        """Start the zygote without waiting for its imports."""
        if self._process is not None and self._process.poll() is None:
            return
        ours, theirs = socket.socketpair()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "kernelwright.referee.zygote", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        theirs.close()
        self._sock = ours
        self._is_ready = False

    def spawn(self, kind: Literal["worker", "host"], limits: Limits) -> Child:
        """Fork a child; raises MachineError when the zygote cannot."""
        self._wait_ready()
        ours, theirs = socket.socketpair()
        log_fd = os.memfd_create("log", os.MFD_CLOEXEC)
        scratch = tempfile.mkdtemp(prefix="kernelwright-")
        try:
            reply = self._ask(
                {"op": "spawn", "kind": kind, "limits": asdict(limits), "scratch": scratch},
                [theirs.fileno(), log_fd],
            )
        finally:
            theirs.close()
        child = Child(self, reply["pid"], ours, log_fd, scratch)
        self._children.add(child)
        return child

    def reap(self, pid: int) -> int | None:
        """Return a dead child's exit code (negative: signal), None when the zygote is gone."""
        try:
            code = self._ask({"op": "reap", "pid": pid})["exit_code"]
        except MachineError:
            return None
        return None if code is None else int(code)

    def close(self) -> None:
        """End every child, then the zygote. Should this never run, the kernel ends them with us."""
        for child in list(self._children):
            child.kill()
        if self._sock is not None:
            self._sock.close()
            self._sock = None
        if self._process is not None:
            try:
                self._process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            if self._process.stderr is not None:
                self._process.stderr.close()
            self._process = None

    def _wait_ready(self) -> None:
        self.start()
        if not self._is_ready:
            assert self._sock is not None
            try:
                wire.receive(self._sock, START_TIMEOUT_S)
            except (wire.Closed, wire.Late, wire.Malformed) as error:
                raise MachineError(f"the worker process cannot start: {self._last_words()}") from error
            self._is_ready = True

    def _last_words(self) -> str:
        if self._process is None or self._process.stderr is None or self._process.poll() is None:
            return "no answer"
        lines = self._process.stderr.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"exit code {self._process.returncode}"

    def _ask(self, message: Message, fds: Sequence[int] = ()) -> Message:
        if self._sock is None:
            raise MachineError("the referee is closed")
        try:
            wire.send(self._sock, message, fds)
            return wire.receive(self._sock, START_TIMEOUT_S)
        except (wire.Closed, wire.Late, wire.Malformed) as error:
            raise MachineError("the process that forks workers has died; run again") from error

    def _environment(self) -> dict[str, str]:
        """Return the whole environment of every measured process: no secrets, allocator pinned.

        Source of the allocator and OpenMP settings: measured; without them fresh pages decide the time
        of every elementwise kernel, and spinning threads that of any kernel on a busy machine. The thread
        cache of malloc keeps the crumbs between large tensors from merging, so that no freed tensor's place
        fits the next one and the heap grows on and on; without it, it does not.
        """
        cache = self._settings.cache_dir.resolve()
        for folder in (self.build_cache, cache / "inductor"):
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise MachineError(f"cannot write the cache folder {cache}: {error}") from error
        return {
            "PATH": os.environ.get("PATH", "/usr/local/bin:/usr/bin:/bin"),
            "LANG": "C.UTF-8",
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": str(self._settings.n_threads),
            "OMP_WAIT_POLICY": "passive",
            "OPENBLAS_NUM_THREADS": "1",
            "MALLOC_MMAP_MAX_": "0",
            "MALLOC_TRIM_THRESHOLD_": "100000000000",
            "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1:glibc.malloc.tcache_count=0",
            "TORCHINDUCTOR_CACHE_DIR": str(cache / "inductor"),
            "TORCHINDUCTOR_COMPILE_THREADS": "1",
            "KERNELWRIGHT_BUILD_CACHE": str(self.build_cache.resolve()),
        }


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


def _process_state(pid: int) -> str | None:
    stat = _process_stat(pid)
    return stat[STATE] if stat else None


def _process_stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the command's name; empty when the process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return []


def _is_hung_up(sock: socket.socket) -> bool:
    try:
        return sock.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
