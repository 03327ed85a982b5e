"""Loops, vectors and spills as the compiler and the machine code show them."""

from pathlib import Path

import pytest

from kernelwright.machine import vector_report
from kernelwright.machine.compiler import BuiltLibrary, compile_library, find_compiler, report_facts
from kernelwright.machine.vector_report import condense

FLAGS = ("-O3", "-mavx2", "-mfma", "-fopenmp")
MIXED = """
extern "C" void scale(const float* __restrict__ x, float* __restrict__ y, long n) {
#pragma omp parallel for
    for (long i = 0; i < n; i++)
        y[i] = x[i] * 2.0f;
}
extern "C" float chain(const float* x, long n) {
    float last = 0;
    for (long i = 0; i < n; i++)
        last = last * x[i] + 1.0f;
    return last;
}
extern "C" void rows(const float* __restrict__ x, float* __restrict__ y, long n, long m) {
#pragma omp parallel for
    for (long r = 0; r < n; r++) {
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (long i = 0; i < m; i++)
            sum += x[r * m + i];
        for (long i = 0; i < m; i++)
            y[r * m + i] = x[r * m + i] - sum;
    }
}
"""
BY_HAND = """
typedef float v8 __attribute__((vector_size(32)));
extern "C" void scale(const v8* __restrict__ x, v8* __restrict__ y, long n) {
    for (long i = 0; i < n; i++)
        y[i] = x[i] * 2.0f;
}
"""
CROWDED = """
typedef float v8 __attribute__((vector_size(32)));
extern "C" void crowd(const v8* x, v8* y, long n) {
    v8 sums[24] = {};
    for (long i = 0; i < n; i++)
#pragma GCC unroll 24
        for (int j = 0; j < 24; j++)
            sums[j] = sums[j] * x[i] + x[j];
#pragma GCC unroll 24
    for (int j = 0; j < 24; j++)
        y[j] = sums[j];
}
"""
needs_gcc = pytest.mark.skipif("x86" not in __import__("platform").machine(), reason="x86-64 flags")


def facts_of(source: str, folder: Path) -> dict[str, object]:
    if find_compiler().is_clang:
        pytest.skip("the counts are GCC's")
    built = compile_library(source, FLAGS, folder)
    assert isinstance(built, BuiltLibrary)
    return {
        name.removeprefix("compiler."): value for name, value in report_facts(built.log, built.path).items()
    }


@needs_gcc
def test_each_inner_loop_counts_once_and_outer_ones_do_not(tmp_path: Path) -> None:
    facts = facts_of(MIXED, tmp_path)
    assert (facts["loops"], facts["vectorized_loops"], facts["vectorized_fraction"]) == (4, 3, 0.75)
    assert facts["vector_bytes"] == 32


@needs_gcc
def test_loop_written_with_vector_types_counts_as_vectorised(tmp_path: Path) -> None:
    facts = facts_of(BY_HAND, tmp_path)
    assert (facts["loops"], facts["vectorized_loops"], facts["vector_bytes"]) == (1, 1, 32)


@needs_gcc
def test_more_accumulators_than_registers_spill(tmp_path: Path) -> None:
    spills, none = facts_of(CROWDED, tmp_path)["spills"], facts_of(BY_HAND, tmp_path)["spills"]
    assert isinstance(spills, int) and spills > 8 and none == 0


@needs_gcc
def test_code_without_loops_has_none_rather_than_zero(tmp_path: Path) -> None:
    facts = facts_of('extern "C" int one() { return 1; }', tmp_path)
    assert (facts["loops"], facts["vectorized_loops"], facts["vectorized_fraction"]) == (None, None, None)


def test_without_a_disassembler_spills_are_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_report.shutil, "which", lambda _: None)
    assert report_facts("", tmp_path / "none.so")["compiler.spills"] is None


def test_file_that_is_no_library_leaves_everything_unknown(tmp_path: Path) -> None:
    (tmp_path / "x.so").write_bytes(b"not an object file")
    assert set(report_facts("", tmp_path / "x.so").values()) == {None}


def test_clang_remarks_are_read(tmp_path: Path) -> None:
    log = (
        "kernel.cpp:5:37: remark: vectorized loop (vectorization width: 8, interleaved count: 4)\n"
        "kernel.cpp:9:5: remark: loop not vectorized [-Rpass-missed=loop-vectorize]\n"
    )
    facts = report_facts(log, tmp_path / "none.so")
    assert (facts["compiler.loops"], facts["compiler.vectorized_loops"]) == (2, 1)


def test_condensed_log_keeps_warnings_and_drops_repeats() -> None:
    log = "k.cpp:1:1: warning: unused\n" + "k.cpp:2:1: missed: statement clobbers memory: f ();\n" * 3
    assert condense(log, "int f();") == "k.cpp:1:1: warning: unused"


INTRINSICS = """
#include <immintrin.h>
extern "C" void scale(const float* x, const int* at, float* y, long n) {
    __m256 two = _mm256_set1_ps(2.0f);
    for (long i = 0; i + 8 <= n; i += 8) {
        __m256 v = _mm256_i32gather_ps(x, _mm256_loadu_si256((const __m256i*)(at + i)), 4);
        _mm256_storeu_ps(y + i, _mm256_fmadd_ps(v, two, two));
    }
}
"""


@needs_gcc
def test_code_by_intrinsics_is_counted_and_not_called_unvectorised(tmp_path: Path) -> None:
    built = compile_library(INTRINSICS, FLAGS, tmp_path, 60)
    assert isinstance(built, BuiltLibrary)
    blind = report_facts(built.log, built.path)
    facts = report_facts(built.log, built.path, INTRINSICS)
    assert blind["compiler.vectorized_fraction"] == 0, "what the vectoriser alone would say"
    assert facts["compiler.loops"] is facts["compiler.vectorized_fraction"] is None
    assert facts["compiler.vector_fma"] == 1 and facts["compiler.gathers"] == 1
    assert facts["compiler.vector_arithmetic"] == 1 and facts["compiler.scalar_arithmetic"] == 0
    assert facts["compiler.vector_bytes"] == 32 and facts["compiler.spills"] == 0


@needs_gcc
def test_scalar_and_vector_arithmetic_are_told_apart(tmp_path: Path) -> None:
    built = compile_library(MIXED, FLAGS, tmp_path, 60)
    assert isinstance(built, BuiltLibrary)
    facts = report_facts(built.log, built.path, MIXED)
    vectors, singles = facts["compiler.vector_arithmetic"], facts["compiler.scalar_arithmetic"]
    assert isinstance(vectors, int) and isinstance(singles, int) and vectors > 0 < singles
    assert facts["compiler.gathers"] == 0 and facts["compiler.vectorized_fraction"] is not None
