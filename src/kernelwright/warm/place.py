"""Where a warm referee is to be found, and what it must be like to be the right one."""

import json
import os
import socket
import struct
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kernelwright.core.digest import source_digest
from kernelwright.core.frozen import content_hash
from kernelwright.core.version import __version__
from kernelwright.machine.children import chosen_environment
from kernelwright.machine.private_folder import private_folder
from kernelwright.machine.probe import version_of
from kernelwright.machine.topology import usable_cores

KEPT = ("PATH", "CXX", "LD_LIBRARY_PATH", "TMPDIR")
"""The variables that decide which programs and libraries are found, and where files go; it gets no others."""


_CREDENTIALS = struct.Struct("3i")


@dataclass(frozen=True)
class WarmPlace:
    """The files of one warm referee, in a folder that only its user can enter."""

    socket: Path
    lock: Path
    """Held by the process that listens."""
    log: Path


def place_for(cache_dir: Path, device: str) -> WarmPlace:
    """Return the place of the warm referee for a cache folder and a device; raises MachineError."""
    name = f"warm-{content_hash(str(cache_dir.resolve()), device)}"
    folder = private_folder()
    return WarmPlace(folder / f"{name}.socket", folder / f"{name}.lock", folder / f"{name}.log")


def import_path() -> list[str]:
    """Return where this process imports from, without the folder of scripts, in which are no modules."""
    scripts = sysconfig.get_path("scripts")
    return [os.path.abspath(path) for path in sys.path if path and path != scripts]


def environment() -> dict[str, str]:
    """Return the whole environment of the process: nothing that is secret, nothing that decides unseen."""
    return {
        **chosen_environment(KEPT),
        "LANG": "C.UTF-8",
        "PYTHONPATH": os.pathsep.join(import_path()),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def identity_here(cache_dir: Path, device: str) -> str:
    """Return a hash over all that decides what a warm referee would say: only the same may answer.

    Version and source, Python, torch, import path, the environment that it gets, cores, priority, places.
    """
    facts = {
        "version": __version__,
        "source": source_digest(),
        "python": [sys.executable, sys.version],
        "torch": version_of("torch"),
        "environment": environment(),
        "cores": usable_cores(),
        "priority": os.getpriority(os.PRIO_PROCESS, 0),
        "cache": str(cache_dir.resolve()),
        "device": device,
    }
    return content_hash(json.dumps(facts, sort_keys=True))


@contextmanager
def short_path(path: Path) -> Iterator[str]:
    """Give a name for a socket that is short enough, however long the path of its folder is."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def peer_user(sock: socket.socket) -> int:
    """Return the user of the process at the other end of a Unix socket, as the kernel says it."""
    found = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(found)[1])
