"""What models are told of Triton."""

import re
from pathlib import Path

from kernelwright.targets.base import Prompting
from kernelwright.targets.gpu.prompting import (
    ADVICE,
    APPROACHES,
    CAUSES,
    GPU_FOLDER,
    HIP_SIGN,
    WATCH,
    GpuCodeFeatures,
)

_CPP = r"^CPP_SOURCE\s*=|\bcpp_sources\s*=\s*(?!\[\]|None|\"\"|'')"


def triton_prompting(*, on_amd: bool) -> Prompting:
    """Return it for one vendor's GPUs."""
    return Prompting(
        language="Triton",
        own=re.compile(r"^\s*@(?:triton\.)?jit\b|=\s*triton\.jit\(", re.M),
        folders=(Path(__file__).parent / "prompts", GPU_FOLDER),
        features=GpuCodeFeatures,
        foreign={
            "CUDA C++": re.compile(
                rf"^CUDA_SOURCE\s*=|\b__global__\s+(?:void|__launch_bounds__)\b|\bcuda_sources\s*=|{HIP_SIGN}",
                re.M,
            ),
            "C++": re.compile(rf'{_CPP}|\bextern\s+"C"', re.M),
        },
        approaches=APPROACHES,
        hot_spot="kernel",
        causes=CAUSES,
        advice=ADVICE,
        watch=WATCH,
        facts={"on_amd": on_amd, "foreign_kernels": "are CUDA and C++"},
    )
