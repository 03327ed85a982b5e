"""Finds the innermost loops in built code, those that compute most with vectors first."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_FUNCTION = re.compile(r"^[0-9a-f]+ <(?P<name>.+)>:$")
_LINE = re.compile(r"^ *(?P<address>[0-9a-f]+):\s+(?P<code>\S.*?)\s*$")
_JUMP = re.compile(r"^(?:j[a-z]+|b(?:\.\w+)?|cbn?z|tbn?z)\b.*?\b(?P<to>[0-9a-f]+) <")
_ON_VECTORS = re.compile(r"%[xyz]mm|\bv\d+\.\d[sd]\b|\bz\d+\.[sd]\b")
_ARITHMETIC = re.compile(r"^v?p?(?:fn?m|fml|add|mul|sub|div|max|min|sqrt|fadd|fmul|fsub|fdiv)")
DISASSEMBLE_S = 20.0


@dataclass(frozen=True)
class InnerLoop:
    """A loop that holds no other."""

    function: str
    instructions: tuple[str, ...]

    @property
    def vector_arithmetic(self) -> int:
        """How many instructions compute with vector registers."""
        return sum(bool(_ARITHMETIC.match(i) and _ON_VECTORS.search(i)) for i in self.instructions)


def inner_loops(library: Path) -> tuple[InnerLoop, ...] | None:
    """Return a library's innermost loops; None where no disassembler can read it."""
    objdump = shutil.which("objdump")
    if objdump is None:
        return None
    command = [objdump, "-d", "-C", "--no-show-raw-insn", "-j", ".text", str(library)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=DISASSEMBLE_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return loops_in(done.stdout)


def loops_in(disassembly: str) -> tuple[InnerLoop, ...]:
    """Return the innermost loops of a disassembly: most vector arithmetic first, of equals the shorter one.

    A loop is what lies between a jump backwards and where it goes, within one function.
    """
    found = [loop for name, lines in _functions(disassembly) for loop in _inner(name, lines)]
    return tuple(sorted(found, key=lambda loop: (-loop.vector_arithmetic, len(loop.instructions))))


def _functions(disassembly: str) -> Iterator[tuple[str, list[tuple[int, str]]]]:
    name, lines = "", list[tuple[int, str]]()
    for text in disassembly.splitlines():
        if head := _FUNCTION.match(text):
            yield name, lines
            name, lines = head["name"], []
        elif line := _LINE.match(text):
            lines.append((int(line["address"], 16), line["code"]))
    yield name, lines


def _inner(name: str, lines: list[tuple[int, str]]) -> Iterator[InnerLoop]:
    place = {address: n for n, (address, _) in enumerate(lines)}
    spans = []
    for n, (_, code) in enumerate(lines):
        jump = _JUMP.match(code)
        begin = place.get(int(jump["to"], 16)) if jump else None
        if begin is not None and begin <= n:
            spans.append((begin, n))
    for begin, end in spans:
        if not any(begin <= b and e <= end and (b, e) != (begin, end) for b, e in spans):
            yield InnerLoop(name, tuple(code for _, code in lines[begin : end + 1]))
