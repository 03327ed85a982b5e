"""What models are told of CUDA C++."""

import re
from pathlib import Path

from kernelwright.targets.base import Loader, Prompting
from kernelwright.targets.cuda.runtime_source import LOADER
from kernelwright.targets.gpu.prompting import (
    ADVICE,
    APPROACHES,
    CAUSES,
    GPU_FOLDER,
    HIP_SIGN,
    TRITON_SIGN,
    WATCH,
    GpuCodeFeatures,
)

CUDA_LOADER = Loader(
    LOADER.strip(),
    marker=re.compile(r"^CUDA_SOURCE\b", re.M),
    imports=(
        "import ctypes",
        "import hashlib",
        "import os",
        "import subprocess",
        "import tempfile",
        "from pathlib import Path",
    ),
)
CUDA_PROMPTING = Prompting(
    language="CUDA C++",
    own=re.compile(r"\b__global__\b"),
    folders=(Path(__file__).parent / "prompts", GPU_FOLDER),
    features=GpuCodeFeatures,
    foreign={
        "Triton": re.compile(TRITON_SIGN, re.M),
        "HIP": re.compile(HIP_SIGN, re.M),
        "C++ for the processor": re.compile(r"^CPP_SOURCE\s*=|#\s*pragma\s+omp\b", re.M),
    },
    approaches=APPROACHES,
    hot_spot="kernel",
    causes=CAUSES,
    advice=ADVICE,
    watch=WATCH,
    facts={"on_amd": False, "foreign_kernels": "is Triton"},
)
