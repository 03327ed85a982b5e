"""Which source runs: a change of the package makes what older source computed useless."""

import hashlib
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

_ROOT = Path(__file__).parents[1]
_LEFT_OUT = "__pycache__"


@cache
def source_digest() -> str:
    """Return a hash over names, sizes and times of the package's files, as they are at the first call."""
    digest = hashlib.sha256()
    for name, size, time_ns in sorted(_files(_ROOT)):
        digest.update(f"{name}\0{size}\0{time_ns}\0".encode())
    return digest.hexdigest()[:16]


@cache
def content_digest() -> str:
    """Return a hash over the text of the package's modules: the same on every machine that runs the same."""
    digest = hashlib.sha256()
    for path in sorted(_ROOT.rglob("*.py")):
        digest.update(f"{path.relative_to(_ROOT).as_posix()}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _files(folder: str | Path) -> Iterator[tuple[str, int, int]]:
    for entry in os.scandir(folder):
        if entry.is_dir():
            if entry.name != _LEFT_OUT:
                yield from _files(entry.path)
        else:
            status = entry.stat()
            yield entry.path, status.st_size, status.st_mtime_ns
