"""Starts the zygote and, through it, the processes that run references and candidates."""

import contextlib
import fcntl
import os
import secrets
import shlex
import shutil
import signal
import socket
import sys
import threading
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from kernelwright.core.errors import MachineError
from kernelwright.machine.compiler import Ran
from kernelwright.machine.device_lease import Tell
from kernelwright.referee.device import parse_device
from kernelwright.referee.sandbox import BARE, ProcessLimits, Sandbox, Tier, bubblewrap, calls
from kernelwright.referee.sandbox.account import open_account
from kernelwright.referee.sandbox.choose import foresee, from_json, require
from kernelwright.referee.sandbox.excess import excess
from kernelwright.referee.sandbox.limits import DESCRIPTORS, PROCESSES, THREADS_EACH
from kernelwright.referee.sandbox.pid_handshake import first_word, listening_pair
from kernelwright.referee.sandbox.processes import (
    ENDED,
    MINOR_FAULTS,
    PARENT,
    RESIDENT,
    family_of,
    stat_of,
    state_of,
)
from kernelwright.referee.sandbox.scratch import ScratchSpace
from kernelwright.referee.sandbox.stopping import stopped
from kernelwright.referee.sandbox.view import view_from_json
from kernelwright.referee.session.call_queue import ATTEND, Bytes, CallQueue, Change, FeedEnd, build_loop
from kernelwright.referee.session.call_records import can_read
from kernelwright.referee.session.shared_memory import SharedMemory
from kernelwright.referee.session.zygote_process import ZygoteProcess, describe_exit
from kernelwright.referee.settings import RefereeSettings
from kernelwright.referee.worker import wire
from kernelwright.referee.worker.wire import Message

FAILURE = "failure"
"""The command that fetches what the module raised."""
LOG_TAIL_BYTES = 4000
KIND_CHARS, ERROR_CHARS = 120, 4000
"""What the parent keeps of a child's exception: of its class's name; of its message and its traceback's end.
A child need not hold to what the worker sends."""
OWN_END_S = 1.0
"""Wait this long for a process that has closed its socket: a core dump or a busy machine delays its end."""
LOG_BYTES = 1 << 20
"""Most bytes that a child may write to stdout and stderr; a write beyond them fails in the child."""
REPLY_BYTES = 8 << 20
"""Longest answer of a child; descriptions of outputs and weights are far shorter."""
WATCH_S = 0.5
SPIN_COUNT = 4000
"""Turns of libgomp's waiting loop before a thread sleeps: a tenth of a millisecond or so."""
KEPT_MEMORY = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": "100000000000",
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1:glibc.malloc.tcache_count=0",
}
"""Variables under which malloc keeps all memory, in huge pages: no call pays for fresh pages."""
INDUCTOR = "kernelwright.referee.inductor"
"""What torch.compile needs beyond the rest of torch; it takes seconds to import."""
_AT_HOME_IN_THERE = {"HOME": "/tmp", "USER": "candidate", "TORCHINDUCTOR_CACHE_DIR": "/tmp/inductor"}
"""Environment of the zygote inside bubblewrap, which sees neither accounts nor the referee's caches."""
BUILT_BYTES = 64 << 20
"""Most bytes that a build may return, library and report together."""
RESULTS = ("kernel.so", "report.txt")
"""The files that a build may return, and no others."""


class ChildError(Exception):
    """A child did not carry out a command."""


class ChildDied(ChildError):
    """The process ended; ``how`` names the signal or the exit code."""

    def __init__(self, how: str, *, may_be_killed: bool = False) -> None:
        super().__init__(how)
        self.how, self.may_be_killed = how, may_be_killed
        """By somebody else, who may be the kernel where memory is short; or the process has killed itself."""


class ChildLate(ChildError):
    """No answer in time; the process group has been killed."""

    def __init__(self, timeout_s: float, cpu_s: float) -> None:
        super().__init__(f"no answer within {timeout_s:.3g} s")
        self.timeout_s, self.cpu_s = timeout_s, cpu_s
        """Time limit, and processor time of the process and all that it started, since its start."""


class ChildRefused(ChildError):
    """The command raised in the child."""

    def __init__(self, reply: Message) -> None:
        self.kind = str(reply.get("error"))[:KIND_CHARS]
        self.text = str(reply.get("message"))[:ERROR_CHARS]
        self.traceback = str(reply.get("traceback"))[-ERROR_CHARS:]
        super().__init__(f"{self.kind}: {self.text}")


class Child:
    """One forked process, its socket, its log and its scratch directory."""

    def __init__(
        self, zygote: ZygoteProcess, pid: int, keeper: int, own_child: int, sock: socket.socket, log_fd: int,
        scratch: str, limits: ProcessLimits, *, may_group: bool,
    ) -> None:  # fmt: skip
        """``may_group``: the child is confined, so that it cannot leave a control group."""
        self._zygote, self.pid, self._keeper, self._sock = zygote, pid, keeper, sock
        self._own_child = own_child
        """The keeper's process id in the zygote's process table."""
        self._log_fd, self._scratch, self._limits = log_fd, scratch, limits
        self._ended_because = ""
        self._reaped: int | None = None
        """The exit code, once the child has ended and if the zygote knows the code."""
        self._ending, self._stopping = threading.Lock(), threading.RLock()
        self.is_alive = True
        self._queue: CallQueue | None = None
        self.generator_at = 0
        """Address of the state of torch's random generator in the child."""
        self.is_readable = False
        """This process may read the child's memory."""
        self.is_host = False
        """True for a host, which may serve other evaluations too."""
        self.answered_in_s = 0.0
        """Seconds from sending the last command to having its answer, without other work of the parent."""
        self.account = open_account(pid, keeper, may_group=may_group)
        """Processor time of the child and of everything that it starts."""

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """Stop the process and everything that it started, while the context lasts."""
        with self._stopping, stopped(self.pid, lambda: family_of(self._keeper)):
            yield

    @property
    def keeper(self) -> int:
        """The process from which everything that this child starts descends."""
        return self._keeper

    def call(
        self, op: str, timeout_s: float, arenas: Mapping[str, SharedMemory] | None = None, **fields: Any
    ) -> Message:
        """Send one command, with memory to map, and return the answer.

        Raises ChildDied, ChildLate (both after killing the group) or ChildRefused; MachineError when the
        child ended because the zygote did.
        """
        if not self.is_alive:
            raise ChildDied("had ended before")
        arenas = arenas or {}
        nonce = secrets.token_hex(8)
        message = {"op": op, **fields, wire.NONCE: nonce}
        if arenas:
            message["map"] = list(arenas)
            message["sizes"] = [memory.size for memory in arenas.values()]
        try:
            self._announce(op, timeout_s)
            self._sock.settimeout(timeout_s)
            begin = time.perf_counter()
            wire.send(self._sock, message, [memory.fd for memory in arenas.values()])
            reply = wire.receive(self._sock, timeout_s, REPLY_BYTES)
            self.answered_in_s = time.perf_counter() - begin
            if reply.pop(wire.NONCE, None) != nonce:
                raise wire.MalformedMessage("an answer to no command")
        except wire.Late as error:
            raise self._late(timeout_s) from error
        except (wire.Closed, wire.MalformedMessage) as error:
            raise self._died() from error
        if "error" in reply:
            raise ChildRefused(reply)
        return reply

    def open_loop(self, library: Path, timeout_s: float) -> None:
        """Have the process take its calls from a queue from now on."""
        queue = CallQueue(library, self._sock.fileno())
        reply = self.call("open_loop", timeout_s, {"queue": queue.memory}, arena="queue")
        self._queue = queue
        self.generator_at = int(reply["generator"])
        self.is_readable = can_read(self.pid, int(reply["address"]))

    @property
    def queue(self) -> CallQueue:
        """Where its calls come from."""
        assert self._queue is not None
        return self._queue

    def feed(
        self, calls: Sequence[int], timeout_s: float, *, n_extra: int = 0, ahead: int = 2,
        change: Change | None = None, goes_on: bool = False,
    ) -> None:  # fmt: skip
        """Have calls made; see CallQueue.feed. Raises as ``call``, ChildRefused if the module raises.

        ``goes_on``: behind those that are left of a series, without a pause.
        """
        if not self.is_alive:
            raise ChildDied("had ended before")
        if not goes_on:
            self.drain(timeout_s)
        how, self.answered_in_s = self.queue.feed(
            calls, timeout_s, n_extra=n_extra, ahead=ahead, change=change
        )
        self._judge(how, timeout_s)

    def feed_written(
        self,
        numbers: Sequence[int],
        places: Sequence[Bytes],
        values: Sequence[Bytes],
        timeout_s: float,
        *,
        ahead: int,
    ) -> None:
        """Have calls made on values that are written meanwhile; see CallQueue. Raises as ``feed``."""
        if not self.is_alive:
            raise ChildDied("had ended before")
        self.drain(timeout_s)
        how, self.answered_in_s = self.queue.feed_written(numbers, places, values, timeout_s, ahead=ahead)
        self._judge(how, timeout_s)

    def drain(self, timeout_s: float) -> None:
        """Wait for all calls; raises as ``feed``."""
        self._judge(self.queue.drain(timeout_s), timeout_s)

    def _announce(self, op: str, timeout_s: float) -> None:
        if self._queue is not None:
            if op != FAILURE:
                self.drain(timeout_s)
            self._queue.push(ATTEND)

    def _judge(self, how: FeedEnd, timeout_s: float) -> None:
        if how is FeedEnd.LATE:
            raise self._late(timeout_s)
        if how is FeedEnd.GONE:
            raise self._died()
        if how is FeedEnd.RAISED:
            self.call(FAILURE, timeout_s)

    def _late(self, timeout_s: float) -> ChildLate:
        cpu_s = self.account.seconds()
        self.kill()
        return ChildLate(timeout_s, cpu_s)

    def _died(self) -> Exception:
        how = self.kill()
        if self._reaped is None and (ended := self._zygote.how_it_ended()):
            return MachineError(ended)
        may_be_killed = self._reaped == -signal.SIGKILL and not self._ended_because
        return ChildDied(how, may_be_killed=may_be_killed)

    def require_there(self) -> None:
        """Raise as ``call`` where the process has ended; asks nothing of one that is there, or stopped."""
        if state_of(self.pid) in ENDED:
            raise self._died()

    def kill(self) -> str:
        """End the process and all its descendants; return in words how it ended."""
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
        self.account.close()
        how = describe_exit(self._reaped)
        shutil.rmtree(self._scratch, ignore_errors=True)
        return self._ended_because or how

    def _end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._keeper, signal.SIGKILL)

    def _wait_for_own_end(self) -> None:
        """Give a dying process a moment, so that its own signal is reported and not our SIGKILL."""
        self._sock.setblocking(False)
        deadline = time.monotonic() + OWN_END_S
        while time.monotonic() < deadline and _is_hung_up(self._sock) and state_of(self._keeper) not in ENDED:
            time.sleep(0.002)

    def check_limits(self) -> None:
        """End the process if it and its descendants hold more than they may, as no kernel limit counts it."""
        if not self.is_alive or self._ended_because:
            return
        may_stop = self._stopping.acquire(blocking=False)
        try:
            problem = excess(self._limits, self._keeper, self._scratch, is_held=not may_stop)
        finally:
            if may_stop:
                self._stopping.release()
        with self._ending:
            if problem and self.is_alive:
                self._ended_because = f"was killed: {problem}"
                self._end()

    def abandon(self) -> None:
        """End the process, whatever it is at: nobody wants to know."""
        with self._ending:
            if self.is_alive and not self._ended_because:
                self._ended_because = "was killed: nobody waits for the verdict any more"
                self._end()

    def log_tail(self) -> str:
        """Return the end of what the child wrote to stdout and stderr."""
        size = min(os.lseek(self._log_fd, 0, os.SEEK_CUR), LOG_BYTES)
        data = os.pread(self._log_fd, LOG_TAIL_BYTES, max(size - LOG_TAIL_BYTES, 0))
        return data[:size].decode(errors="replace")

    def minor_faults(self) -> int:
        """Return the minor page faults of the process so far; 0 when it has ended."""
        return self._number(MINOR_FAULTS)

    def resident_pages(self) -> int:
        """Return the pages of memory that the process has now; 0 when it has ended."""
        return self._number(RESIDENT)

    def _number(self, place: int) -> int:
        stat = stat_of(self.pid)
        return int(stat[place]) if stat else 0

    def __del__(self) -> None:
        os.close(self._log_fd)


class Launcher:
    """Owns the zygote: starts it on first use, and again if it dies. Several threads may spawn at once.

    Under the tier ``bubblewrap`` there are two zygotes. The second runs inside ``bwrap`` and forks everything
    that is not trusted.
    """

    def __init__(self, settings: RefereeSettings, *, is_ordinary: bool = False) -> None:
        """``is_ordinary``: processes get their memory from malloc as it is by default."""
        self._settings = settings
        self.is_ordinary = is_ordinary
        self.tell: Tell = lambda line: None
        """What is told what an evaluation waits for."""
        self._device = parse_device(settings.device)
        self._zygote: ZygoteProcess | None = None
        self._wrapped: ZygoteProcess | None = None
        self._wrapped_scratch = ""
        """Folder for the scratch directories of the second zygote's children, who can write nowhere else."""
        self._sandbox: Sandbox | None = None
        self._children: weakref.WeakSet[Child] = weakref.WeakSet()
        self._listing = threading.Lock()
        self._loop: Path | None = None
        self._is_closed = threading.Event()
        self._watch: threading.Thread | None = None
        self._scratches = ScratchSpace()
        self._loaded: set[str] = set()
        """What the zygotes have imported by ``load``."""
        self._starting = threading.RLock()

    @property
    def scratch_prefix(self) -> str:
        """Prefix of the names of its processes' scratch directories."""
        return self._scratches.prefix

    @property
    def build_cache(self) -> Path:
        """Folder of the compiled libraries, named by content hash, that candidates load."""
        return self._settings.build_cache

    @property
    def loop(self) -> Path:
        """The loop from which every measured process calls its module."""
        if self._loop is None:
            self._loop = build_loop(self._settings.cache_dir).resolve()
        return self._loop

    @property
    def sandbox(self) -> Sandbox:
        """How candidates are confined here, found by trying.

        Raises:
            UserError: the sandbox is weaker than the settings require.
            MachineError: the zygote does not start.
        """
        with self._starting:
            self._wait_ready()
            assert self._sandbox is not None
            return self._sandbox

    def start(self) -> None:
        """Start the zygote without waiting for its imports."""
        if self._zygote is not None and self._zygote.is_running:
            return
        self._device.wake()
        options = {
            "loop": str(self.loop),
            "at_most": self._settings.sandbox,
            "compiler": _compiler_word(),
            "nodes": self._device.nodes(),
            "files": self._device.files(),
            "driver": self._device.driver,
        }
        self._zygote = ZygoteProcess(options, self._environment())
        self._sandbox = None
        self._loaded.clear()

    def load(self, name: str) -> None:
        """Have children to come find a module imported; they could import it themselves, each for itself.

        Raises:
            UserError, MachineError: as ``spawn``.
        """
        with self._starting:
            self._wait_ready()
            if name not in self._loaded:
                self._loaded.add(name)
                self._ask_zygotes({"op": "load", "names": [name]})

    def prepare(self) -> None:
        """Have the first worker fork as soon as any later one.

        Raises:
            UserError, MachineError: as ``spawn``.
        """
        with self._starting:
            self._wait_ready()
            self._ask_zygotes({"op": "prepare"})

    def _ask_zygotes(self, message: Message) -> None:
        for is_trusted in (True, False):
            self._zygote_for(is_trusted=is_trusted)[0].ask(message)

    def spawn(
        self,
        kind: Literal["worker", "host", "builder"],
        limits: ProcessLimits,
        library: Path | None = None,
        *,
        is_trusted: bool = False,
        shown: Sequence[Path] = (),
    ) -> Child:
        """Fork a child, confined unless it is trusted; of the build cache it sees the given library only.

        ``shown`` are further files that it may read.

        Raises:
            UserError: the sandbox is weaker than the settings require.
            MachineError: the zygote cannot start or confine the child.
        """
        with self._starting:
            self._wait_ready()
            zygote, is_wrapped = self._zygote_for(is_trusted=is_trusted)
            scratch = self._scratches.new_folder(self._wrapped_scratch if is_wrapped else None)
        files = (*((library,) if library else ()), *shown)
        extra = {str(path.resolve()): str(path.resolve()) for path in files}
        ours, theirs = socket.socketpair()
        log_fd = _make_log()
        listener, listened = listening_pair()
        with theirs, listener, listened:
            reply = zygote.ask(
                {
                    "op": "spawn",
                    "kind": kind,
                    "limits": asdict(limits),
                    "scratch": scratch,
                    "extra": extra,
                    "is_trusted": is_trusted,
                },
                [theirs.fileno(), log_fd, *([listened.fileno()] if is_wrapped else [])],
            )
            problem = reply.get("error", "")
            pid, keeper = reply.get("pid", 0), reply.get("keeper", 0)
            if is_wrapped and not problem:  # its process id differs inside and outside of bubblewrap
                pid, problem = first_word(listener)
                stat = stat_of(pid)
                keeper = int(stat[PARENT]) if stat else pid
            if problem:
                shutil.rmtree(scratch, ignore_errors=True)
                raise MachineError(f"a {kind} cannot be confined: {problem}")
        may_group = kind == "worker" and self.sandbox.tier is not Tier.LIMITS
        child = Child(
            zygote, pid, keeper, reply["keeper"], ours, log_fd, scratch, limits, may_group=may_group
        )
        child.is_host = kind == "host"
        with self._listing:
            self._children.add(child)
        self._start_watch()
        return child

    def spawn_host(self, address_space_bytes: int | None, *, is_trusted: bool) -> Child:
        """Fork a process for a reference; see ``spawn``. One that is not trusted has a worker's limits."""
        if is_trusted:
            return self.spawn("host", ProcessLimits(address_space_bytes=address_space_bytes), is_trusted=True)
        settings = self._settings
        limits = ProcessLimits(
            address_space_bytes=address_space_bytes,
            file_bytes=settings.worker_file_bytes,
            processes=PROCESSES + THREADS_EACH * settings.n_threads,
            descriptors=DESCRIPTORS,
            scratch_bytes=settings.worker_scratch_bytes,
            total_bytes=address_space_bytes,
        )
        return self.spawn("host", limits)

    def spawn_worker(
        self, memory_bytes: int, library: Path | None = None, shown: Sequence[Path] = ()
    ) -> Child:
        """Fork a worker under the limits of the settings; see ``spawn``.

        On a GPU the address space is not limited: the driver reserves far more of it than there is memory.
        """
        settings = self._settings
        limits = ProcessLimits(
            address_space_bytes=None if self._device.has_driver else memory_bytes,
            cpu_s=settings.worker_cpu_s,
            file_bytes=settings.worker_file_bytes,
            processes=PROCESSES + THREADS_EACH * settings.n_threads,
            descriptors=DESCRIPTORS,
            scratch_bytes=settings.worker_scratch_bytes,
            total_bytes=settings.worker_total_bytes or memory_bytes,
        )
        return self.spawn("worker", limits, library, shown=shown)

    def _start_watch(self) -> None:
        if self._watch is None or not self._watch.is_alive():
            self._is_closed.clear()
            self._watch = threading.Thread(
                target=self._watch_children, name="kernelwright-watch", daemon=True
            )
            self._watch.start()

    def _watch_children(self) -> None:
        """Check the children's limits every ``WATCH_S`` seconds until the launcher is closed."""
        while not self._is_closed.wait(WATCH_S):
            for child in self._all_children():
                child.check_limits()

    def _all_children(self) -> list[Child]:
        """Return the children; others may be added meanwhile."""
        with self._listing:
            return list(self._children)

    def run_compiler(self, command: Sequence[str], work: Path, timeout_s: float) -> Ran:
        """Run a compiler on ``work/kernel.cpp`` in the sandbox and put its results into ``work``.

        Raises:
            UserError, MachineError: as ``spawn``; MachineError also if the compiler does not start there.
        """
        room = SharedMemory(BUILT_BYTES)
        ceiling = self._settings.build_memory_bytes
        limits = ProcessLimits(
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
                results=list(RESULTS),
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
        return take_results(reply, room, work)

    def abandon(self) -> None:
        """End the processes of candidates and compilers; may be called while another thread waits for one."""
        for child in self._all_children():
            if not child.is_host:
                child.abandon()

    def close(self) -> None:
        """End every child, then the zygotes. If this never runs, the kernel ends them with this process."""
        self._is_closed.set()
        for child in self._all_children():
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
        """Start the second zygote while the first still imports, if it will be needed."""
        wish = self._settings.sandbox
        if wish == BARE or bubblewrap.find() is None:
            return
        at_most = Tier(wish) if wish else None
        with contextlib.suppress(MachineError):  # the first zygote reports the same more clearly
            found = foresee(at_most, self._settings.device, _compiler_word() or "")
            if found["sandbox"]["tier"] == Tier.BUBBLEWRAP:
                self._start_wrapped(found)

    def _start_wrapped(self, found: Message) -> None:
        """Make sure that a zygote runs inside bubblewrap, without waiting for its imports.

        ``found`` holds the sandbox and the view that were chosen.
        """
        options = {"sandbox": found["sandbox"], "view": found["view"], "loop": str(self.loop)}
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
            readable=[str(self.build_cache.resolve()), str(self.loop.parent.resolve())],
        )
        self._wrapped = ZygoteProcess(options, {**self._environment(), **_AT_HOME_IN_THERE}, before)

    def _zygote_for(self, *, is_trusted: bool) -> tuple[ZygoteProcess, bool]:
        """Return the zygote that forks such children, and whether it runs inside bubblewrap."""
        assert self._zygote is not None
        if self._wrapped is None or is_trusted:
            return self._zygote, False
        self._wrapped.hello()
        return self._wrapped, True

    def _environment(self) -> dict[str, str]:
        """Return the whole environment of every measured process: no secrets, fixed allocator settings.

        An ordinary process has malloc's own settings. Of the others:

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
            **({} if self.is_ordinary else KEPT_MEMORY),
            "TORCHINDUCTOR_CACHE_DIR": str(cache / "inductor"),
            "TORCHINDUCTOR_COMPILE_THREADS": "1",
            "KERNELWRIGHT_BUILD_CACHE": str(self.build_cache.resolve()),
            **self._device.environment(os.environ),
        }


def take_results(reply: Message, room: SharedMemory, work: Path) -> Ran:
    """Write the files that a builder has made to ``work``: none but ``RESULTS``, from inside ``room`` only.

    Raises:
        MachineError: the answer is not of the agreed form, which only a builder that was taken over can send.
    """
    made, code, log = reply.get("made"), reply.get("exit_code"), reply.get("log")
    if not (isinstance(made, dict) and isinstance(code, int) and isinstance(log, str)):
        raise MachineError("the compiler's process answers with something that is no result")
    for name in RESULTS:
        if name in made:
            (work / name).write_bytes(_part(made[name], room))
    return Ran(code, log)


def _part(place: Any, room: SharedMemory) -> bytes:
    """Return the bytes at an (offset, size) that an untrusted process names."""
    is_pair = isinstance(place, list) and len(place) == 2 and all(type(one) is int for one in place)
    if not is_pair or not 0 <= place[0] <= place[0] + place[1] <= room.size or place[1] < 0:
        raise MachineError("the compiler's process names a result that is not in its memory")
    offset, size = place
    return room.bytes[offset : offset + size].tobytes()


def _make_log() -> int:
    """Return memory of fixed size for a child's stdout and stderr."""
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
