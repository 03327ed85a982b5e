"""Gives a process a root directory of its own: the view, read-only, and one scratch of limited size."""

import os
from collections.abc import Mapping

from kernelwright.referee.sandbox import calls
from kernelwright.referee.sandbox.view import View

SCRATCH = "/tmp"
"""The only folder that can be written to; shared memory lies here too."""
_INODES = 65536
_ACCOUNTS = {
    "/etc/passwd": "candidate:x:{user}:{user}::/tmp:/bin/sh\n",
    "/etc/group": "candidate:x:{user}:\n",
    "/etc/hosts": "127.0.0.1 localhost\n",
}
_LINKS = {"/dev/shm": "/tmp", "/dev/fd": "/proc/self/fd", "/var/tmp": "/tmp"}


def enter_own_root(
    place: str, view: View, scratch_bytes: int, user: int, extra: Mapping[str, str] | None = None
) -> None:
    """Replace the root directory of this process, which needs its own mount and process namespaces.

    Args:
        place: an empty directory to build the new root on; nothing is left there afterwards.
        view: what to show.
        scratch_bytes: size of the scratch directory.
        user: owner of the scratch directory.
        extra: more files to show, name inside -> real path.
    """
    calls.mount(None, "/", None, calls.RECURSIVE | calls.PRIVATE)
    quiet = calls.NO_SUID | calls.NO_DEVICES
    calls.mount("kernelwright", place, "tmpfs", quiet, "size=16m,mode=0755")
    _make_folders(f"{place}{SCRATCH}")
    options = f"size={scratch_bytes},nr_inodes={_INODES},mode=0700,uid={user},gid={user}"
    calls.mount("scratch", f"{place}{SCRATCH}", "tmpfs", quiet, options)
    for name, real in {**view.targets(), **(extra or {})}.items():
        _show(place, name, real)
        calls.protect_tree(place + name)
    for device in view.devices:
        _show(place, device, device)
    _make_folders(f"{place}/proc")
    calls.mount("proc", f"{place}/proc", "proc", quiet | calls.NO_EXECUTION)
    for name, text in _ACCOUNTS.items():
        _make_folders(os.path.dirname(place + name))
        with open(place + name, "w", encoding="ascii") as file:
            file.write(text.format(user=user))
    for name, target in _LINKS.items():
        _make_folders(os.path.dirname(place + name))
        os.symlink(target, place + name)
    calls.make_root(place)
    calls.mount(None, "/", None, calls.REMOUNT | calls.BIND | calls.READ_ONLY | quiet)
    if view.has_driver:
        _protect_facts()
        return
    calls.mount(
        None, "/proc", None, calls.REMOUNT | calls.BIND | calls.READ_ONLY | quiet | calls.NO_EXECUTION
    )


def _protect_facts() -> None:
    """Make /proc read-only except for the entries of processes, whose files only their owners can write."""
    for entry in list(os.scandir("/proc")):
        if entry.name.isdigit() or entry.is_symlink():
            continue
        if entry.is_dir() or entry.stat().st_mode & 0o222:
            calls.mount(entry.path, entry.path, None, calls.BIND | calls.RECURSIVE)
            calls.protect_tree(entry.path)


def _make_folders(path: str) -> None:
    os.makedirs(path, mode=0o755, exist_ok=True)


def _show(place: str, name: str, real: str) -> None:
    target = place + name
    if os.path.isdir(real):
        _make_folders(target)
    else:
        _make_folders(os.path.dirname(target))
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
    calls.mount(real, target, None, calls.BIND | calls.RECURSIVE)
