"""Which positions the windows of convolutions and poolings look at, counted exactly per axis."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import fx


@dataclass(frozen=True)
class WindowAxis:
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


def convolution_axes(node: fx.Node) -> tuple[WindowAxis, ...]:
    """Return the spatial axes of an ``aten.convolution`` node."""
    arguments: tuple[Any, ...] = node.args
    image, weight, _, stride, padding, dilation, transposed = arguments[:7]
    inputs = image.meta["val"].shape[2:]
    kernels = weight.meta["val"].shape[2:]
    outputs = node.meta["val"].shape[2:]
    large, small = (outputs, inputs) if transposed else (inputs, outputs)
    return _axes(large, small, kernels, stride, padding, dilation)


def pooling_axes(node: fx.Node) -> tuple[WindowAxis, ...]:
    """Return the spatial axes of an average or maximum pooling node (tuple-valued ones too)."""
    value = node.meta["val"]
    output = value[0] if isinstance(value, tuple | list) else value
    image: torch.Tensor = node.all_input_nodes[0].meta["val"]
    kernel = _listed(node, 1, [])
    n_axes = len(image.shape) - 2 if len(kernel) == 1 else len(kernel)
    stride = _listed(node, 2, []) or kernel
    padding = _listed(node, 3, [0])
    dilation = _listed(node, 4, [1]) if "max" in str(node.target) else [1]
    return _axes(image.shape[-n_axes:], output.shape[-n_axes:], kernel, stride, padding, dilation)


def _listed(node: fx.Node, position: int, default: list[int]) -> list[int]:
    value: Any = node.args[position] if len(node.args) > position else default
    return [int(item) for item in value] if isinstance(value, list | tuple) else [int(value)]


def _axes(large: Sequence[int], small: Sequence[int], *settings: Sequence[int]) -> tuple[WindowAxis, ...]:
    """Zip sizes with kernel, stride, padding and dilation, of which each may be one number for all axes."""
    columns = [list(values) * len(large) if len(values) == 1 else list(values) for values in settings]
    rows = zip(large, small, *columns, strict=True)
    return tuple(WindowAxis(*(int(value) for value in row)) for row in rows)
