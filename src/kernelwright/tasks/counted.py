"""What a task must do at least, counted in another process and kept by content; loads no torch."""

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from pydantic import Field, ValidationError

from kernelwright.core.digest import source_digest
from kernelwright.core.frozen import Frozen, content_hash
from kernelwright.core.roofline import Work
from kernelwright.core.task import Task

_FOLDER = "work"


class FileStamp(Frozen):
    """One file as it was when it was read; all None: it was not there."""

    path: str
    size: int | None = None
    time_ns: int | None = None

    @classmethod
    def of(cls, path: str) -> "FileStamp":
        """Return the stamp of a file as it is now."""
        try:
            status = os.stat(path)
        except (OSError, ValueError):
            return cls(path=path)
        return cls(path=path, size=status.st_size, time_ns=status.st_mtime_ns)

    def holds(self) -> bool:
        """Tell whether the file is still as it was."""
        return FileStamp.of(self.path) == self


class CountedWork(Frozen):
    """The work of every workload of a task."""

    works: dict[str, Work] = Field(default_factory=dict)
    """By workload; empty where a workload cannot be captured."""
    is_strict: bool = False
    """Every product must be as exact as float32, by the contract and by the graph."""
    files: tuple[FileStamp, ...] = ()
    """What the task's code read besides its own source and installed packages."""

    def holds(self) -> bool:
        """Tell whether the task's code would read the same again."""
        return all(stamp.holds() for stamp in self.files)


def stamps(paths: Iterable[str]) -> tuple[FileStamp, ...]:
    """Return the stamps of files, each once."""
    return tuple(map(FileStamp.of, sorted(set(paths))))


def find_counted(task: Task, cache_dir: Path, torch: str | None) -> CountedWork | None:
    """Return what was kept of a task under this source and version of torch, None where it is outdated."""
    try:
        text = _path(task, cache_dir, torch).read_text(encoding="utf-8")
        found = CountedWork.model_validate_json(text)
    except (OSError, ValidationError):
        return None
    return found if found.holds() else None


def keep_counted(task: Task, cache_dir: Path, torch: str | None, counted: CountedWork) -> None:
    """Keep what was counted; where it cannot be written it is counted again the next time."""
    path = _path(task, cache_dir, torch)
    draft = path.with_suffix(f".{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(counted.model_dump_json(), encoding="utf-8")
        draft.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            draft.unlink()


def _path(task: Task, cache_dir: Path, torch: str | None) -> Path:
    return cache_dir / _FOLDER / f"{content_hash(task.id, source_digest(), torch or '')}.json"
