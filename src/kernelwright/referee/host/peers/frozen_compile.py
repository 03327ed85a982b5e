"""torch.compile set for inference: autotuned, with weights frozen, called from C++."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

OPTIONS: dict[str, Any] = {
    "max_autotune": True,
    "max_autotune_gemm_backends": "CPP,ATEN",
    "freezing": True,
    "cpp_wrapper": True,
    "cpp.enable_floating_point_contract_flag": "fast",
}
"""Of inductor; products and sums are contracted, as other compilers do by default."""


def compile_frozen(model: nn.Module, args: tuple[Any, ...]) -> Callable[..., Any]:
    """Return the compiled module; gradients must be off, as freezing needs it."""
    return torch.compile(model, dynamic=False, options=OPTIONS)
