"""Namespaces by way of bubblewrap: for machines that let ``bwrap`` make them, and not us.

One ``bwrap`` stands around a whole process that forks candidates: what they all may see is mounted once,
read-only, in a process table, network and IPC of its own. Which of it each one may touch is left to Landlock,
for inside nobody has a capability: ``bwrap`` gives none, and AppArmor would take it.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence

from kernelwright.referee.sandbox.view import View

PROGRAM = "bwrap"
NOT_THERE = "bwrap is not installed"
_NAMESPACES = (
    "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try",
)  # fmt: skip
_ROOTS_OWN = "--unshare-user-try"
"""Root may be without the right to the others. For everyone else ``bwrap`` takes a user namespace where it
must; set-user-id it needs none, and one of root's would keep us from counting memory in there."""
_WORDS = 300


def find() -> str | None:
    """Return where the program is, None where it is not installed."""
    return shutil.which(PROGRAM)


def wrap(
    program: str,
    view: View,
    writable: Iterable[str],
    readable: Iterable[str] = (),
    *,
    ends_with_thread: bool = False,
) -> list[str]:
    """Return what to put before a command for it to run in there, as process 1 of its process table.

    Args:
        program: where ``bwrap`` is.
        view: what to show, read-only; its device files may be opened.
        writable: directories that keep their names, and what is written there.
        readable: more directories to show.
        ends_with_thread: it ends when the thread does that has started it.

    The command keeps its descriptors, process group and user. All others in there die with it: who kills the
    process group has killed all. Its ``/tmp`` is its own, and gone afterwards.
    """
    words = [program, *_NAMESPACES, "--as-pid-1", "--cap-drop", "ALL"]
    words += [_ROOTS_OWN] if os.geteuid() == 0 else []
    words += ["--die-with-parent"] if ends_with_thread else []
    words += ["--tmpfs", "/tmp", "--proc", "/proc", "--dev", "/dev"]
    for name, real in _mounted(view).items():
        words += ["--ro-bind", real, name]
    for node in view.nodes:
        words += ["--dev-bind-try", node, node]
    for folder in readable:
        words += ["--ro-bind", folder, folder]
    for folder in writable:
        words += ["--bind", folder, folder]
    return [*words, "--remount-ro", "/", "--chdir", "/", "--"]


def run(command: Sequence[str], environment: Mapping[str, str], timeout_s: float) -> str:
    """Run a command in there and return what it writes.

    Nothing of it is left afterwards: a ``bwrap`` that fails may leave a process behind that waits forever.

    Raises:
        OSError: it does not start, fails, says nothing or is not done in time; with the reason in one line.
    """
    with tempfile.TemporaryFile() as told, tempfile.TemporaryFile() as complained:
        started = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=told, stderr=complained, env=environment,
            start_new_session=True,
        )  # fmt: skip
        try:
            code = started.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise OSError(f"{PROGRAM} is not done within {timeout_s:.0f} s") from None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(started.pid, signal.SIGKILL)
            started.wait()
        told.seek(0)
        complained.seek(0)
        said = told.read().decode(errors="replace")
        if code != 0 or not said:
            lines = complained.read().decode(errors="replace").strip().splitlines()
            raise OSError(lines[-1][:_WORDS] if lines else f"{PROGRAM} ended with exit code {code}")
        return said


def _mounted(view: View) -> dict[str, str]:
    """Return the targets of a view without links inside of what is shown: they are there, and lead right."""
    targets = view.targets()
    return {
        name: real
        for name, real in targets.items()
        if not (os.path.islink(name) and any(name.startswith(f"{shown.rstrip('/')}/") for shown in targets))
    }
