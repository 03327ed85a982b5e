"""Libraries that another machine has built: what travels, and how it gets into a cache of this one."""

import os
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from kernelwright.core.errors import MachineError
from kernelwright.machine.compiler import library_key

BuildElsewhere: TypeAlias = Callable[[Sequence[str], float, bool], Mapping[str, bytes]]
"""Has programs built within so many seconds, with the compiler's report or without, and returns files of
``compile_library``'s cache: name -> content. It never raises: what does not come is built here."""
CACHED = re.compile(r"[0-9a-f]{32}\.(cpp|log|so)")
"""A file of the cache; the library sorts last, so that it is never there without what lies beside it."""


def toolchain() -> str:
    """Return what names processor and compiler: machines that have it in common can share libraries."""
    return library_key("", ())


def read_cache(cache: Path) -> dict[str, bytes]:
    """Return the files of a cache into which nobody builds any more."""
    return {path.name: path.read_bytes() for path in cache.glob("*") if CACHED.fullmatch(path.name)}


def put_into_cache(cache: Path, files: Mapping[str, bytes]) -> None:
    """Put files into a cache, which may be in use; those that are there stay.

    Raises:
        MachineError: a name is none of a cache's, or the cache cannot be written.
    """
    for name in sorted(files, key=lambda name: (Path(name).stem, name)):
        if not CACHED.fullmatch(name):
            raise MachineError(f"another machine says that it built {name!r}, which is no name in a cache")
        try:
            if (cache / name).exists():
                continue
            cache.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix="came-", dir=cache) as folder:
                came = Path(folder, name)
                came.write_bytes(files[name])
                os.replace(came, cache / name)
        except OSError as error:
            raise MachineError(f"cannot write to {cache}: {error}; choose a writable cache folder") from error
