"""What a confined process may read: system programs, the interpreter and its packages, but no user files."""

import os
import shutil
import site
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store")
SETTINGS = ("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives")
"""Files of /etc that say where libraries are and which compiler ``c++`` is."""
FACTS = ("/sys/devices/system",)
"""Processors and memory nodes; OpenMP and torch ask for them."""
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
OWN_FACTS = ("cpuinfo", "meminfo", "stat", "loadavg", "uptime", "version", "filesystems", "self", "sys")
"""Entries of /proc that may be read where /proc cannot be replaced."""
DRIVER_FACTS = ("driver", "devices", "modules")
"""More entries of /proc, for processes on a GPU: what its driver reports."""
_TOOLS = ("c++", "g++", "clang++", "gcc", "cc", "ld", "ninja", "nvcc", "hipcc")


@dataclass(frozen=True)
class View:
    """Paths to show. Each appears under its name and, if it is a link, under its target too."""

    paths: tuple[str, ...]
    nodes: tuple[str, ...] = ()
    """Device files of a GPU that may be opened, besides ``DEVICES``."""
    driver: str = ""
    """Name of the driver whose they are; unknown where it is empty."""

    @property
    def has_driver(self) -> bool:
        """True for who is to work on a GPU: its driver needs more than its device files."""
        return bool(self.nodes)

    @property
    def devices(self) -> tuple[str, ...]:
        """Return all device files that may be opened."""
        return (*DEVICES, *self.nodes)

    def groups(self) -> tuple[int, ...]:
        """Return the groups that have more rights to one of the nodes than everyone has."""
        found = [os.stat(node) for node in self.nodes if os.path.exists(node)]
        return tuple(sorted({one.st_gid for one in found if one.st_mode >> 3 & ~one.st_mode & 0o006}))

    def without_nodes(self) -> "View":
        """Return the view for a process that does not use the GPU."""
        return replace(self, nodes=(), driver="")

    def targets(self) -> dict[str, str]:
        """Return name -> real path, outer folders first, without paths that lie inside another one."""
        found: dict[str, str] = {}
        wanted = {path: os.path.realpath(path) for path in self.paths if os.path.exists(path)}
        names = {real: real for real in wanted.values()} | wanted
        for name in sorted(names, key=lambda name: (name.count("/"), name)):
            if not any(_is_inside(name, shown) and _is_inside(names[name], found[shown]) for shown in found):
                found[name] = names[name]
        return found


def view_from_json(values: Mapping[str, Any]) -> View:
    """Return a view from its JSON form."""
    return View(tuple(values["paths"]), tuple(values["nodes"]), values["driver"])


def make_view(
    compiler: str | None = None, nodes: Iterable[str] = (), files: Iterable[str] = (), driver: str = ""
) -> View:
    """Return the view that a process like this one needs to import, compile and run.

    ``nodes`` are device files that may be opened, ``files`` what a device's ``driver`` reads besides.

    A folder on ``sys.path`` may be a home or a project. Unless it belongs to the interpreter or holds
    installed distributions, only the packages that are already loaded from it are shown.
    """
    paths: list[str] = [*SYSTEM, *SETTINGS, *FACTS, *files]
    for prefix in dict.fromkeys((sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix)):
        paths += (
            [prefix]
            if not _is_too_wide(prefix)
            else [f"{prefix}/{part}" for part in ("lib", "include", "bin")]
        )
    own = tuple(paths)
    libraries = {*site.getsitepackages(), site.getusersitepackages()}
    for folder in sys.path:
        if os.path.isdir(folder) and not any(_is_inside(folder, path) for path in own):
            whole = folder in libraries or (not _is_too_wide(folder) and _holds_distributions(folder))
            paths += [folder] if whole else _loaded_from(folder)
    for name in (*_TOOLS, compiler):
        tool = shutil.which(name) if name else None
        if tool:
            paths += _tool_paths(os.path.realpath(tool))
    return View(tuple(dict.fromkeys(paths)), tuple(nodes), driver)


def _is_inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _is_too_wide(folder: str) -> bool:
    """True for the root, for a home, and for every folder that contains a home."""
    homes = {os.path.expanduser("~"), "/home", "/root", "/tmp", "/etc", "/var"}
    return any(_is_inside(os.path.realpath(home), os.path.realpath(folder)) for home in homes)


def _holds_distributions(folder: str) -> bool:
    try:
        return any(name.endswith(".dist-info") for name in os.listdir(folder))
    except OSError:
        return False


def _loaded_from(folder: str) -> list[str]:
    """Return the packages and modules that this process has imported from a folder."""
    here = Path(folder)
    found = set()
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and _is_inside(file, folder):
            found.add(str(here / Path(file).relative_to(here).parts[0]))
    return sorted(found)


def _tool_paths(tool: str) -> Iterable[str]:
    """Return the paths that a program needs to run: a compiler has headers beside its ``bin``."""
    home = os.path.dirname(os.path.dirname(tool))
    if any(_is_inside(tool, folder) for folder in SYSTEM):
        return ()
    is_installation = os.path.basename(os.path.dirname(tool)) == "bin" and os.path.isdir(f"{home}/lib")
    return (home,) if is_installation and not _is_too_wide(home) else (tool,)
