"""One run of the reference, with all that other answers are compared with."""

from dataclasses import dataclass
from typing import Any

import torch

from kernelwright.referee.checks.tolerance import ExpectedOutput

Tensors = list[torch.Tensor]
State = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Trial:
    """One set of inputs on one set of weights, with the outputs of reference and oracle."""

    label: str
    """Name in messages: ``own``, ``negated``, ``changed weights`` ..."""
    inputs: list[Any]
    state: State
    outputs: Tensors
    truth: Tensors
    """The outputs in float64."""
    expected: tuple[ExpectedOutput, ...]

    @property
    def is_finite(self) -> bool:
        """True when reference and oracle hold neither NaN nor infinity."""
        return all(torch.isfinite(t).all() for t in [*self.outputs, *self.truth] if t.is_floating_point())
