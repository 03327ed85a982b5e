"""Counts instructions in built code: proof that a measured loop does what it is said to do."""

import re
import shutil
import subprocess
from pathlib import Path

_FMA = re.compile(r"\b(?:vfn?m(?:add|sub)(?:132|213|231)p[sd]|fml[as])\b")


def count_fma(library: Path, function: str) -> int | None:
    """Return how many multiply-add instructions on vectors a function of a library has.

    None where no disassembler is there, or the function is not in the library under this name.
    """
    objdump = shutil.which("objdump")
    if objdump is None:
        return None
    command = [objdump, "-d", "--no-show-raw-insn", f"--disassemble={function}", str(library)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return count_in(done.stdout, function)


def count_in(disassembly: str, function: str) -> int | None:
    """Return the number of multiply-adds in the text of a function; None where the text has no such one."""
    _, is_there, text = disassembly.partition(f"<{function}>:")
    if not is_there:
        return None
    return len(_FMA.findall(text.partition("\n\n")[0]))
