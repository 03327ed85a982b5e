"""Which tolerances would accept an answer: our strict one, and KernelBench's ``allclose``."""

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Any

import numpy as np
import torch

from kernelwright.core.checkup import Severity
from kernelwright.core.task import TolerancePolicy
from kernelwright.referee.checks.tolerance import ExpectedOutput, is_float
from kernelwright.referee.checkup.trial import Trial

KERNELBENCH = 1e-4
"""Absolute and relative tolerance of KernelBench at 423217d for float32."""
KERNELBENCH_HALF = 1e-2
"""The same for float16 and bfloat16; before version 0.2 KernelBench used it for every dtype."""


class Fooled(IntEnum):
    """The strictest tolerance that accepts an answer."""

    NOBODY = 0
    LOOSE = 1
    """``allclose`` at 1e-2."""
    KERNELBENCH = 2
    """``allclose`` at 1e-4."""
    STRICT = 3
    """Our default tolerance."""


NAMES = {
    Fooled.LOOSE: "KernelBench's tolerance for half precision (1e-2)",
    Fooled.KERNELBENCH: "KernelBench's tolerance (1e-4)",
    Fooled.STRICT: "the strict tolerance",
}
SEVERITY = {
    Fooled.LOOSE: Severity.NOTE,
    Fooled.KERNELBENCH: Severity.DOUBTFUL,
    Fooled.STRICT: Severity.UNUSABLE,
}


def expect(
    outputs: torch.Tensor, truth: torch.Tensor, policy: TolerancePolicy, inputs_per_output: float
) -> ExpectedOutput:
    """Return what an output must be close to, as the referee computes it."""
    dtype = str(outputs.dtype).removeprefix("torch.")
    wide = truth.to(torch.complex128 if outputs.is_complex() else torch.float64)
    oracle = wide if is_float(dtype) else truth.to(outputs.dtype)
    return ExpectedOutput(
        dtype, raw(outputs), raw(oracle), policy=policy, inputs_per_output=inputs_per_output
    )


def raw(tensor: torch.Tensor) -> np.ndarray[Any, np.dtype[Any]]:
    """Return a tensor's row-major bytes."""
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy()


def fooled(trial: Trial, answers: Sequence[torch.Tensor]) -> Fooled:
    """Return the strictest tolerance that accepts answers as a trial's outputs; their shapes must agree."""
    if len(answers) != len(trial.outputs):
        return Fooled.NOBODY
    return min((_fooled_by(trial, i, answer) for i, answer in enumerate(answers)), default=Fooled.NOBODY)


def fooled_on_all(trials: Sequence[Trial], answers: Iterable[Sequence[torch.Tensor] | None]) -> Fooled:
    """Return the strictest tolerance that accepts every trial's answers; NOBODY when a trial has no answer.

    Stops asking for answers as soon as no tolerance accepts them.
    """
    worst = Fooled.STRICT if trials else Fooled.NOBODY
    for trial, answer in zip(trials, answers, strict=False):
        worst = min(worst, Fooled.NOBODY if answer is None else fooled(trial, answer))
        if worst is Fooled.NOBODY:
            break
    return worst


def is_close(reference: torch.Tensor, answer: torch.Tensor, tolerance: float) -> bool:
    """Compare as KernelBench does: relative to the answer, infinity equal to infinity."""
    wide = torch.complex128 if reference.is_complex() else torch.float64
    return torch.allclose(reference.to(wide), answer.to(wide), rtol=tolerance, atol=tolerance)


def _fooled_by(trial: Trial, position: int, answer: torch.Tensor) -> Fooled:
    output = trial.outputs[position]
    if answer.shape != output.shape:
        return Fooled.NOBODY
    if trial.expected[position].judge(raw(answer.to(output.dtype))).is_close:
        return Fooled.STRICT
    if is_close(output, answer, KERNELBENCH):
        return Fooled.KERNELBENCH
    return Fooled.LOOSE if is_close(output, answer, KERNELBENCH_HALF) else Fooled.NOBODY
