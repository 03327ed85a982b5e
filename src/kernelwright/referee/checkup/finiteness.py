"""Is the reference finite on its own inputs and on changed ones, and does it stay in float16's range?"""

from collections.abc import Iterator

import torch

from kernelwright.core.checkup import Flag, Severity
from kernelwright.referee.checkup.subject import CheckedTask
from kernelwright.referee.checkup.tracing import Tap
from kernelwright.referee.checkup.trial import Tensors

HALF_LARGEST = 65504.0


def check_finiteness(subject: CheckedTask) -> Iterator[Flag]:
    """Flag NaN and infinity, which no other check can examine."""
    bad = [trial for trial in subject.own if not trial.is_finite]
    if bad:
        share = max(_share_not_finite(trial.outputs) for trial in bad)
        yield Flag(
            check="not-finite",
            severity=Severity.UNUSABLE,
            says=f"on {len(bad)} of {len(subject.own)} draws of its own inputs the reference gives NaN or "
            f"infinity ({share:.0%} of the elements)",
            advice="keep the values in range: smaller inputs, an eps, a clamp before exp or division",
        )
        return
    skipped = [trial.label for trial in subject.families if not trial.is_finite]
    if skipped:
        yield Flag(
            check="not-finite-elsewhere",
            severity=Severity.NOTE,
            says=f"NaN or infinity on changed inputs: {', '.join(skipped)}",
            advice="nothing to do, but the referee cannot detect shortcuts that fail on these inputs only",
        )
    yield from _half(subject)


def _half(subject: CheckedTask) -> Iterator[Flag]:
    tap = Tap(is_recording=True)
    outputs = subject.rerun(subject.own[0], tap)
    largest = _largest([x for x in outputs if x.is_floating_point()])
    inside = _largest([op.sample.nan_to_num(0, 0, 0) for op in tap.ops if op.is_float])
    if largest > HALF_LARGEST or HALF_LARGEST < inside < torch.finfo(torch.float32).max:
        where = "results" if largest > HALF_LARGEST else "intermediate values"
        yield Flag(
            check="overflows-float16",
            severity=Severity.NOTE,
            says=f"{where} reach {max(largest, inside):.3g}, beyond float16's {HALF_LARGEST:.0f}: "
            "KernelBench in float16 would compare infinity with infinity",
            advice="a speedup in float16 means nothing on this task; float32 and bfloat16 are not affected",
        )


def _largest(values: Tensors) -> float:
    return max((float(x.abs().max()) for x in values if x.numel()), default=0.0)


def _share_not_finite(outputs: Tensors) -> float:
    floats = [x for x in outputs if x.is_floating_point()]
    n_bad = sum(int((~torch.isfinite(x)).sum()) for x in floats)
    return n_bad / max(sum(x.numel() for x in floats), 1)
