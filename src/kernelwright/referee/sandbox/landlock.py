"""Landlock: limits the files that this process and its children may touch. Needs no privilege."""

import contextlib
import ctypes
import os
import struct
from collections.abc import Iterable

from kernelwright.referee.sandbox.calls import forbid_new_privileges, system_call

_VERSION_FLAG = 1
_PATH_RULE = 1

_EXECUTE, _WRITE, _READ, _LIST = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_TRUNCATE, _DEVICE_CONTROL = 1 << 14, 1 << 15
_FOR_FILES = _EXECUTE | _WRITE | _READ | _TRUNCATE | _DEVICE_CONTROL
_RIGHTS_BY_VERSION = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
_ALL_TCP = 0b11
_ALL_SCOPES = 0b11
SCOPES_SINCE = 6
"""First version that refuses signals to, and abstract sockets of, processes outside."""
TRUNCATE_SINCE = 3
"""First version that refuses to truncate files outside; older versions let a process empty them."""


def version() -> int:
    """Return the kernel's Landlock version, 0 when it has none."""
    try:
        return system_call("landlock_create_ruleset", None, 0, _VERSION_FLAG)
    except OSError:
        return 0


def restrict(read: Iterable[str], write: Iterable[str], rewrite: Iterable[str] = ()) -> None:
    """Let this process read, list and run what is below ``read``, and do anything below ``write``.

    Below ``rewrite`` it may read, list, and write to existing files.

    Refuses TCP, signals to processes outside and their abstract sockets, as far as the kernel's version can.
    Skips paths that do not exist. Raises OSError without Landlock.
    """
    offered = version()
    if offered == 0:
        raise OSError("Landlock is not there")
    handled = max(rights for since, rights in _RIGHTS_BY_VERSION.items() if since <= offered)
    attributes = struct.pack("<Q", handled)
    attributes += struct.pack("<Q", _ALL_TCP) if offered >= 4 else b""
    attributes += struct.pack("<Q", _ALL_SCOPES) if offered >= SCOPES_SINCE else b""
    rules = system_call("landlock_create_ruleset", attributes, len(attributes), 0)
    try:
        for path in read:
            _allow(rules, path, (_EXECUTE | _READ | _LIST) & handled)
        for path in write:
            _allow(rules, path, handled)
        for path in rewrite:
            _allow(rules, path, (_READ | _LIST | _WRITE | _TRUNCATE) & handled)
        forbid_new_privileges()
        system_call("landlock_restrict_self", rules, 0)
    finally:
        os.close(rules)


def _allow(rules: int, path: str, rights: int) -> None:
    with contextlib.suppress(FileNotFoundError, PermissionError):
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            rights &= -1 if os.path.isdir(path) else _FOR_FILES
            rule = ctypes.create_string_buffer(struct.pack("<Qi", rights, descriptor), 12)
            system_call("landlock_add_rule", rules, _PATH_RULE, ctypes.byref(rule), 0)
        finally:
            os.close(descriptor)
