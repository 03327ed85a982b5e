"""What runs in the sandbox besides candidates: commands, compilers, and the capture of strangers' graphs.

``python -m kernelwright.referee.session.confined FD FOLDER TERMS COMMAND...`` starts a command
there. Its first line to the descriptor names the tier. The command sees what a candidate may see, has a
candidate's limits, and works in the folder or in a scratch directory of its own. The process outside watches
what the kernel does not limit. It ends everything that the command started when the command ends or holds too
much, on SIGTERM, and when the process that asked for it is gone.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from kernelwright.core.errors import CaptureError, TaskError, UserError
from kernelwright.core.source import MAX_SOURCE_BYTES
from kernelwright.machine.compiler import RunCompiler
from kernelwright.referee.settings import RefereeSettings

if TYPE_CHECKING:
    from kernelwright.core.task import Task, Workload
    from kernelwright.referee.device import Device
    from kernelwright.referee.sandbox import ProcessLimits, Sandbox
    from kernelwright.referee.sandbox.view import View
    from kernelwright.referee.session.launcher import Launcher
    from kernelwright.tasks.capture import Capture, Captured

SCRATCH_BYTES = 1 << 30
_MODULE = "kernelwright.referee.session.confined"
_IN_THERE = "--in-there"
"""First argument of the process that ``bwrap`` starts. The second is what was found outside, as JSON."""
_FAILED = 70
_LOOK_S = 0.5
"""Between two looks at what the command holds, and at whether anybody still waits for it."""
_STRAYS_S = 20.0


def start_confined(
    command: Sequence[str],
    folder: str,
    answers: int,
    log: int,
    *,
    require: str | None = None,
    threads: int = 1,
    memory_bytes: int | None = None,
    at_most: str | None = None,
    device: "Device | None" = None,
    shown: Sequence[str] = (),
) -> "subprocess.Popen[bytes]":
    """Start a command in the strongest sandbox that works here; see ``targets/gpu/inspect/run.py``.

    ``require`` is the tier that must at least be there; a weaker one is refused in the answers,
    ``{"refused": line}``. ``memory_bytes`` may be held by all its processes together; None: what a task may
    take. ``at_most``: the strongest tier to use. ``device``: what it may work on besides the processor.
    ``shown`` are files that the command may read besides.
    SIGTERM ends the command with everything that it started.
    """
    # lazy: the process that confines itself does not need it
    from kernelwright.targets.gpu.inspect.run import start_here

    limits, more = asdict(_limits(memory_bytes, threads)), dict[str, str]()
    view: dict[str, object] = {"files": list(shown)}
    if device is not None and device.has_driver:
        device.wake()
        limits["address_space_bytes"] = None  # the driver reserves far more of it than there is memory
        view = {"nodes": device.nodes(), "files": [*device.files(), *shown], "driver": device.driver}
        more = device.environment(os.environ)
    terms = json.dumps({"limits": limits, "require": require, "at_most": at_most, "view": view})
    wrapped = [sys.executable, "-m", _MODULE, str(answers), folder, terms, *command]
    return start_here(wrapped, folder, answers, log, threads=threads, more=more)


def _limits(memory_bytes: int | None, threads: int) -> "ProcessLimits":
    """Return a candidate's limits for a process whose time its caller limits."""
    # lazy: as above
    from kernelwright.referee.sandbox import ProcessLimits
    from kernelwright.referee.sandbox.limits import DESCRIPTORS, PROCESSES, THREADS_EACH
    from kernelwright.referee.session import admission
    from kernelwright.referee.session.host_process import ADDRESS_SLACK

    usable = admission.usable_bytes(memory_bytes)
    return ProcessLimits(
        address_space_bytes=usable + ADDRESS_SLACK,
        file_bytes=SCRATCH_BYTES,
        processes=PROCESSES + THREADS_EACH * threads,
        descriptors=DESCRIPTORS,
        scratch_bytes=SCRATCH_BYTES,
        total_bytes=usable,
    )


class ConfinedCompiler(NamedTuple):
    """A way to run compilers in a sandbox, and the sandbox's tier."""

    run: RunCompiler
    sandbox: str


@contextlib.contextmanager
def confined_compiler(settings: RefereeSettings) -> Iterator[ConfinedCompiler]:
    """Yield the referee's own way of running compilers; raises as ``Launcher.spawn``."""
    # lazy: starts processes
    from kernelwright.referee.session.launcher import Launcher

    launcher = Launcher(settings)
    try:
        yield ConfinedCompiler(launcher.run_compiler, launcher.sandbox.tier.value)
    finally:
        launcher.close()


@contextlib.contextmanager
def confined_capture(settings: RefereeSettings) -> Iterator["Capture"]:
    """Yield what captures graphs of strangers' tasks: their code runs in the sandbox, a graph comes back.

    Every capture has a process of its own, with a candidate's limits. What it yields raises

        TaskError: the task's code fails, ends its process, is not done in time, or is no file's.
        CaptureError: there is no graph, or none that is read of strangers (``tasks/graph_data.py``).
        UserError, MachineError: as ``Launcher.spawn``.
    """
    # lazy: starts processes
    from kernelwright.referee.session.launcher import Launcher

    launcher = Launcher(settings)
    try:
        yield lambda task, workload: _captured(launcher, settings, task, workload)
    finally:
        launcher.close()


def _captured(
    launcher: "Launcher", settings: RefereeSettings, task: "Task", workload: "Workload"
) -> "Captured":
    # lazy: as above
    from kernelwright.referee.session import admission
    from kernelwright.referee.session.host_process import ADDRESS_SLACK
    from kernelwright.referee.session.launcher import ChildError, ChildRefused
    from kernelwright.tasks.graph_data import read_graph

    if task.artifact is not None:
        raise TaskError(f"{task.name}: a module of this process is your own; a stranger's task is a file")
    if len(task.source) > MAX_SOURCE_BYTES:
        raise TaskError(f"{task.name}: the source has more than {MAX_SOURCE_BYTES} bytes")
    ceiling = admission.usable_bytes(settings.memory_bytes) + ADDRESS_SLACK
    child = launcher.spawn_host(ceiling, is_trusted=False)
    wanted, binding = task.model_dump_json(), workload.model_dump_json()
    try:
        reply = child.call("capture", settings.load_timeout_s, task=wanted, workload=binding)
    except ChildRefused as error:
        if error.kind == CaptureError.__name__:
            raise CaptureError(" ".join(error.text.split())[:300]) from error
        raise admission.explain(task, workload, error) from error
    except ChildError as error:
        raise admission.explain(task, workload, error) from error
    finally:
        child.kill()
    return read_graph(reply.get("graph"))


def main() -> None:
    """Confine a forked child, run the command in it, watch it, and end with the command's exit code."""
    # lazy: a process that only calls start_confined does not need it
    from kernelwright.referee.sandbox import ProcessLimits
    from kernelwright.referee.sandbox.choose import choose, from_json, require
    from kernelwright.referee.sandbox.tiers import Tier
    from kernelwright.referee.sandbox.view import make_view, view_from_json

    if sys.argv[1] == _IN_THERE:
        found, folder, command = json.loads(sys.argv[2]), sys.argv[3], sys.argv[4:]
        cell = from_json(found["sandbox"]), view_from_json(found["view"]), ProcessLimits(**found["limits"])
        os._exit(_code(os.waitpid(_fork_confined(*cell, folder, command), 0)[1]))
    asking = os.getppid()
    answers, folder, terms, command = int(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]), sys.argv[4:]
    view, limits = make_view(**terms["view"]), ProcessLimits(**terms["limits"])
    sandbox = choose(view, Tier(terms["at_most"]) if terms["at_most"] else None)
    try:
        require(sandbox, terms["require"])
    except UserError as error:
        os.write(answers, json.dumps({"refused": str(error)}).encode() + b"\n")
        os._exit(_FAILED)
    os.write(answers, json.dumps({"sandbox": sandbox.tier.value}).encode() + b"\n")
    _watch(sandbox, view, limits, folder, command, asking)


def _watch(
    sandbox: "Sandbox",
    view: "View",
    limits: "ProcessLimits",
    folder: str,
    command: Sequence[str],
    asking: int,
) -> NoReturn:
    """Start the command and end with it; whatever happens, nothing that it started is left."""
    # lazy: as above
    from kernelwright.referee.sandbox import calls
    from kernelwright.referee.sandbox.excess import excess
    from kernelwright.referee.sandbox.tiers import Tier

    calls.adopt_orphans()
    signals = {signal.SIGCHLD, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    start = _fork_wrapped if sandbox.tier is Tier.BUBBLEWRAP else _fork_confined
    pid = start(sandbox, view, limits, folder, command)
    why, next_look = "", time.monotonic() + _LOOK_S
    while not why:
        number = getattr(signal.sigtimedwait(signals, _LOOK_S), "si_signo", None)
        found, status = os.waitpid(pid, os.WNOHANG)
        if found == pid:
            _end_strays()
            os._exit(_code(status))
        if number == signal.SIGTERM or os.getppid() != asking:
            why = "nobody waits for it any more"
        elif time.monotonic() >= next_look:
            why = excess(limits, pid, folder) or ""
            next_look = time.monotonic() + _LOOK_S
    with contextlib.suppress(OSError):  # what it wrote may have filled the log
        os.write(2, f"was killed: {why}\n".encode())
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    _end_strays()
    os._exit(128 + signal.SIGKILL)


def _end_strays() -> None:
    """Kill all that is left of the command: its orphans are this process's children."""
    # lazy: as above
    from kernelwright.referee.sandbox.processes import children_of

    deadline = time.monotonic() + _STRAYS_S
    while (left := children_of(os.getpid())) and time.monotonic() < deadline:
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in left:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _fork_wrapped(
    sandbox: "Sandbox", view: "View", limits: "ProcessLimits", folder: str, command: Sequence[str]
) -> int:
    """Fork a child that becomes ``bwrap``, which starts this module again inside."""
    # lazy: as above
    from kernelwright.referee.sandbox import bubblewrap

    program = bubblewrap.find()
    if program is None:
        os.write(2, f"cannot be confined any more: {bubblewrap.NOT_THERE}\n".encode())
        os._exit(_FAILED)
    found = json.dumps({"sandbox": asdict(sandbox), "view": asdict(view), "limits": asdict(limits)})
    before = bubblewrap.wrap(program, view, [folder], ends_with_thread=True)
    pid = os.fork()
    if pid == 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.execv(program, [*before, sys.executable, "-m", _MODULE, _IN_THERE, found, folder, *command])
    return pid


def _fork_confined(
    sandbox: "Sandbox", view: "View", limits: "ProcessLimits", folder: str, command: Sequence[str]
) -> int:
    # lazy: as above
    from kernelwright.referee.sandbox.enter import Confinement, enter

    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            enter(Confinement(sandbox, view, limits, folder), parent)
            _become(command)
        except BaseException as error:
            os.write(2, f"cannot be confined: {type(error).__name__}: {error}\n".encode())
            os._exit(_FAILED)
    return pid


def _code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _become(command: Sequence[str]) -> NoReturn:
    os.execv(command[0], list(command))


if __name__ == "__main__":
    main()
