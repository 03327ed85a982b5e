"""What a child process may see of the environment: the one place where others than probes come by it."""

import os
import sys
from collections.abc import Iterable

_PATH = "/usr/local/bin:/usr/bin:/bin"
"""Where programs are looked for when the environment does not say."""


def whole_environment(**more: str) -> dict[str, str]:
    """Return this process's environment with more variables, for a child that is trusted."""
    return {**os.environ, **more}


def bare_environment(
    folder: str, *, kept: Iterable[str] = (), threads: int | None = None, **more: str
) -> dict[str, str]:
    """Return an environment without secrets: programs and modules are found, files go into ``folder``.

    ``kept`` names variables that stay where they are set; ``threads`` is how many OpenMP and BLAS may use.
    """
    found = {
        "PATH": os.environ.get("PATH", _PATH),
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "HOME": folder,
        "TMPDIR": folder,
        "TRITON_CACHE_DIR": os.path.join(folder, "triton"),
    }
    if threads is not None:
        found |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), str(threads))
    return {**found, **{name: os.environ[name] for name in kept if name in os.environ}, **more}


def chosen_environment(names: Iterable[str]) -> dict[str, str]:
    """Return those of these variables that are set, for a child that is to see no others."""
    return {name: os.environ[name] for name in names if name in os.environ}
