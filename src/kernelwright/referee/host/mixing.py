"""Finds out whether a reference computes what is also computed in a space in which values of an image mix.

A convolution may be a sum of products, or products between Winograd's or Fourier's transforms. There a large
value leaves its rounding all over its tile, or all over its image.
"""

from typing import Any

from kernelwright.referee.host.watching import Watching

MIXES = ("conv", "fft")
"""What names of such operations hold."""


class MixingTrace(Watching):
    """Watches one call of a reference."""

    def __init__(self) -> None:
        super().__init__()
        self.mixes = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.mixes |= any(word in func.overloadpacket.__name__ for word in MIXES)
        return func(*args, **(kwargs or {}))
