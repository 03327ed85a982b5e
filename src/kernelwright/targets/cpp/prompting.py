"""What models are told of C++ on the processor."""

import re
from pathlib import Path
from typing import Literal

from pydantic import Field

from kernelwright.targets.base import Features, Loader, Prompting
from kernelwright.targets.cpp.runtime_source import LOADER, LOADER_IMPORTS

CPP_LOADER = Loader(
    LOADER.strip(),
    marker=re.compile(r"^CPP_SOURCE\b", re.M),
    imports=(*(f"import {name}" for name in LOADER_IMPORTS), "from pathlib import Path"),
)


class CodeFeatures(Features):
    """What can be read off a kernel's source; null where it cannot be told."""

    structure: Literal["pointwise", "reduction", "scan", "window", "matmul", "mixed"] | None = None
    """Shape of the hottest loop."""
    passes_over_memory: int | None = Field(default=None, ge=0)
    """How often the largest tensor is read or written in one call."""
    has_reuse: bool | None = None
    """Values are used more than once after being loaded."""
    is_parallel: bool | None = None
    """The hottest loop is divided among threads."""
    is_vectorisable: bool | None = None
    """The innermost loop has unit stride and no dependence that stops vectors."""
    has_dependency_chain: bool | None = None
    """The innermost loop adds into one accumulator."""
    has_tail_handling: bool | None = None
    """Sizes are no multiple of the vector width, so a remainder loop runs."""
    uses_transcendentals: bool | None = None
    """exp, log, tanh, erf and their like."""
    n_library_calls: int | None = Field(default=None, ge=0)
    """Operators of torch called in forward."""
    n_intermediates: int | None = Field(default=None, ge=0)
    """Tensors allocated in forward that are not returned."""


CPP_PROMPTING = Prompting(
    language="C++",
    own=re.compile(r'extern\s*"C"|cpp_sources'),
    folders=(Path(__file__).parent / "prompts",),
    features=CodeFeatures,
    foreign={
        "Triton": re.compile(r"^\s*(?:import triton\b|from triton\b)|@triton\.jit", re.M),
        "CUDA": re.compile(r"__global__|<<<\s*\w+\s*,|\bcuda_sources\s*=\s*(?!\[\]|None|\"\"|'')|\.cuda\(\)"),
    },
    approaches=(
        "the plain way. Keep library calls for matrix products, convolutions and attention; write one simple "
        "parallel loop for the rest.",
        "fuse. Everything between library calls becomes one kernel that reads its inputs once and writes its "
        "outputs once.",
        "algebra first. Remove work that need not be done at all, then fuse what is left.",
        "write everything yourself, the heaviest operator included, blocked for the caches.",
    ),
    advice={
        "memory": "fewer bytes, fewer passes, longer contiguous runs, stores that bypass caches, values kept "
        "in registers or cache.",
        "compute": "vector width, independent accumulators, fewer and cheaper instructions, reuse in "
        "registers, balanced threads, algebra that removes work.",
    },
    watch={
        "memory": ("run.bandwidth_fraction", "program.materialised_bytes", "counters.llc_miss_rate"),
        "compute": (
            "run.fma_fraction",
            "run.thread_scaling",
            "compiler.spills",
            "compiler.gathers",
            "counters.ipc",
        ),
    },
)
