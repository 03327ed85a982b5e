"""Which positions the windows of convolutions and poolings look at, counted exactly per axis."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import fx


@dataclass(frozen=True)
class Axis:
    """One spatial axis: output position o looks at ``o * stride + k * dilation - padding``."""

    size: int
    """Positions on the strided side: the input of a convolution, the output of a transposed one."""
    n_windows: int
    """Positions on the other side."""
    kernel: int
    stride: int
    padding: int
    dilation: int

    def taps(self) -> tuple[int, int]:
        """Return (pairs of window and position that meet, positions that meet any window)."""
        windows = np.arange(self.n_windows)[:, None] * self.stride
        positions = windows + np.arange(self.kernel)[None, :] * self.dilation - self.padding
        inside = positions[(positions >= 0) & (positions < self.size)]
        return int(inside.size), int(np.unique(inside).size)

    def windows_met(self) -> int:
        """Return how many windows meet at least one position."""
        windows = np.arange(self.n_windows)[:, None] * self.stride
        positions = windows + np.arange(self.kernel)[None, :] * self.dilation - self.padding
        return int(((positions >= 0) & (positions < self.size)).any(axis=1).sum())

    def fast_algorithm_gain(self) -> float:
        """Return how many times fewer products a minimal filtering algorithm needs on this axis.

        F(m, r) takes m + r - 1 products for m outputs of r taps (Winograd 1980; Lavin and Gray,
        arXiv 1509.09308); m = 4 is the largest common tile, longer filters take m = r as a stand-in
        for the Fourier transform. A stride splits the filter into phases.
        """
        taps = math.ceil(self.kernel / self.stride)
        tile = max(4, taps)
        return tile * taps / (tile + taps - 1)


def convolution_axes(node: fx.Node) -> tuple[Axis, ...]:
    """Return the spatial axes of an ``aten.convolution`` node."""
    image, weight, stride, padding, dilation, transposed = (node.args[i] for i in (0, 1, 3, 4, 5, 6))
    inputs = image.meta["val"].shape[2:]  # type: ignore[union-attr]
    kernels = weight.meta["val"].shape[2:]  # type: ignore[union-attr]
    outputs = node.meta["val"].shape[2:]
    large, small = (outputs, inputs) if transposed else (inputs, outputs)
    return _axes(large, small, kernels, stride, padding, dilation)


def pooling_axes(node: fx.Node) -> tuple[Axis, ...]:
    """Return the spatial axes of an average or maximum pooling node (tuple-valued ones too)."""
    value = node.meta["val"]
    output = value[0] if isinstance(value, tuple | list) else value
    image = node.args[0].meta["val"]  # type: ignore[union-attr]
    kernel = _listed(node, 1, [])
    n_axes = len(image.shape) - 2 if len(kernel) == 1 else len(kernel)
    stride = _listed(node, 2, []) or kernel
    padding = _listed(node, 3, [0])
    dilation = _listed(node, 4, [1]) if "max" in str(node.target) else [1]
    return _axes(image.shape[-n_axes:], output.shape[-n_axes:], kernel, stride, padding, dilation)


def _listed(node: fx.Node, position: int, default: list[int]) -> list[int]:
    value = node.args[position] if len(node.args) > position else default
    return list(value) if isinstance(value, list | tuple) else [int(value)]  # type: ignore[arg-type]


def _axes(
    large: Sequence[int], small: Sequence[int], kernel: object, stride: object, padding: object, dilation: object
) -> tuple[Axis, ...]:
    n_axes = len(large)
    columns = [
        list(c) * n_axes if len(c) == 1 else list(c)  # type: ignore[arg-type]
        for c in (kernel, stride, padding, dilation)
    ]
    rows = zip(large, small, *columns, strict=True)
    return tuple(Axis(*(int(value) for value in row)) for row in rows)
