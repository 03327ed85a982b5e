"""Innermost loops, read from the text of a disassembler."""

import shutil
import subprocess
from pathlib import Path

import pytest

from kernelwright.machine.loops import inner_loops, loops_in

NESTED = """
lib.so:     file format elf64-x86-64

0000000000001100 <scale>:
    1100:\tpush   %rbp
    1104:\txor    %eax,%eax
    1108:\tvmovups (%rdi),%ymm0
    110c:\tvfmadd213ps (%rsi),%ymm1,%ymm0
    1110:\tadd    $0x20,%rax
    1114:\tjne    1108 <scale+0x8>
    1118:\tdec    %rcx
    111c:\tjne    1104 <scale+0x4>
    1120:\tret

0000000000001200 <walk>:
    1200:\tmov    (%rdi),%rdi
    1204:\ttest   %rdi,%rdi
    1208:\tjne    1200 <walk>
    120c:\tjmp    1100 <scale>
"""


def test_the_innermost_loop_with_most_vector_arithmetic_comes_first() -> None:
    first, second = loops_in(NESTED)
    assert (first.function, len(first.instructions), first.vector_arithmetic) == ("scale", 4, 1)
    assert first.instructions[1] == "vfmadd213ps (%rsi),%ymm1,%ymm0"
    assert (second.function, second.vector_arithmetic) == ("walk", 0)


@pytest.mark.parametrize("text", ["", "no disassembly", "0000000000001100 <f>:\n    1100:\tret\n"])
def test_where_nothing_loops_nothing_is_found(text: str) -> None:
    assert loops_in(text) == ()


def test_built_code_is_read(tmp_path: Path) -> None:
    compiler = shutil.which("g++")
    if compiler is None or shutil.which("objdump") is None:
        pytest.skip("no compiler, or no disassembler")
    source = tmp_path / "sum.cpp"
    source.write_text(
        'extern "C" void add(float* x, const float* y, long n) { for (long i = 0; i < n; ++i) x[i] += y[i]; }'
    )
    library = tmp_path / "sum.so"
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    loops = inner_loops(library)
    assert loops is not None and any(loop.function == "add" for loop in loops)


def test_what_is_no_library_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "text.so"
    file.write_text("hello")
    assert inner_loops(file) is None
