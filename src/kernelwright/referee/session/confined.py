"""What runs in the sandbox besides candidates: commands, compilers, and the capture of strangers' graphs.

``python -m kernelwright.referee.session.confined FD FOLDER COMMAND...`` starts a command there. It writes the
name of the tier as the first line to the descriptor. The command sees what a candidate may see, and works in
the folder or in a scratch directory of its own.
"""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from kernelwright.core.errors import CaptureError, TaskError
from kernelwright.core.source import MAX_SOURCE_BYTES
from kernelwright.machine.compiler import RunCompiler
from kernelwright.referee.settings import RefereeSettings

if TYPE_CHECKING:
    from kernelwright.core.task import Task, Workload
    from kernelwright.referee.sandbox import Sandbox
    from kernelwright.referee.sandbox.view import View
    from kernelwright.referee.session.launcher import Launcher
    from kernelwright.tasks.capture import Capture, Captured

SCRATCH_BYTES = 1 << 30
_MODULE = "kernelwright.referee.session.confined"
_IN_THERE = "--in-there"
"""First argument of the process that ``bwrap`` starts. The second is what was found outside, as JSON."""
_FAILED = 70


def start_confined(command: Sequence[str], folder: str, answers: int, log: int) -> "subprocess.Popen[bytes]":
    """Start a command for ``targets/gpu/inspect/run.py`` in the strongest sandbox that works here."""
    # lazy: the process that confines itself does not need it
    from kernelwright.targets.gpu.inspect.run import start_here

    wrapped = [sys.executable, "-m", _MODULE, str(answers), folder, *command]
    return start_here(wrapped, folder, answers, log)


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
    """Fork a child, confine it, run the command in it and end with the command's exit code."""
    # lazy: a process that only calls start_confined does not need it
    from kernelwright.referee.sandbox.choose import choose, from_json
    from kernelwright.referee.sandbox.tiers import Tier
    from kernelwright.referee.sandbox.view import make_view, view_from_json

    if sys.argv[1] == _IN_THERE:
        found, folder, command = json.loads(sys.argv[2]), sys.argv[3], sys.argv[4:]
        _run(from_json(found["sandbox"]), view_from_json(found["view"]), folder, command)
    answers, folder, command = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    view = make_view()
    sandbox = choose(view)
    os.write(answers, json.dumps({"sandbox": sandbox.tier.value}).encode() + b"\n")
    if sandbox.tier is Tier.BUBBLEWRAP:
        _become_wrapped(sandbox, view, folder, command)
    _run(sandbox, view, folder, command)


def _become_wrapped(sandbox: "Sandbox", view: "View", folder: str, command: Sequence[str]) -> NoReturn:
    """Replace this process by ``bwrap``, which starts this module again inside."""
    # lazy: as above
    from kernelwright.referee.sandbox import bubblewrap

    program = bubblewrap.find()
    if program is None:
        os.write(2, f"cannot be confined any more: {bubblewrap.NOT_THERE}\n".encode())
        os._exit(_FAILED)
    found = json.dumps({"sandbox": asdict(sandbox), "view": asdict(view)})
    before = bubblewrap.wrap(program, view, [folder])
    os.execv(program, [*before, sys.executable, "-m", _MODULE, _IN_THERE, found, folder, *command])


def _run(sandbox: "Sandbox", view: "View", folder: str, command: Sequence[str]) -> NoReturn:
    # lazy: as above
    from kernelwright.referee.sandbox import ProcessLimits
    from kernelwright.referee.sandbox.enter import Confinement, enter

    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            enter(Confinement(sandbox, view, ProcessLimits(scratch_bytes=SCRATCH_BYTES), folder), parent)
            _become(command)
        except BaseException as error:
            os.write(2, f"cannot be confined: {type(error).__name__}: {error}\n".encode())
            os._exit(_FAILED)
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)


def _become(command: Sequence[str]) -> NoReturn:
    os.environ["TRITON_CACHE_DIR"] = os.path.join(os.getcwd(), "triton")
    os.execv(command[0], list(command))


if __name__ == "__main__":
    main()
