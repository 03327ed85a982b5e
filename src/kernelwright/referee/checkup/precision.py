"""Can the tolerances tell a lower precision from the reference, and how exact is float32 itself here?"""

from collections.abc import Iterator

import torch

from kernelwright.core.checkup import Flag, Severity
from kernelwright.referee.checkup.acceptance import NAMES, Fooled, fooled_on_all, raw
from kernelwright.referee.checkup.subject import CheckedTask, clone, tensors_in
from kernelwright.referee.checkup.tracing import Tap
from kernelwright.referee.checkup.trial import State, Tensors, Trial

ILL = 1e-3
"""A task is doubtful when its reference's own rounding makes the allowed scaled error larger than this."""
BITS = {"bfloat16": 7, "TF32": 10, "float16": 10}
"""Lower precision -> explicit bits of its mantissa. float16 also has a narrower range."""


def check_precision(subject: CheckedTask) -> Iterator[Flag]:
    """Flag results that consist of rounding errors, then the coarsest precision that passes."""
    if subject.facts.get("is_constant"):
        return
    allowed = max(_allowed(trial) for trial in subject.own)
    if allowed > ILL:
        yield Flag(
            check="ill-conditioned",
            severity=Severity.DOUBTFUL,
            says=f"the float32 reference differs from float64 by {allowed / 4:.1e} (scaled), so the referee "
            f"must accept any answer within {allowed:.1e}",
            advice="avoid differences of nearly equal numbers, or means that cancel to nothing",
        )
    if all(not x.is_floating_point() for x in subject.own[0].outputs):
        return  # exact results: a lower precision that gives the same ones is as good
    yield from _lower(subject)


def _lower(subject: CheckedTask) -> Iterator[Flag]:
    for name in ("bfloat16", "TF32", "float16"):
        state = {key: rounded(value, name) for key, value in subject.weights.items()}
        who = fooled_on_all(subject.own, (rounded_run(subject, trial, state, name) for trial in subject.own))
        if who < Fooled.KERNELBENCH:
            continue
        is_strict = who is Fooled.STRICT
        yield Flag(
            check="low-precision",
            severity=Severity.DOUBTFUL if is_strict else Severity.NOTE,
            says=f"inputs, weights and every intermediate result rounded to {name} pass {NAMES[who]}",
            advice="give inputs that need float32 (not small integers or few distinct values)"
            if is_strict
            else "nothing to do: the strict tolerance detects this, but KernelBench's figures may come from "
            "a lower precision",
        )
        return


def rounded_run(subject: CheckedTask, trial: Trial, state: State, precision: str) -> Tensors:
    """Return the outputs for rounded weights, inputs and intermediate results; outputs are not rounded."""
    inputs = clone(trial.inputs)
    for tensor in tensors_in(inputs):
        tensor.copy_(rounded(tensor, precision))

    def read(x: torch.Tensor) -> torch.Tensor:
        if any(stride == 0 and size > 1 for stride, size in zip(x.stride(), x.shape, strict=True)):
            return rounded(x, precision)
        return x.copy_(rounded(x, precision))  # in place: some operators write to what they read

    # Rounding the arguments of operators, and not their results, leaves the outputs themselves exact.
    return subject.run(inputs, state, Tap(prepare=read))


def rounded(x: torch.Tensor, precision: str) -> torch.Tensor:
    """Round float32 to nearest even, as the hardware does; other dtypes stay as they are."""
    if x.dtype is not torch.float32:
        return x
    if precision == "float16":
        return x.to(torch.float16).to(torch.float32)
    drop = 23 - BITS[precision]
    whole = x.contiguous().view(torch.int32)
    half = (1 << (drop - 1)) - 1 + ((whole >> drop) & 1)
    kept = ((whole + half) >> drop) << drop
    return torch.where(torch.isfinite(x), kept.view(torch.float32), x)


def _allowed(trial: Trial) -> float:
    pairs = zip(trial.expected, trial.outputs, strict=True)
    return max((e.judge(raw(x)).allowed for e, x in pairs if x.is_floating_point()), default=0.0)
