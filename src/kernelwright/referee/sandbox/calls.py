"""System calls for confinement that Python has no function for. Linux only; each raises OSError."""

import contextlib
import ctypes
import os
import platform
from typing import Final

NEW_MOUNTS: Final = 0x00020000
NEW_IPC: Final = 0x08000000
NEW_USER: Final = 0x10000000
NEW_PIDS: Final = 0x20000000
NEW_NETWORK: Final = 0x40000000

BIND: Final = 0x1000
RECURSIVE: Final = 0x4000
PRIVATE: Final = 0x40000
REMOUNT: Final = 0x20
READ_ONLY: Final = 0x1
NO_SUID: Final = 0x2
NO_DEVICES: Final = 0x4
NO_EXECUTION: Final = 0x8

_DETACH = 2
_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000

_SET_DEATH_SIGNAL, _GET_DUMPABLE, _SET_DUMPABLE = 1, 3, 4
_SET_CHILD_SUBREAPER, _SET_NO_NEW_PRIVILEGES = 36, 38
_DROP_BOUNDING, _AMBIENT, _AMBIENT_CLEAR = 24, 47, 4
_CAPABILITY_VERSION = 0x20080522

_NUMBERS: Final = {
    "pivot_root": (155, 41),
    "capset": (126, 91),
    "seccomp": (317, 277),
    "mount_setattr": (442, 442),
    "landlock_create_ruleset": (444, 444),
    "landlock_add_rule": (445, 445),
    "landlock_restrict_self": (446, 446),
}
"""Name -> number on x86-64 and on everything that uses the kernel's generic table."""
MACHINES: Final = {"x86_64": 0, "aarch64": 1}
"""Processors with known numbers -> their column in the table above."""

_libc = ctypes.CDLL(None, use_errno=True)


def _done(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def system_call(name: str, *arguments: object) -> int:
    """Make a system call that libc has no function for; integers are passed as ``long``."""
    column = MACHINES.get(platform.machine())
    if column is None:
        raise OSError(f"{name}: not known on {platform.machine()}")
    values = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    return _done(_libc.syscall(ctypes.c_long(_NUMBERS[name][column]), *values), name)


def _prctl(what: str, option: int, *arguments: int) -> int:
    padded = [*arguments, 0, 0, 0, 0][:4]
    return _done(_libc.prctl(option, *(ctypes.c_ulong(value) for value in padded)), what)


def unshare(flags: int) -> None:
    """Move this process into new namespaces."""
    _done(_libc.unshare(flags), "unshare")


def mount(source: str | None, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    """Mount, bind or remount."""
    encoded = [None if text is None else os.fsencode(text) for text in (source, target, kind, options)]
    result = _libc.mount(*encoded[:3], ctypes.c_ulong(flags), encoded[3])
    _done(result, f"mount {target}")


def protect_tree(path: str) -> None:
    """Make a mount and all mounts below it read-only, without set-user-id programs and devices."""
    attributes = (ctypes.c_uint64 * 4)(READ_ONLY | NO_SUID | NO_DEVICES, 0, 0, 0)
    size = ctypes.sizeof(attributes)
    system_call("mount_setattr", _AT_FDCWD, os.fsencode(path), _AT_RECURSIVE, ctypes.byref(attributes), size)


def make_root(folder: str) -> None:
    """Make the mount at a folder the root directory and unmount the old root."""
    os.chdir(folder)
    system_call("pivot_root", b".", b".")
    _done(_libc.umount2(b".", _DETACH), "umount")
    os.chdir("/")


def die_with_parent_thread(signal_number: int) -> None:
    """Have the kernel signal this process when its parent thread ends, until its credentials change."""
    _prctl("prctl", _SET_DEATH_SIGNAL, signal_number)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends."""
    _prctl("prctl", _SET_CHILD_SUBREAPER, 1)


def set_dumpable(is_dumpable: bool) -> None:
    """Allow or forbid processes of the same user to trace this one and to read its memory."""
    _prctl("prctl", _SET_DUMPABLE, int(is_dumpable))


def forbid_new_privileges() -> None:
    """Make set-user-id programs run without their owner's rights, for good."""
    _prctl("prctl", _SET_NO_NEW_PRIVILEGES, 1)


def empty_bounding_set() -> None:
    """Keep programs from getting capabilities back. Does nothing for a process without the right to do so."""
    with contextlib.suppress(OSError):  # the kernel also refuses numbers past the last capability
        for capability in range(64):
            _prctl("prctl", _DROP_BOUNDING, capability)


def drop_capabilities() -> None:
    """Give up every capability, for good."""
    _prctl("prctl", _AMBIENT, _AMBIENT_CLEAR)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    none = (ctypes.c_uint32 * 6)()
    system_call("capset", ctypes.byref(header), ctypes.byref(none))
