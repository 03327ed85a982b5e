"""Reads which loops a compiler vectorised, from its own report and from the machine code."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from kernelwright.core.evidence import FactValue

_POSITION = r"^\S*?:(?P<at>(?P<line>\d+):\d+): "
_GCC_VECTORIZED = re.compile(
    _POSITION + r"optimized: (?:loop|basic block part) vectorized using (?P<bytes>\d+)"
)
_GCC_LOOP = re.compile(_POSITION + r"optimized: loop vectorized")
_GCC_MISSED = re.compile(_POSITION + r"missed: couldn't vectorize loop")
_GCC_REASON = re.compile(_POSITION + r"missed: not vectorized: (?P<why>.*)")
_CLANG_VECTORIZED = re.compile(_POSITION + r"remark: vectorized loop")
_CLANG_MISSED = re.compile(_POSITION + r"remark: loop not vectorized")
_ELEMENT = re.compile(r"^ scalar_type: (?:const |volatile )*(?P<type>.+)$")
_SCALAR_TYPE = re.compile(
    r"(?:(?:un)?signed |long |short )*(?:float|double|char|short|int|long|bool|_Bool|\w+_t)( \*)?"
)
_OUTER = ("multiple nested loops", "loop nest containing", "inner-loop count not invariant")
"""Reasons that GCC gives for a loop around other loops."""
_NOISE = re.compile(
    _POSITION + r"missed: (?!couldn't vectorize loop|not vectorized: (?!vectorization is not))"
)


def condense(log: str, source: str) -> str:
    """Return the compiler's output without repeated lines, block-level misses, and OpenMP's own loops.

    Those (over threads, or over the lanes of a simd reduction) are reported at the line of a pragma.
    """
    pragmas = {n for n, line in enumerate(source.splitlines(), 1) if line.lstrip().startswith("#pragma")}
    kept: dict[str, None] = {}
    for line in log.splitlines():
        loop = _GCC_LOOP.match(line) or _GCC_MISSED.match(line)
        if not _NOISE.match(line) and not (loop and int(loop["line"]) in pragmas):
            kept[line] = None
    return "\n".join(kept)


@dataclass
class _Loops:
    vectorized: set[str] = field(default_factory=set)
    missed: set[str] = field(default_factory=set)
    vector_bytes: list[int] = field(default_factory=list)


def report_facts(log: str, library: Path, source: str = "") -> dict[str, FactValue]:
    """Return the ``compiler.*`` metrics; what neither the log nor a disassembler tells is None.

    A loop is told from another by its place in the source; one of which any version was vectorised
    counts as vectorised. Loops that only contain loops are not counted. Of a source that computes with
    intrinsics the log says nothing: its loops are vector code that no vectoriser has made.
    """
    loops = _Loops() if _BY_HAND.search(source) else _parse_loops(log)
    n_loops = len(loops.vectorized | loops.missed)
    code = _disassemble(library)
    widths = loops.vector_bytes + ([code.vector_bytes] if code and code.vector_bytes else [])
    return {
        "compiler.loops": n_loops or None,
        "compiler.vectorized_loops": len(loops.vectorized) if n_loops else None,
        "compiler.vectorized_fraction": len(loops.vectorized) / n_loops if n_loops else None,
        "compiler.vector_bytes": max(widths) if widths else None,
        "compiler.spills": None if code is None else code.spills,
        "compiler.vector_arithmetic": None if code is None else code.vector_arithmetic,
        "compiler.scalar_arithmetic": None if code is None else code.scalar_arithmetic,
        "compiler.vector_fma": None if code is None else code.vector_fma,
        "compiler.gathers": None if code is None else code.gathers,
    }


def _parse_loops(log: str) -> _Loops:
    loops = _Loops()
    pending: str | None = None
    for line in log.splitlines():
        if match := _GCC_VECTORIZED.match(line):
            loops.vector_bytes.append(int(match["bytes"]))
        if match := _GCC_LOOP.match(line) or _CLANG_VECTORIZED.match(line):
            loops.vectorized.add(match["at"])
        elif match := _GCC_MISSED.match(line) or _CLANG_MISSED.match(line):
            pending = match["at"]
            loops.missed.add(pending)
        elif match := _GCC_REASON.match(line):
            if pending is not None and match["why"].startswith(_OUTER):
                loops.missed.discard(pending)
                pending = None
        elif (match := _ELEMENT.match(line)) and pending is not None:
            # The element already is a vector type: the loop was vectorised by hand.
            if not _SCALAR_TYPE.fullmatch(match["type"]):
                loops.missed.discard(pending)
                loops.vectorized.add(pending)
            pending = None
    return loops


@dataclass(frozen=True)
class _Code:
    vector_bytes: int | None
    spills: int
    vector_arithmetic: int
    scalar_arithmetic: int
    vector_fma: int
    gathers: int


_REGISTER_BYTES = {"x": 16, "y": 32, "z": 64}
_PACKED = re.compile(r"\b(v?(?:fn?m|add|mul|sub|div|max|min|sqrt)\w*p[sd])\b.*%(?P<width>[xyz])mm")
_SCALAR = re.compile(r"\bv?(?:fn?m|add|mul|sub|div|max|min|sqrt)\w*s[sd]\b")
_FUSED = re.compile(r"\bvfn?m(?:add|sub)(?:addsub|subadd)?\d*p[sd]\b")
_GATHER = re.compile(r"\bvp?gather\w+\b")
_BY_HAND = re.compile(r"\b_mm\d*_\w*(?:add|sub|mul|div|max|min|sqrt)\w*_p[sd]\b")
"""Arithmetic by intrinsics."""
_VECTOR_MOVE = re.compile(r"\bv?mov(?:[au]p[sd]|dq[au]\d*)\b.*%[xyz]mm")
_SPILL = re.compile(r"[ ,](?:-?0x[0-9a-f]+)?\(%(?P<base>rsp|rbp)\)")


def _disassemble(library: Path) -> _Code | None:
    """Return what the machine code shows; None without objdump or on another architecture."""
    objdump = shutil.which("objdump")
    if objdump is None:
        return None
    command = [objdump, "-d", "--no-show-raw-insn", "-j", ".text", str(library)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return None if "x86-64" not in done.stdout[:400] else _read_code(done.stdout)


def _read_code(text: str) -> _Code:
    widths = [_REGISTER_BYTES[m["width"]] for m in map(_PACKED.search, text.splitlines()) if m]
    return _Code(
        vector_bytes=max(widths, default=None),
        spills=sum(_count_spills(function) for function in _functions(text)),
        vector_arithmetic=len(widths),
        scalar_arithmetic=len(_SCALAR.findall(text)),
        vector_fma=len(_FUSED.findall(text)),
        gathers=len(_GATHER.findall(text)),
    )


def _functions(text: str) -> Iterator[list[str]]:
    for block in text.split("\n\n"):
        yield block.splitlines()


def _count_spills(function: list[str]) -> int:
    """Count whole-vector moves to or from a fixed place in the frame.

    ``%rbp`` means the frame only where the function sets it so; indexed accesses are arrays.
    """
    uses_frame_pointer = any(re.search(r"mov\s+%rsp,%rbp", line) for line in function)
    bases = {"rsp", "rbp"} if uses_frame_pointer else {"rsp"}
    moves = (line for line in function if _VECTOR_MOVE.search(line))
    return sum(1 for line in moves if (match := _SPILL.search(line)) and match["base"] in bases)
