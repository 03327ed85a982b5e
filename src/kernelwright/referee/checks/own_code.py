"""Whose code computes? Samples of instruction addresses in timed calls, sorted by what is mapped there.

A candidate's own code is what lies in libraries that were built for it or that it built, and in memory
without a file. Interpreter, C library and the like count for neither side: every call passes through them.
What lies anywhere else is a library's. Samples are taken from outside and the candidate cannot see them.
"""

import os
import re
import sys
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

LIBRARY_CALL_S = 50e-6
"""Processor time in libraries that every call may take: it enters torch to allocate and view."""
LEAST_SAMPLES = 20
"""With fewer, nothing is concluded."""
MAX_OWN_BYTES = 8 << 20
"""More code in one mapping is no candidate's own: it came from elsewhere."""
SYSTEM_PLACES = re.compile(r"/(site-packages|dist-packages|lib|lib64|usr|opt|torchinductor|inductor)(/|$)")
_BOTH_SIDES = re.compile(
    r"^(python[\d.]*|libpython|libc[.-]|ld-|libm[.-]|libmvec|libgomp|libi?omp|libstdc\+\+|libc\+\+|libgcc_s"
    r"|libpthread|libdl|librt|libffi|_ctypes|libtorch_python|libc10)"
)
_LINE = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ (\d+)\s*(.*)$", re.MULTILINE)
_NO_FILE = ("[anon", "[heap]", "[stack", "/dev/zero", "/memfd:")


class CodeOwner(StrEnum):
    """Whose an instruction is."""

    OWN = "own"
    LIBRARY = "library"
    NEITHER = "neither"


class MappedCode(NamedTuple):
    """Executable memory."""

    start: int
    end: int
    path: str
    """Empty without a file."""


def mapped_code(pid: int) -> list[MappedCode]:
    """Return the executable mappings of a process; empty when it is gone."""
    try:
        text = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return [
        MappedCode(int(start, 16), int(end, 16), path)
        for start, end, rights, _, path in _LINE.findall(text)
        if "x" in rights
    ]


def owner_of(address: int, code: Sequence[MappedCode], own_library: str = "") -> CodeOwner:
    """Return whose the instruction at an address is; what is not mapped any more is not the candidate's.

    ``own_library`` is the name of the file that was built for the candidate, wherever it lies.
    """
    found = next((one for one in code if one.start <= address < one.end), None)
    if found is None:
        return CodeOwner.LIBRARY
    is_small = found.end - found.start <= MAX_OWN_BYTES
    name = os.path.basename(found.path)
    if not found.path or found.path.startswith(_NO_FILE) or name == own_library:
        return CodeOwner.OWN if is_small else CodeOwner.LIBRARY
    if found.path.startswith("["):  # the kernel's: vdso, vsyscall
        return CodeOwner.NEITHER
    if not _is_of_the_system(found.path):
        return CodeOwner.OWN if is_small else CodeOwner.LIBRARY
    return CodeOwner.NEITHER if _BOTH_SIDES.match(name) else CodeOwner.LIBRARY


def _is_of_the_system(path: str) -> bool:
    prefixes = {os.path.realpath(prefix) for prefix in (sys.prefix, sys.base_prefix)}
    return bool(SYSTEM_PLACES.search(path)) or any(path.startswith(f"{prefix}/") for prefix in prefixes)


def own_code_problem(owners: Sequence[CodeOwner], cpu_s: float) -> str | None:
    """Return one line when libraries did most of the work of timed calls; None when the candidate did.

    Args:
        owners: of every sample.
        cpu_s: processor seconds of one call.
    """
    n = Counter(owners)
    if len(owners) < LEAST_SAMPLES or n[CodeOwner.LIBRARY] <= n[CodeOwner.OWN]:
        return None
    if n[CodeOwner.LIBRARY] / len(owners) * cpu_s <= LIBRARY_CALL_S:
        return None
    library, own = (f"{n[owner] / len(owners):.0%}" for owner in (CodeOwner.LIBRARY, CodeOwner.OWN))
    return (
        "the policy asks for own kernels; of the processor time of timed calls "
        f"{library} was spent in libraries and {own} in the candidate's own code"
    )
