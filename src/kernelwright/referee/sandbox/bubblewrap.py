"""Namespaces made by bubblewrap, for machines that let ``bwrap`` make them but not this program.

One ``bwrap`` runs around the zygote that forks candidates. It mounts once, read-only, what all candidates may
see, and has a process table, network and IPC of its own. Landlock then decides what each candidate may touch:
no process inside has the capabilities to mount, because ``bwrap`` gives none and AppArmor would remove them.
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
"""For root only: root may lack the right to make the other namespaces. For every other user ``bwrap`` makes a
user namespace by itself where it must. Where ``bwrap`` is set-user-id it needs none, and one that root owns
would keep us from counting memory inside."""
_WORDS = 300


def find() -> str | None:
    """Return the program's path, None where it is not installed."""
    return shutil.which(PROGRAM)


def wrap(
    program: str,
    view: View,
    writable: Iterable[str],
    readable: Iterable[str] = (),
    *,
    ends_with_thread: bool = False,
) -> list[str]:
    """Return the words to put before a command so that it runs inside, as process 1 of its process table.

    Args:
        program: path of ``bwrap``.
        view: what to show, read-only; its device files may be opened.
        writable: directories shown under their own names, in which changes are kept.
        readable: more directories to show.
        ends_with_thread: end the command when the thread that started it ends.

    The command keeps its descriptors, process group and user. All other processes inside die with it, so
    killing the process group kills them all. The command has a ``/tmp`` of its own, which is gone afterwards.
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
    """Run a wrapped command and return what it writes to stdout.

    Kills its process group afterwards: a ``bwrap`` that fails may leave a process behind that waits forever.

    Raises:
        OSError: the command does not start, fails, writes nothing or is not done in time; one line says why.
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
    """Return the targets of a view without links that lie inside other targets: those are shown already."""
    targets = view.targets()
    return {
        name: real
        for name, real in targets.items()
        if not (os.path.islink(name) and any(name.startswith(f"{shown.rstrip('/')}/") for shown in targets))
    }
