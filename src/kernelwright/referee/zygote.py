"""The zygote: the process with torch imported from which every host, worker and builder is forked.

Imports torch once and runs no parallel operation. After a first use of OpenMP, a forked child would hang
forever, because libgomp's threads do not survive a fork. Started as
``python -m kernelwright.referee.zygote FD OPTIONS``.
"""

import contextlib
import json
import os
import resource
import select
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib import import_module
from typing import NoReturn

import torch  # imported here, as is the task, so that every child finds them warm

from kernelwright.core.errors import KernelwrightError, MachineError
from kernelwright.core.task import Task
from kernelwright.referee.sandbox import BARE, ProcessLimits, Sandbox, Tier, calls
from kernelwright.referee.sandbox.choose import choose, from_json
from kernelwright.referee.sandbox.enter import Confinement, enter, enter_trusted
from kernelwright.referee.sandbox.pid_handshake import first_word, listening_pair, say_ready
from kernelwright.referee.sandbox.processes import SESSION, children_of, stat_of
from kernelwright.referee.sandbox.view import View, make_view, view_from_json
from kernelwright.referee.worker import wire
from kernelwright.referee.worker.call_loop import CallLoop
from kernelwright.referee.worker.wire import Message

_CHANNEL = 3
"""Descriptor of a child's socket; besides this a child has the standard descriptors only."""
_FOR_HOSTS = ("kernelwright.referee.host.main", "kernelwright.tasks.watched")
"""Imported before the first fork, too: each child would take its time for it."""
_FOR_WORKERS = ("kernelwright.referee.worker.main",)
"""Imported before the first worker is forked. That takes a second, for ``torch._dynamo``, and while the first
host admits its task there is time for it."""
_IDLE_S = 0.05
"""When nobody has asked for so long, there is time."""
_STRAYS_S = 20.0
_LOOK_S = 0.5
"""Longest time that a stray process lives before the zygote kills it."""


def main() -> None:
    """Answer fork and reap requests until the parent hangs up."""
    sock = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, it would drop the time of ended children
    calls.adopt_orphans()
    calls.set_dumpable(False)
    try:
        zygote = _Zygote(sock, json.loads(sys.argv[2]))
    except KernelwrightError as error:
        wire.send(sock, {"error": str(error)})
        return
    _import(_FOR_HOSTS)
    wire.send(sock, {"task": Task.__name__, **zygote.found})
    try:
        zygote.serve()
    finally:
        zygote.end_all()
    os._exit(0)  # the interpreter would take a second to take torch down


class _Zygote:
    def __init__(self, sock: socket.socket, options: Message) -> None:
        self._sock = sock
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            raise MachineError("a GPU was used before the fork; nothing that is forked could use it")
        self._loop = CallLoop(options["loop"])
        if "sandbox" in options:  # the second zygote, inside ``bwrap``: the first one chose the sandbox
            self._view, self._sandbox = view_from_json(options["view"]), from_json(options["sandbox"])
        else:
            words = (options[name] for name in ("compiler", "nodes", "files", "driver"))
            self._view = make_view(*words)
            self._sandbox = _sandbox(self._view, options["at_most"])
        self._children: dict[int, str] = {}
        """Direct child -> its scratch directory."""
        self._is_ready_for_workers = False
        self._trusted: set[int] = set()
        """Children that run the user's own code: the hosts of tasks that are trusted."""
        self._end_strays()  # processes left by the trials of sandboxes

    @property
    def found(self) -> Message:
        """What was found before the first fork: version of torch, sandbox, view."""
        return {
            "torch": torch.__version__, "sandbox": asdict(self._sandbox), "view": asdict(self._view),
        }  # fmt: skip

    def serve(self) -> None:
        handlers: dict[str, Callable[[Message, list[int]], Message]] = {
            "spawn": self.spawn,
            "reap": self.reap,
            "load": self.load,
            "prepare": self.prepare,
        }
        while True:
            if not select.select([self._sock], [], [], _LOOK_S if self._is_ready_for_workers else _IDLE_S)[0]:
                self._get_ready_for_workers()
                self._end_strays()
                continue
            try:
                message, fds = wire.receive_with_fds(self._sock)
                wire.send(self._sock, handlers[message["op"]](message, fds))
            except wire.Closed:
                return

    def spawn(self, message: Message, fds: list[int]) -> Message:
        """Fork a confined child that talks over the first descriptor and logs to the second.

        Answers with the process ids of the child and of its keeper in the zygote's process table. If there is
        a third descriptor, the child sends its PID handshake there too: the parent may be in another table.
        """
        if message["kind"] == "worker":
            self._get_ready_for_workers()
        ours, theirs = listening_pair()
        zygote = os.getpid()
        keeper = os.fork()
        if keeper == 0:
            self._sock.close()
            ours.close()
            self._become(message, fds, zygote, theirs)
        theirs.close()
        for fd in fds:
            os.close(fd)
        self._children[keeper] = message["scratch"]
        if message["is_trusted"]:
            self._trusted.add(keeper)
        with ours:
            pid, problem = first_word(ours)
        if problem:
            with contextlib.suppress(ProcessLookupError):
                os.kill(keeper, signal.SIGKILL)
            self.reap({"pid": keeper}, [])
            return {"error": problem}
        return {"pid": pid, "keeper": keeper}

    def _become(self, message: Message, fds: list[int], zygote: int, report: socket.socket) -> NoReturn:
        code = 1
        try:
            channel, log, *listeners = fds
            os.dup2(log, 1)
            os.dup2(log, 2)
            try:
                cell = Confinement(
                    self._sandbox,
                    self._view.without_nodes() if message["kind"] == "builder" else self._view,
                    ProcessLimits(**message["limits"]),
                    message["scratch"],
                    message["extra"],
                )
                (enter_trusted if message["is_trusted"] else enter)(cell, zygote)
            except BaseException as error:
                report.send(f"{type(error).__name__}: {error}".encode()[:1000])
                raise
            for listener in (*listeners, report.detach()):
                say_ready(listener)
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.dup2(channel, _CHANNEL)
            os.closerange(_CHANNEL + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
            _serve(message["kind"], socket.socket(fileno=_CHANNEL), self._loop)
            code = 0
        finally:
            os._exit(code)

    def _get_ready_for_workers(self) -> None:
        if not self._is_ready_for_workers:
            _import(_FOR_WORKERS)
            self._is_ready_for_workers = True

    def prepare(self, message: Message, fds: list[int]) -> Message:
        """Import what workers need."""
        self._get_ready_for_workers()
        return {}

    def load(self, message: Message, fds: list[int]) -> Message:
        """Import modules that children to come will need; what runs in parallel at its import is none."""
        _import(message["names"])
        return {}

    def reap(self, message: Message, fds: list[int]) -> Message:
        """Wait for a child that is dead or dying, kill the processes it left, answer with its exit code."""
        pid = message["pid"]
        code = None
        with contextlib.suppress(ChildProcessError):
            _, status = os.waitpid(pid, 0)
            code = os.waitstatus_to_exitcode(status)
        self._children.pop(pid, None)
        self._trusted.discard(pid)
        left = self._end_strays()
        return {"exit_code": code, "left": left}

    def _end_strays(self) -> int:
        """Kill the orphans of candidates, which the zygote has adopted; return how many there were."""
        count = 0
        deadline = time.monotonic() + _STRAYS_S
        while time.monotonic() < deadline:
            strays = [pid for pid in children_of(os.getpid()) if self._is_stray(pid)]
            if not strays:
                break
            for pid in strays:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for pid in strays:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, 0)
            count += len(strays)
        return count

    def _is_stray(self, pid: int) -> bool:
        if pid in self._children:
            return False
        stat = stat_of(pid)
        return not stat or int(stat[SESSION]) not in self._trusted

    def end_all(self) -> None:
        """Kill every child with all its orphans, and remove the scratch directories."""
        scratches = list(self._children.values())
        for pid in list(self._children):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            self.reap({"pid": pid}, [])
        for scratch in scratches:
            shutil.rmtree(scratch, ignore_errors=True)


def _sandbox(view: View, wish: str | None) -> Sandbox:
    """Return the strongest sandbox, or the one that the settings ask for."""
    if wish == BARE:
        return Sandbox(Tier.LIMITS)
    return choose(view, Tier(wish) if wish else None)


def _import(names: Sequence[str]) -> None:
    for name in names:
        import_module(name)


def _serve(kind: str, sock: socket.socket, loop: CallLoop) -> None:
    if kind == "host":
        from kernelwright.referee.host.main import main as host_main

        host_main(sock, loop)
    elif kind == "builder":
        from kernelwright.referee.worker.builder import main as builder_main

        builder_main(sock)
    else:
        from kernelwright.referee.worker.main import main as worker_main

        worker_main(sock, loop)


if __name__ == "__main__":
    main()
