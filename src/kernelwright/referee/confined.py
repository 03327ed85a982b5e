"""Starts a command in the sandbox: ``python -m kernelwright.referee.confined FD FOLDER COMMAND...``.

The first line on the descriptor names the tier. The command sees what a candidate may see, and works in the
folder or in a scratch of its own.
"""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple, NoReturn

from kernelwright.devices.compiler import RunCompiler
from kernelwright.referee.settings import RefereeSettings

SCRATCH_BYTES = 1 << 30
_FAILED = 70


def start_confined(command: Sequence[str], folder: str, answers: int, log: int) -> "subprocess.Popen[bytes]":
    """Start a command as devices/inspect/run.py wants it, in the strongest sandbox that there is."""
    # lazy: the process that confines itself needs nothing of it
    from kernelwright.devices.inspect.run import start_here

    wrapped = [sys.executable, "-m", __name__, str(answers), folder, *command]
    return start_here(wrapped, folder, answers, log)


class ConfinedCompiler(NamedTuple):
    """Runs compilers in the sandbox of that name."""

    run: RunCompiler
    sandbox: str


@contextlib.contextmanager
def confined_compiler(settings: RefereeSettings) -> Iterator[ConfinedCompiler]:
    """Open the referee's own way of running compilers; raises as ``Launcher.spawn``."""
    # lazy: starts processes
    from kernelwright.referee.launcher import Launcher

    launcher = Launcher(settings)
    try:
        yield ConfinedCompiler(launcher.run_compiler, launcher.sandbox.tier.value)
    finally:
        launcher.close()


def main() -> None:
    """Confine a child that becomes the command, and end as it ends."""
    # lazy: the parent of all this needs none of it
    from kernelwright.referee.sandbox import Limits
    from kernelwright.referee.sandbox.choose import choose
    from kernelwright.referee.sandbox.enter import Cell, enter
    from kernelwright.referee.sandbox.view import make_view

    answers, folder, command = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    view = make_view()
    sandbox = choose(view)
    os.write(answers, json.dumps({"sandbox": sandbox.tier.value}).encode() + b"\n")
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            enter(Cell(sandbox, view, Limits(scratch_bytes=SCRATCH_BYTES), folder), parent)
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
