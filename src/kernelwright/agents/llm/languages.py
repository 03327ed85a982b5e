"""The languages that models are asked to write: what they are called, and what tells them apart in a file."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from kernelwright.core.errors import UserError


@dataclass(frozen=True)
class Language:
    """One of them; its prompt parts are ``rules_NAME.md``, ``brief_NAME.md`` and ``example_NAME.md``."""

    name: str
    """As in sentences."""
    own: re.Pattern[str]
    """What a file with a kernel in this language holds."""
    foreign: Mapping[str, re.Pattern[str]]
    """Other language -> what gives it away, the likelier one first."""
    has_loader: bool = True
    """Files hold a fixed text that compiles and opens their kernels; prompts show one line in its place."""


_TRITON = r"^\s*(?:import triton\b|from triton\b)|@triton\.jit"
_CPP = r"^CPP_SOURCE\s*=|\bcpp_sources\s*=\s*(?!\[\]|None|\"\"|'')"
_HIP = r"^HIP_SOURCE\s*=|\bhipLaunchKernelGGL\b|#\s*include\s*[<\"]hip/"
LANGUAGES: Mapping[str, Language] = {
    "cpp": Language(
        name="C++",
        own=re.compile(r'extern\s*"C"|cpp_sources'),
        foreign={
            "Triton": re.compile(_TRITON, re.M),
            "CUDA": re.compile(
                r"__global__|<<<\s*\w+\s*,|\bcuda_sources\s*=\s*(?!\[\]|None|\"\"|'')|\.cuda\(\)"
            ),
        },
    ),
    "triton": Language(
        name="Triton",
        own=re.compile(r"^\s*@(?:triton\.)?jit\b|=\s*triton\.jit\(", re.M),
        foreign={
            "CUDA C++": re.compile(
                rf"^CUDA_SOURCE\s*=|\b__global__\s+(?:void|__launch_bounds__)\b|\bcuda_sources\s*=|{_HIP}",
                re.M,
            ),
            "C++": re.compile(rf'{_CPP}|\bextern\s+"C"', re.M),
        },
        has_loader=False,
    ),
    "cuda": Language(
        name="CUDA C++",
        own=re.compile(r"\b__global__\b"),
        foreign={
            "Triton": re.compile(_TRITON, re.M),
            "HIP": re.compile(_HIP, re.M),
            "C++ for the processor": re.compile(r"^CPP_SOURCE\s*=|#\s*pragma\s+omp\b", re.M),
        },
    ),
}
"""Language of a target -> what models are told and held to."""


def language_of(language: str) -> Language:
    """Return a target's language; raises UserError for one that models are not asked for."""
    if language not in LANGUAGES:
        raise UserError(f"models are asked for kernels in {', '.join(LANGUAGES)}; not in {language!r}")
    return LANGUAGES[language]
