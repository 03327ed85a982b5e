"""The first look at a candidate: is it Python, and does it define ``ModelNew``?

Nothing here decides by pattern whether a kernel is honest; the later stages measure that. The text is hostile
too: a long one is refused unread, and the parser runs in a limited process.
"""

import subprocess
import sys
from pathlib import Path

from kernelwright.core.errors import MachineError
from kernelwright.core.source import MAX_SOURCE_BYTES

MEMORY_BYTES = 2 << 30
CPU_S = 20
_WALL_S = 120.0
_PARSER = Path(__file__).with_name("parse_alone.py")


def find_size_problem(source: str) -> str | None:
    """Return one line when a source is too long to be read, None otherwise."""
    n_bytes = len(source.encode("utf-8", "surrogatepass"))
    if n_bytes <= MAX_SOURCE_BYTES:
        return None
    return f"the source has {n_bytes} bytes; at most {MAX_SOURCE_BYTES} are read"


def find_syntax_problem(source: str) -> str | None:
    """Return one line saying why the source cannot be a candidate, None when it can.

    Raises:
        MachineError: the process that parses does not start.
    """
    if problem := find_size_problem(source):
        return problem
    command = [sys.executable, "-I", "-S", str(_PARSER), str(MEMORY_BYTES), str(CPU_S)]
    try:
        done = subprocess.run(
            command,
            input=source.encode("utf-8", "surrogatepass"),
            capture_output=True,
            timeout=_WALL_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"not Python that can be parsed within {CPU_S} s"
    except OSError as error:
        raise MachineError(f"the process that parses sources does not start: {error}") from error
    if done.returncode != 0:
        return f"not Python that can be parsed within {CPU_S} s and {MEMORY_BYTES >> 30} GiB"
    return done.stdout.decode(errors="replace") or None
