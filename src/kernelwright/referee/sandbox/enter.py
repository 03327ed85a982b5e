"""Confines a forked child before it runs anything it was given, and sets up the processes above it.

Above every worker is its *keeper*, a child of the zygote. It ends in the way the worker ended; killing it
kills the worker. Everything that the worker starts stays below the keeper, so that its processor time is in
one account (``account.py``). With namespaces a third process, the *init*, is the first one of the new process
table and reaps the processes that the worker leaves behind. Without namespaces the keeper does that itself.
"""

import contextlib
import os
import re
import resource
import select
import signal
import struct
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NoReturn

from kernelwright.referee.sandbox import calls, identity, landlock, limits, mounts, seccomp
from kernelwright.referee.sandbox.limits import ProcessLimits
from kernelwright.referee.sandbox.tiers import Sandbox, Tier
from kernelwright.referee.sandbox.view import DRIVER_FACTS, OWN_FACTS, View

_STATUS = struct.Struct("<i")
_FIRST_VICTIM = "1000"
"""Highest oom_score_adj: out of memory, the kernel kills a candidate before any process of the user."""


@dataclass(frozen=True)
class Confinement:
    """Where and how one child is confined."""

    sandbox: Sandbox
    view: View
    limits: ProcessLimits
    scratch: str
    """An empty directory outside the sandbox."""
    extra: Mapping[str, str] = field(default_factory=dict)
    """More files that may be read: name inside -> real path."""


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent thread ends; exit if the parent has ended already."""
    calls.die_with_parent_thread(signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def enter_trusted(cell: Confinement, parent: int) -> None:
    """Confine a process that runs our own or the task's code: limits, and a filter that refuses nothing.

    With the filter, the reference pays the same for every system call as the candidates compared with it.
    """
    os.setsid()
    _settle(cell.scratch, is_private=False)
    limits.apply(cell.limits)
    if cell.sandbox.has_filter:
        with contextlib.suppress(OSError):
            seccomp.install(_filter_for(cell, is_permissive=True))
    die_with_parent(parent)


def enter(cell: Confinement, parent: int) -> None:
    """Confine this process, a fresh child of ``parent`` with one thread; returns in the worker only.

    Afterwards the process sees other files and may have another process id. The keeper and the init never
    return. Raises OSError when a layer cannot be set up.
    """
    calls.set_dumpable(True)  # otherwise root owns our entries in /proc and we cannot write to them
    _make_first_victim()
    if cell.sandbox.tier is Tier.NAMESPACES:
        _enter_namespaces(cell, parent)
        return
    keeper = _fork_below_keeper(parent)
    os.setsid()
    user = _own_user(cell)
    if user is not None:
        os.chown(cell.scratch, user, user)
    _settle(cell.scratch)
    identity.become(user, cell.view.groups())
    calls.set_dumpable(True)
    die_with_parent(keeper)
    limits.apply(_countable(cell.limits, has_own_count=user is not None))
    if cell.sandbox.landlock:
        landlock.restrict(
            _readable(cell), [cell.scratch, *cell.view.devices], _rewritable(cell, "/proc/self/task")
        )
    if cell.sandbox.has_filter:
        seccomp.install(_filter_for(cell, is_permissive=False))


def _enter_namespaces(cell: Confinement, parent: int) -> None:
    flags = calls.NEW_MOUNTS | calls.NEW_PIDS | calls.NEW_NETWORK | calls.NEW_IPC
    user, groups = _own_user(cell), cell.view.groups()
    if cell.sandbox.has_user_namespace:
        identity.enter_user_namespace(flags)
    else:
        calls.unshare(flags)
    die_with_parent(parent)
    status, report = os.pipe()
    if os.fork():
        os.close(report)
        _keep(status)
    os.close(status)
    mounts.enter_own_root(
        cell.scratch, cell.view, cell.limits.scratch_bytes or 1 << 30, os.geteuid() if user is None else user,
        cell.extra,
    )  # fmt: skip
    identity.become(user, groups)
    calls.die_with_parent_thread(signal.SIGKILL)
    if _is_abandoned(report):
        os._exit(1)
    has_own_count = not cell.sandbox.has_user_namespace or _counts_per_namespace()
    limits.apply(_countable(cell.limits, has_own_count=has_own_count))
    if cell.sandbox.landlock:
        landlock.restrict(["/"], [mounts.SCRATCH, *cell.view.devices], _rewritable(cell, "/proc"))
    if cell.sandbox.has_filter:
        seccomp.install(_filter_for(cell, is_permissive=False))
    worker = os.fork()
    if worker:
        _collect(worker, report)
    os.close(report)
    os.setsid()
    calls.set_dumpable(True)
    _settle(mounts.SCRATCH)


def _fork_below_keeper(parent: int) -> int:
    """Become the keeper and fork; returns in the child, with the keeper's process id."""
    die_with_parent(parent)
    calls.adopt_orphans()
    keeper = os.getpid()
    worker = os.fork()
    if worker:
        _mind(worker)
    return keeper


def _mind(worker: int) -> NoReturn:
    """Be the keeper where there is no init: reap every process, and end in the way the worker ends."""
    calls.set_dumpable(False)
    os.closerange(0, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    while True:
        pid, status = os.wait()
        if pid == worker:
            _end_like(os.waitstatus_to_exitcode(status))


def _own_user(cell: Confinement) -> int | None:
    return identity.spare_user() if cell.sandbox.has_own_user else None


def _keep(status: int) -> NoReturn:
    """Be the keeper: wait for the worker's status and end in the same way."""
    _forget_descriptors(status)
    data = os.read(status, _STATUS.size)
    _end_like(os.waitstatus_to_exitcode(_STATUS.unpack(data)[0]) if len(data) == _STATUS.size else 1)


def _end_like(code: int) -> NoReturn:
    """End with an exit code, or by a signal where it is negative."""
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(OSError, ValueError):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(max(code, 0))


def _collect(worker: int, report: int) -> NoReturn:
    """Be the init: reap every process, and end with the worker; the kernel then kills the others."""
    calls.set_dumpable(False)
    _forget_descriptors(report)
    while True:
        pid, status = os.wait()
        if pid == worker:
            os.write(report, _STATUS.pack(status))
            os._exit(0)


def _is_abandoned(report: int) -> bool:
    """True when nobody reads the report any more: the keeper died before the death signal was set."""
    poller = select.poll()
    poller.register(report, 0)
    return any(events & select.POLLERR for _, events in poller.poll(0))


def _forget_descriptors(kept: int) -> None:
    """Close all descriptors but one, so that the worker's socket closes when the worker ends."""
    os.closerange(0, kept)
    os.closerange(kept + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def _make_first_victim() -> None:
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
        file.write(_FIRST_VICTIM)


def _settle(scratch: str, *, is_private: bool = True) -> None:
    """Make the scratch directory the working directory, the home and the place for temporary files."""
    os.umask(0o022)
    tempfile.tempdir = None  # tempfile looks it up again at its next use
    os.chdir(scratch)
    own = {"TORCH_EXTENSIONS_DIR": "extensions"}
    if is_private:
        # not shared: inductor and Triton run what they find there
        own |= {"TORCHINDUCTOR_CACHE_DIR": "inductor", "TRITON_CACHE_DIR": "triton"}
    os.environ.update({name: os.path.join(scratch, folder) for name, folder in own.items()})
    os.environ.update(HOME=scratch, TMPDIR=scratch, USER="candidate", LOGNAME="candidate")


def _counts_per_namespace() -> bool:
    """True where each user namespace counts its own processes: since Linux 5.14."""
    words = re.match(r"(\d+)\.(\d+)", os.uname().release)
    return words is not None and (int(words[1]), int(words[2])) >= (5, 14)


def _countable(limits: ProcessLimits, *, has_own_count: bool) -> ProcessLimits:
    """Leave out the limit on processes where it would count the user's other processes too."""
    return limits if has_own_count else replace(limits, processes=None)


def _readable(cell: Confinement) -> list[str]:
    own = [f"/proc/{name}" for name in (*OWN_FACTS, *(DRIVER_FACTS if cell.view.has_driver else ()))]
    return [*cell.view.paths, *cell.view.targets().values(), *own, *cell.extra.values()]


def _rewritable(cell: Confinement, of_threads: str) -> list[str]:
    """Return the folder of the thread names, which a GPU's driver must be able to write."""
    return [of_threads] if cell.view.has_driver else []


def _filter_for(cell: Confinement, *, is_permissive: bool) -> bytes:
    alone = None if cell.sandbox.tier is Tier.NAMESPACES else os.getpid()
    return seccomp.make_filter(alone_as=alone, is_permissive=is_permissive, has_driver=cell.view.has_driver)
