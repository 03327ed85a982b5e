"""Candidates in CUDA C++ for tests: kernels, launches, the loader and a model, put together."""

from collections.abc import Mapping, Sequence
from pprint import pformat
from typing import Any

from kernelwright.targets.cuda.prompting import CUDA_LOADER

NVCC_FLAGS = ("-std=c++17", "-O3")


def render_cuda_candidate(text: str, launches: Sequence[Mapping[str, Any]], model: str) -> str:
    """Return the file; ``model`` calls ``_launch[NAME](tensors and numbers...)``."""
    parts = [
        "\n".join(CUDA_LOADER.imports),
        "\nimport torch\nfrom torch import nn\n",
        f"CUDA_SOURCE = r'''{text}'''",
        f"NVCC_FLAGS = {NVCC_FLAGS!r}",
        f"LAUNCHES = {pformat(tuple(dict(launch) for launch in launches), width=110, sort_dicts=False)}",
        CUDA_LOADER.text + "\n\n",
        model.strip() + "\n",
    ]
    return "\n".join(parts)
