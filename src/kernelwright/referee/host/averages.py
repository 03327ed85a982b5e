"""How large the values are that a running mean averages.

The mean of a norm may be zero but for roundings, as it is where a convolution without a bias follows another
norm. Then it says nothing about the roundings that a sum of such values may have.
"""

import math
from typing import Any

import torch

from kernelwright.referee.host.watching import Watching

MEAN = "running_mean"
SHARES = ("momentum", "exponential_average_factor")
"""What torch's norms call the weight of the newest mean."""


class AveragedSizes(Watching):
    """Notes, for every running mean that an operation updates, the size of its newest share."""

    def __init__(self) -> None:
        super().__init__()
        self._sizes: dict[int, float] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Carry an operation out; if it is a norm that keeps its mean, note the size of its input."""
        names = [argument.name for argument in func._schema.arguments]
        if MEAN in names:
            given = {**dict(zip(names, args, strict=False)), **(kwargs or {})}
            share = next((given[name] for name in SHARES if name in given), None)
            if given[MEAN] is not None and share is not None:
                x, place = given["input"], given[MEAN].data_ptr()
                size = abs(share) * float(torch.linalg.vector_norm(x)) / max(x.numel(), 1) ** 0.5
                if math.isfinite(size):
                    self._sizes[place] = max(self._sizes.get(place, 0.0), size)
        return func(*args, **(kwargs or {}))

    def of(self, buffer: torch.Tensor) -> float:
        """Return the share times the root mean square of what was averaged; 0 for others, or not finite."""
        return self._sizes.get(buffer.data_ptr(), 0.0)
