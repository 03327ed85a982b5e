"""Files of a folder that others may write to: below it no link is followed, and only plain files are opened.

Otherwise a link would have this process read or overwrite any file of its user, and a pipe would have it wait
for ever. The folder itself may be a link: whoever named it meant it.
"""

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path


def read_plain(folder: Path, *parts: str, most: int) -> bytes:
    """Return a file's bytes, one more than ``most`` where it has more; OSError where it is no plain file."""
    with _inside(folder, parts[:-1]) as place:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with open(os.open(parts[-1], flags, dir_fd=place), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OSError(errno.EINVAL, "it is no plain file")
            return file.read(most + 1)


def write_plain(folder: Path, *parts: str, data: bytes) -> None:
    """Write a file, there in one step, in the place of whatever has its name; raises OSError."""
    draft = f".{parts[-1]}.{secrets.token_hex(8)}.tmp"
    with _inside(folder, parts[:-1]) as place:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            with open(os.open(draft, flags, 0o666, dir_fd=place), "wb") as file:
                file.write(data)
            os.replace(draft, parts[-1], src_dir_fd=place, dst_dir_fd=place)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(draft, dir_fd=place)
            raise


@contextlib.contextmanager
def _inside(folder: Path, parts: tuple[str, ...]) -> Iterator[int]:
    """Open a folder below another one."""
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts:
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            inner = os.open(part, flags, dir_fd=place)
            os.close(place)
            place = inner
        yield place
    finally:
        os.close(place)
