"""Which means of confining a process this machine offers."""

import ctypes
import platform
import shutil
import subprocess

_LANDLOCK_CREATE_RULESET = 444
_VERSION_FLAG = 1
_TRIAL = ("--ro-bind", "/", "/", "--unshare-all", "--die-with-parent", "true")


def bubblewrap_works() -> bool:
    """Return whether ``bwrap`` is there and may create the namespaces it needs."""
    return _succeeds("bwrap", *_TRIAL)


def user_namespaces_work() -> bool:
    """Return whether an unprivileged process may get a user namespace of its own."""
    return _succeeds("unshare", "--user", "--map-root-user", "true")


def landlock_abi() -> int | None:
    """Return the version of Landlock that the kernel offers, None when it is absent or off."""
    if platform.system() != "Linux":
        return None
    libc = ctypes.CDLL(None, use_errno=True)
    version: int = libc.syscall(
        ctypes.c_long(_LANDLOCK_CREATE_RULESET), None, ctypes.c_size_t(0), ctypes.c_uint(_VERSION_FLAG)
    )
    return version if version > 0 else None


def _succeeds(program: str, *arguments: str) -> bool:
    path = shutil.which(program)
    if path is None:
        return False
    try:
        done = subprocess.run([path, *arguments], capture_output=True, timeout=10, check=False, cwd="/")
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0
