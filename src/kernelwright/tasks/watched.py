"""Counts the work of a task and notes which files its code reads, in a process of its own."""

import os
import site
import sys
import sysconfig
from functools import cache
from typing import Any

from kernelwright.core.errors import CaptureError, TaskError
from kernelwright.core.task import Task
from kernelwright.tasks.capture import capture_task
from kernelwright.tasks.counted import CountedWork, stamps
from kernelwright.tasks.work import count_work, is_strict

_SYSTEM = ("/proc", "/dev", "/sys")
_PACKAGES = ("site-packages", "dist-packages")
_LIBRARIES = ("stdlib", "platstdlib", "purelib", "platlib")


def count_watched(task: Task) -> CountedWork:
    """Count the work of every workload; from now on the process notes every file that Python opens.

    Files that only other languages open, and modules that are loaded already, are not seen.
    """
    read: set[str] = set()
    known = set(sys.modules)
    sys.addaudithook(lambda event, words: _note(read, event, words))
    try:
        captured = {workload.name: capture_task(task, workload) for workload in task.workloads}
        strict = is_strict(task, captured.values())
        works = {name: count_work(found, may_round=not strict) for name, found in captured.items()}
    except (CaptureError, TaskError):
        works, strict = {}, False
    read |= {str(getattr(sys.modules[name], "__file__", None) or "") for name in set(sys.modules) - known}
    return CountedWork(works=works, is_strict=strict, files=stamps(filter(_is_users, read)))


def _note(read: set[str], event: str, words: tuple[Any, ...]) -> None:
    if event == "open" and words and isinstance(words[0], str | bytes | os.PathLike):
        read.add(os.path.abspath(os.fsdecode(words[0])))


def _is_users(path: str) -> bool:
    """True for what belongs neither to Python and installed packages, nor to us."""
    ours = _installed()
    return path.startswith("/") and not path.startswith(ours) and not os.path.realpath(path).startswith(ours)


@cache
def _installed() -> tuple[str, ...]:
    """Return the folders of Python, of packages and of ours, by their names and where these lead."""
    libraries = {sysconfig.get_paths()[name] for name in _LIBRARIES}
    own = os.path.dirname(os.path.dirname(__file__))
    packages = [path for path in sys.path if os.path.basename(path) in _PACKAGES]
    folders = (*_SYSTEM, own, *libraries, *packages, *site.getsitepackages())
    return tuple(f"{path}/" for folder in folders for path in (folder, os.path.realpath(folder)))
