"""Starts the zygote and, through it, the processes that run references and candidates."""

import contextlib
import fcntl
import os
import shlex
import shutil
import signal
import socket
import sys
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from kernelwright.core.errors import MachineError
from kernelwright.machine.compiler import Ran
from kernelwright.referee.device import parse_device
from kernelwright.referee.sandbox import BARE, Limits, Sandbox, Tier, bubblewrap, calls
from kernelwright.referee.sandbox.choose import foresee, from_json, require
from kernelwright.referee.sandbox.limits import DESCRIPTORS, PROCESSES, THREADS_EACH
from kernelwright.referee.sandbox.pid_handshake import first_word, listening_pair
from kernelwright.referee.sandbox.processes import (
    ENDED,
    MINOR_FAULTS,
    family_of,
    folder_bytes,
    own_bytes,
    stat_of,
    state_of,
    unnamed_bytes,
)
from kernelwright.referee.sandbox.scratch import ScratchSpace
from kernelwright.referee.sandbox.view import view_from_json
from kernelwright.referee.session.shared_memory import SharedMemory
from kernelwright.referee.session.zygote_process import ZygoteProcess, describe_exit
from kernelwright.referee.settings import RefereeSettings
from kernelwright.referee.worker import wire
from kernelwright.referee.worker.wire import Message

LOG_TAIL_BYTES = 4000
OWN_END_S = 1.0
"""A core dump or a busy machine may delay the end of a process that has closed its socket."""
LOG_BYTES = 1 << 20
"""What a child may write to stdout and stderr; more is refused where it writes."""
REPLY_BYTES = 8 << 20
"""Longest answer of a child; descriptions of outputs and weights are far below it."""
WATCH_S = 0.5
SPIN_COUNT = 4000
"""Turns of libgomp's waiting loop before a thread sleeps: a tenth of a millisecond or so."""
_AT_HOME_IN_THERE = {"HOME": "/tmp", "USER": "candidate", "TORCHINDUCTOR_CACHE_DIR": "/tmp/inductor"}
"""Of the environment of the zygote that ``bwrap`` has started: it sees no accounts and no cache of ours."""
BUILT_BYTES = 64 << 20
"""Largest library and report that a build may give."""


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
        self, zygote: ZygoteProcess, pid: int, keeper: int, own_child: int, sock: socket.socket, log_fd: int,
        scratch: str, limits: Limits,
    ) -> None:  # fmt: skip
        self._zygote, self.pid, self._keeper, self._sock = zygote, pid, keeper, sock
        self._own_child = own_child
        """What the zygote calls the keeper."""
        self._log_fd, self._scratch, self._limits = log_fd, scratch, limits
        self._ended_because = ""
        self._reaped: int | None = None
        """Its exit code, once it has ended and the zygote could tell."""
        self._ending = threading.Lock()
        self.is_alive = True
        self.answered_in_s = 0.0
        """From sending the last command to having its answer, and nothing else that the parent did."""

    @property
    def keeper(self) -> int:
        """The process under which everything that this one starts is found."""
        return self._keeper

    def call(
        self, op: str, timeout_s: float, arenas: Mapping[str, SharedMemory] | None = None, **fields: Any
    ) -> Message:
        """Send one command, with memory to map, and return the answer.

        Raises ChildDied, ChildLate (both after killing the group) or ChildRefused; MachineError where it
        ended because the zygote did.
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
            begin = time.perf_counter()
            wire.send(self._sock, message, [memory.fd for memory in arenas.values()])
            reply = wire.receive(self._sock, timeout_s, REPLY_BYTES)
            self.answered_in_s = time.perf_counter() - begin
        except wire.Late as error:
            self.kill()
            raise ChildLate(f"no answer within {timeout_s:.3g} s") from error
        except (wire.Closed, wire.Malformed) as error:
            how = self.kill()
            if self._reaped is None and (ended := self._zygote.how_it_ended()):
                raise MachineError(ended) from error
            raise ChildDied(how) from error
        if "error" in reply:
            raise ChildRefused(reply)
        return reply

    def kill(self) -> str:
        """End the process with all that came of it and say how it ended."""
        if not self.is_alive:
            return "had ended before"
        with self._ending:
            self.is_alive = False
        self._wait_for_own_end()
        if self.pid == self._keeper:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        self._end()
        self._sock.close()
        self._reaped = self._zygote.reap(self._own_child)
        how = describe_exit(self._reaped)
        shutil.rmtree(self._scratch, ignore_errors=True)
        return self._ended_because or how

    def _end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._keeper, signal.SIGKILL)

    def _wait_for_own_end(self) -> None:
        """Give a process that is dying a moment, so that its own signal is reported and not ours."""
        self._sock.setblocking(False)
        deadline = time.monotonic() + OWN_END_S
        while time.monotonic() < deadline and _is_hung_up(self._sock) and state_of(self._keeper) not in ENDED:
            time.sleep(0.002)

    def check_limits(self) -> None:
        """End a process whose family holds more than it may; what no limit of the kernel's counts."""
        problem = self._excess() if self.is_alive and not self._ended_because else None
        with self._ending:
            if problem and self.is_alive:
                self._ended_because = f"was killed: {problem}"
                self._end()

    def _excess(self) -> str | None:
        limits = self._limits
        if limits.total_bytes is not None or limits.processes is not None:
            family = family_of(self._keeper)
            held = sum(own_bytes(pid) for pid in family) + unnamed_bytes(family)
            if limits.total_bytes is not None and held > limits.total_bytes:
                return (
                    f"its processes hold {held / 2**30:.1f} GiB, {limits.total_bytes / 2**30:.1f} are allowed"
                )
            if limits.processes is not None and len(family) > limits.processes:
                return f"it has {len(family)} processes, {limits.processes} are allowed"
        if limits.scratch_bytes is not None and folder_bytes(self._scratch) > limits.scratch_bytes:
            return f"it wrote more than {limits.scratch_bytes / 2**20:.0f} MiB to its scratch directory"
        return None

    def log_tail(self) -> str:
        """Return the end of what it wrote to stdout and stderr."""
        size = min(os.lseek(self._log_fd, 0, os.SEEK_CUR), LOG_BYTES)
        data = os.pread(self._log_fd, LOG_TAIL_BYTES, max(size - LOG_TAIL_BYTES, 0))
        return data[:size].decode(errors="replace")

    def minor_faults(self) -> int:
        """Return how many pages the process has been given so far; 0 when it has ended."""
        return int((stat_of(self.pid) or ["0"] * (MINOR_FAULTS + 1))[MINOR_FAULTS])

    def __del__(self) -> None:
        os.close(self._log_fd)


class Launcher:
    """Owns the zygote. Starts it on first use, and again should it ever die.

    Where ``bwrap`` makes the namespaces there are two: the second, in there, forks all that is not trusted.
    """

    def __init__(self, settings: RefereeSettings) -> None:
        self._settings = settings
        self._device = parse_device(settings.device)
        self._zygote: ZygoteProcess | None = None
        self._wrapped: ZygoteProcess | None = None
        self._wrapped_scratch = ""
        """Where the second one's children have their scratch: nothing else can be written to in there."""
        self._sandbox: Sandbox | None = None
        self._children: weakref.WeakSet[Child] = weakref.WeakSet()
        self._is_closed = threading.Event()
        self._watch: threading.Thread | None = None
        self._scratches = ScratchSpace()

    @property
    def scratch_prefix(self) -> str:
        """How the names of its processes' scratch directories begin."""
        return self._scratches.prefix

    @property
    def build_cache(self) -> Path:
        """Folder of the libraries that candidates load by content hash."""
        return self._settings.cache_dir / "build"

    @property
    def sandbox(self) -> Sandbox:
        """How candidates are confined, found by trying.

        Raises:
            UserError: that is less than the settings require.
            MachineError: the zygote does not start.
        """
        self._wait_ready()
        assert self._sandbox is not None
        return self._sandbox

    def start(self) -> None:
        """Start the zygote without waiting for its imports."""
        if self._zygote is not None and self._zygote.is_running:
            return
        self._device.wake()
        options = {
            "at_most": self._settings.sandbox,
            "compiler": _compiler_word(),
            "nodes": self._device.nodes(),
            "files": self._device.files(),
            "driver": self._device.driver,
        }
        self._zygote = ZygoteProcess(options, self._environment())
        self._sandbox = None

    def spawn(
        self,
        kind: Literal["worker", "host", "builder"],
        limits: Limits,
        library: Path | None = None,
    ) -> Child:
        """Fork a child; it may load the given library of the build cache, and see no other.

        Raises:
            UserError: the sandbox is weaker than the settings require.
            MachineError: the zygote cannot.
        """
        self._wait_ready()
        zygote, is_wrapped = self._zygote_for(kind)
        scratch = self._scratches.new_folder(self._wrapped_scratch if is_wrapped else None)
        shown = {str(self.build_cache.resolve() / library.name): str(library.resolve())} if library else {}
        ours, theirs = socket.socketpair()
        log_fd = _make_log()
        listener, listened = listening_pair()
        with theirs, listener, listened:
            reply = zygote.ask(
                {"op": "spawn", "kind": kind, "limits": asdict(limits), "scratch": scratch, "extra": shown},
                [theirs.fileno(), log_fd, *([listened.fileno()] if is_wrapped else [])],
            )
            problem = reply.get("error", "")
            pid, keeper = reply.get("pid", 0), reply.get("keeper", 0)
            if is_wrapped and not problem:  # it has a number in there, and another one here
                pid, problem = first_word(listener)
                keeper = pid
            if problem:
                shutil.rmtree(scratch, ignore_errors=True)
                raise MachineError(f"a {kind} cannot be confined: {problem}")
        child = Child(zygote, pid, keeper, reply["keeper"], ours, log_fd, scratch, limits)
        self._children.add(child)
        self._start_watch()
        return child

    def spawn_worker(self, memory_bytes: int, library: Path | None = None) -> Child:
        """Fork a worker under the limits of the settings; see ``spawn``.

        A GPU's driver sets aside far more address space than there is memory, so that is not limited there.
        """
        settings = self._settings
        limits = Limits(
            address_space_bytes=None if self._device.has_driver else memory_bytes,
            cpu_s=settings.worker_cpu_s,
            file_bytes=settings.worker_file_bytes,
            processes=PROCESSES + THREADS_EACH * settings.n_threads,
            descriptors=DESCRIPTORS,
            scratch_bytes=settings.worker_scratch_bytes,
            total_bytes=settings.worker_total_bytes or memory_bytes,
        )
        return self.spawn("worker", limits, library)

    def _start_watch(self) -> None:
        if self._watch is None or not self._watch.is_alive():
            self._is_closed.clear()
            self._watch = threading.Thread(
                target=self._watch_children, name="kernelwright-watch", daemon=True
            )
            self._watch.start()

    def _watch_children(self) -> None:
        """Look at what the children hold, now and then, until the launcher is closed."""
        while not self._is_closed.wait(WATCH_S):
            for child in list(self._children):
                child.check_limits()

    def run_compiler(self, command: Sequence[str], work: Path, timeout_s: float) -> Ran:
        """Run a compiler on ``work/kernel.cpp`` in the sandbox; its results are put into ``work``.

        Raises:
            UserError, MachineError: as ``spawn``; or the compiler cannot be started in there.
        """
        room = SharedMemory(BUILT_BYTES)
        ceiling = self._settings.build_memory_bytes
        limits = Limits(
            file_bytes=BUILT_BYTES,
            processes=PROCESSES,
            descriptors=DESCRIPTORS,
            scratch_bytes=self._settings.worker_scratch_bytes,
            total_bytes=ceiling,
        )
        child = self.spawn("builder", limits)
        try:
            reply = child.call(
                "compile",
                timeout_s,
                {"results": room},
                command=list(command),
                sources={"kernel.cpp": (work / "kernel.cpp").read_text(encoding="utf-8")},
                results=["kernel.so", "report.txt"],
                address_space_bytes=ceiling,
            )
        except ChildLate:
            return Ran(None, "")
        except ChildDied as error:
            return Ran(1, f"error: the compiler's process {error.how}")
        except ChildRefused as error:
            raise MachineError(
                f"the compiler does not run in the sandbox: {error.kind}: {error.text}"
            ) from error
        finally:
            child.kill()
        for name, (offset, size) in reply["made"].items():
            (work / name).write_bytes(room.bytes[offset : offset + size].tobytes())
        return Ran(reply["exit_code"], reply["log"])

    def close(self) -> None:
        """End every child, then the zygote. Should this never run, the kernel ends them with us."""
        self._is_closed.set()
        for child in list(self._children):
            child.kill()
        if self._sandbox is not None and self._sandbox.tier is Tier.LIMITS:
            calls.set_dumpable(True)
        for zygote in (self._wrapped, self._zygote):
            if zygote is not None:
                zygote.close()
        self._wrapped = self._zygote = None
        self._scratches.close()

    def _wait_ready(self) -> None:
        self.start()
        assert self._zygote is not None
        if self._sandbox is None:
            self._start_early()
            self._sandbox = from_json(self._zygote.hello()["sandbox"])
            if self._sandbox.tier is Tier.LIMITS:
                calls.set_dumpable(False)  # else a process of the same user could read this one's memory
        require(self._sandbox, self._settings.require_sandbox)
        if self._sandbox.tier is Tier.BUBBLEWRAP:
            self._start_wrapped(self._zygote.hello())
        elif self._wrapped is not None:
            self._wrapped.close()
            self._wrapped = None

    def _start_early(self) -> None:
        """Start the second zygote while the first still imports, where it is clear that it will be needed."""
        wish = self._settings.sandbox
        if wish == BARE or bubblewrap.find() is None:
            return
        at_most = Tier(wish) if wish else None
        with contextlib.suppress(MachineError):  # the first one says it better
            found = foresee(at_most, self._settings.device, _compiler_word() or "")
            if found["sandbox"]["tier"] == Tier.BUBBLEWRAP:
                self._start_wrapped(found)

    def _start_wrapped(self, found: Message) -> None:
        """See that there is a zygote in there for what was found, without waiting for its imports."""
        options = {"sandbox": found["sandbox"], "view": found["view"]}
        if self._wrapped is not None:
            if self._wrapped.is_running and self._wrapped.options == options:
                return
            self._wrapped.close()
        program = bubblewrap.find()
        if program is None:
            raise MachineError(f"candidates cannot be confined any more: {bubblewrap.NOT_THERE}")
        self._wrapped_scratch = self._wrapped_scratch or self._scratches.new_folder()
        before = bubblewrap.wrap(
            program,
            view_from_json(found["view"]),
            writable=[self._wrapped_scratch],
            readable=[str(self.build_cache.resolve())],
        )
        self._wrapped = ZygoteProcess(options, {**self._environment(), **_AT_HOME_IN_THERE}, before)

    def _zygote_for(self, kind: str) -> tuple[ZygoteProcess, bool]:
        """Return the zygote that forks children of this kind, and whether it runs inside bubblewrap."""
        assert self._zygote is not None
        if self._wrapped is None or kind == "host":
            return self._zygote, False
        self._wrapped.hello()
        return self._wrapped, True

    def _environment(self) -> dict[str, str]:
        """Return the whole environment of every measured process: no secrets, fixed allocator settings.

        The allocator and OpenMP settings were chosen by measurement. Without them, fresh pages decide the
        time of every elementwise kernel. Idle threads spin briefly before they sleep. If they slept at once,
        sixty small operations took either 0.9 or 3.3 ms, depending on the system's wake-ups. If they spun for
        long, they would take processors from the other side. malloc's thread cache is off: its small blocks
        lie between large tensors and keep freed space from merging, so the heap would grow without end.
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
            "GOMP_SPINCOUNT": str(SPIN_COUNT),
            "OPENBLAS_NUM_THREADS": "1",
            "MALLOC_MMAP_MAX_": "0",
            "MALLOC_TRIM_THRESHOLD_": "100000000000",
            "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1:glibc.malloc.tcache_count=0",
            "TORCHINDUCTOR_CACHE_DIR": str(cache / "inductor"),
            "TORCHINDUCTOR_COMPILE_THREADS": "1",
            "KERNELWRIGHT_BUILD_CACHE": str(self.build_cache.resolve()),
            **self._device.environment(os.environ),
        }


def _make_log() -> int:
    """Return memory for a child's words that cannot grow."""
    log = os.memfd_create("log", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(log, LOG_BYTES)
    fcntl.fcntl(log, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return log


def _compiler_word() -> str | None:
    """Return the program that ``$CXX`` names."""
    words = shlex.split(os.environ.get("CXX", ""))
    return words[-1] if words else None


def _is_hung_up(sock: socket.socket) -> bool:
    try:
        return sock.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
