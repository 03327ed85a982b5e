"""The one folder of this user on this machine for what processes meet at: locks and sockets."""

import os
import pwd
import stat
from functools import cache
from pathlib import Path

from kernelwright.core.errors import MachineError

SHARED = Path("/tmp")
"""Fixed: processes that find other temporary folders in their environments must meet all the same."""
_NAME = ".kernelwright"


@cache
def private_folder() -> Path:
    """Return a folder that nobody else can look into; it is made where it is missing.

    It lies in ``SHARED``, or in the home folder where another user has taken its name there.

    Raises:
        MachineError: there can be none.
    """
    uid = os.getuid()
    places = (SHARED / f"{_NAME}-{uid}", _home() / f"{_NAME}-{os.uname().nodename}")
    for place in places:
        if _is_ours(place):
            return place
    raise MachineError(f"none of {' and '.join(map(str, places))} can be a folder of this user alone")


def _home() -> Path:
    """Return the home folder by the system's accounts, whatever the environment says."""
    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        return Path("/")


def _is_ours(folder: Path) -> bool:
    """Make a folder with rights for its owner only; False where that is not to be had."""
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        pass
    except OSError:
        return False
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        return False
    if status.st_mode & 0o077:
        folder.chmod(0o700)
    return True
