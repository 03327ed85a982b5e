"""Our form of CUDA in a candidate, and which sources a compiler may read."""

import pytest

from kernelwright.core.open_parameters import closed
from kernelwright.targets.cuda.nvcc.form import CudaSource, launcher_text
from kernelwright.targets.cuda.nvcc.includes import refused_reads
from kernelwright.targets.cuda.nvcc.outcome import BuildStatus, NotBuilt
from kernelwright.targets.cuda.nvcc.read import read_cuda_source

CANDIDATE = '''
import torch
CUDA_SOURCE = r"""extern "C" __global__ void k(float* x) { x[threadIdx.x] = 1; }"""
NVCC_FLAGS = ("-O3", "--use_fast_math")
LAUNCHES = (
    {"name": "ones", "kernel": "k", "grid": (1, 1, 1), "block": (32, 1, 1), "arguments": ("tensor",)},
)
'''


def test_the_three_literals_are_read() -> None:
    found = read_cuda_source(CANDIDATE)
    assert isinstance(found, CudaSource)
    assert found.flags == ("-O3", "--use_fast_math") and found.launches[0].block_threads == 32
    assert "int launch_ones(void* stream, void* a0)" in launcher_text(found)


def test_open_parameters_stand_in_flags_and_launches() -> None:
    opened = CANDIDATE.replace("CUDA_SOURCE", 'TUNE = {"N": [64, 32]}\nCUDA_SOURCE', 1)
    opened = opened.replace('"--use_fast_math"', "f\"-DN={TUNE['N'][0]}\"")
    opened = opened.replace("(1, 1, 1)", '(4096 // TUNE["N"][0], 1, 1)')
    opened = opened.replace("(32, 1, 1)", '(TUNE["N"][0], 1, 1)')
    for source, size in ((opened, 64), (closed(opened, {"N": 32}), 32)):
        found = read_cuda_source(source)
        assert isinstance(found, CudaSource) and found.flags == ("-O3", f"-DN={size}")
        assert found.launches[0].grid[0] == 4096 // size and found.launches[0].block_threads == size


def test_a_candidate_without_cuda_is_none() -> None:
    assert read_cuda_source("CPP_SOURCE = 'int x;'") is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("LAUNCHES = (", "LAUNCHES = list("), "not a plain literal: LAUNCHES"),
        (('"--use_fast_math"', '"-Xcompiler=-fplugin=x.so"'), "not allowed: -Xcompiler"),
        (('"block": (32, 1, 1)', '"block": (32, 0, 1)'), "is no size"),
        (('"name": "ones"', '"name": "o;nes"'), "no name in C"),
        (('("tensor",)', '("float8",)'), "LAUNCHES.0.arguments.0".lower()),
        (("import torch", "import"), "no Python"),
    ],
)
def test_what_cannot_be_used_is_named(change: tuple[str, str], words: str) -> None:
    assert change[0] in CANDIDATE
    found = read_cuda_source(CANDIDATE.replace(*change))
    assert isinstance(found, NotBuilt) and found.status is BuildStatus.NOT_THE_FORM
    assert words in found.message and "\n" not in found.message


@pytest.mark.parametrize(
    "source",
    [
        "#include <cuda_fp16.h>\n  #  include <cooperative_groups/reduce.h> // sums\nint x;",
        '#include "cuda_runtime.h"',
        '#define PATH "/etc/passwd"\n// includes nothing',
    ],
)
def test_headers_by_name_are_read(source: str) -> None:
    assert refused_reads(source) is None


@pytest.mark.parametrize(
    "source",
    [
        '#include "/etc/passwd"',
        "#include </proc/self/environ>",
        '#include "../../secret.h"',
        "#include <x/../../../etc/passwd>",
        "#define F </etc/passwd>\n#include F",
        '#inc\\\nlude "/etc/passwd"',
        '#inc\\ \nlude "/etc/passwd"',
        '%:include "/etc/passwd"',
        '??=include "/etc/passwd"',
        '# /* a\nb */ include "/etc/passwd"',
        '/* */ #include "/etc/passwd"',
        '#include_next "x.h"',
        '#embed "/etc/passwd"',
        "#" + "/**/" * 2000 + 'include "/etc/passwd"',
        "#/*" * 20000,
        'asm(".incbin \\"/etc/passwd\\"");',
    ],
)
def test_paths_are_not_read_however_they_are_written(source: str) -> None:
    assert refused_reads(source) is not None
