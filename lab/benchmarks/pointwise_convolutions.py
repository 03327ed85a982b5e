"""When is a convolution with a 1x1 window faster as a batched matrix product? Ratios by shape.

``python -m lab.benchmarks.pointwise_convolutions``: the convolution's time over the product's, both torch's,
timed in turn: median, second smallest and second largest. The rewrite ``convolution_as_matmul`` rests on it.
"""

import statistics
import sys
import time
from collections.abc import Callable

import torch

SHAPES = (
    (2, 3, 6, 256), (2, 6, 64, 256), (1, 16, 64, 62), (64, 16, 16, 8), (2, 24, 144, 56), (1, 32, 128, 31),
    (2, 32, 16, 112), (2, 32, 192, 112), (8, 64, 256, 56), (2, 64, 384, 14), (1, 96, 16, 62), (2, 96, 24, 56),
    (1, 128, 16, 62), (10, 128, 32, 28), (2, 144, 24, 56), (2, 192, 32, 112), (2, 240, 40, 64),
    (1, 256, 32, 31), (8, 256, 64, 56), (16, 256, 512, 14), (2, 320, 1280, 7), (2, 384, 64, 14),
    (1, 512, 64, 15), (1, 512, 512, 14), (4, 512, 512, 7), (32, 512, 512, 7), (2, 960, 160, 7),
)  # fmt: skip
"""Images, channels of the input and of the result, side of an image."""
ROUNDS, SAMPLE_S = 9, 0.02


@torch.no_grad()
def main() -> None:
    """Measure and print."""
    for images, channels, n_out, side in SHAPES:
        x, weight = torch.randn(images, channels, side, side), torch.randn(n_out, channels, 1, 1)
        flat, matrix = x.flatten(2), weight.view(1, n_out, channels).expand(images, n_out, channels)

        def convolution(x: torch.Tensor = x, weight: torch.Tensor = weight) -> None:
            torch.conv2d(x, weight)

        def product(matrix: torch.Tensor = matrix, flat: torch.Tensor = flat) -> None:
            torch.bmm(matrix, flat)

        ratios = sorted(_seconds(convolution) / _seconds(product) for _ in range(ROUNDS))
        megabytes = 4 * images * n_out * side**2 / 1e6
        told = f"{statistics.median(ratios):5.2f} [{ratios[1]:.2f}, {ratios[-2]:.2f}]"
        sys.stdout.write(
            f"{images:3d} x {channels:4d} -> {n_out:4d} of {side:3d}^2, {megabytes:5.1f} MB: {told}\n"
        )
        sys.stdout.flush()


def _seconds(call: Callable[[], None]) -> float:
    """Return seconds of a call, of as many as fill a sample."""
    call()
    started, n_calls = time.perf_counter(), 0
    while time.perf_counter() - started < SAMPLE_S:
        call()
        n_calls += 1
    return (time.perf_counter() - started) / n_calls


if __name__ == "__main__":
    main()
