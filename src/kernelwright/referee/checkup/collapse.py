"""At which operator does the dependence on the inputs get lost, and which results have one value only?"""

from collections.abc import Iterator, Sequence

import torch

from kernelwright.core.checkup import Flag, Severity
from kernelwright.referee.checkup.subject import CheckedTask
from kernelwright.referee.checkup.tracing import Tap, TracedOperator

LOST = 1e-6
"""Relative difference between two draws below which a result counts as the same."""
AT_ONE_VALUE = 0.99
"""A result counts as saturated when at least this share of its elements have one value."""
VANISHING = 1e-4
"""A result this much smaller than its arguments is the remainder of a cancellation."""


def check_collapse(subject: CheckedTask) -> Iterator[Flag]:
    """Flag the operators whose results no longer depend on the inputs."""
    if not subject.has_changing_inputs:
        return
    one, other = (_record(subject, i) for i in (0, 1))
    pairs = [(a, b) for a, b in zip(one, other, strict=False) if a.is_float and a.name == b.name]
    lost = [a for a, b in pairs if _is_lost(a, b)]
    if lost:
        yield _lost(lost, one, is_constant=subject.facts.get("is_near_constant", False))
    if subject.facts.get("is_near_constant"):
        if not lost and (reason := _cancelled(pairs)):
            yield reason
        return
    saturated = [a for a, b in pairs if not _is_lost(a, b) and _is_saturated(a) and _is_saturated(b)]
    if saturated:
        yield _saturated(saturated)


def _record(subject: CheckedTask, draw: int) -> Sequence[TracedOperator]:
    tap = Tap(is_recording=True)
    subject.rerun(subject.own[draw], tap)
    return tap.ops


def _is_lost(one: TracedOperator, other: TracedOperator) -> bool:
    """True when an operator's arguments differ between two draws and its result does not."""
    if not one.sample.numel() or one.sample.shape != other.sample.shape:
        return False
    reads = zip(one.arg_samples, other.arg_samples, strict=False)
    if not any(_relative_gap(a, b) > LOST for a, b in reads if a.shape == b.shape):
        return False
    return _relative_gap(one.sample, other.sample) <= LOST


def _relative_gap(a: torch.Tensor, b: torch.Tensor) -> float:
    scale = float(a.square().mean().sqrt())
    gap = float((a - b).abs().max()) if a.numel() else 0.0
    return 0.0 if gap == 0.0 else gap / scale if scale > 0 else float("inf")


def _lost(lost: Sequence[TracedOperator], ops: Sequence[TracedOperator], *, is_constant: bool) -> Flag:
    op = lost[0]
    values = op.sample
    value = f"always {float(values[0]):.3g}" if bool((values == values[0]).all()) else "always the same"
    before = sum(o.cost_ms for o in ops if o.index < op.index) / max(sum(o.cost_ms for o in ops), 1e-12)
    says = f"the result of operator {op.index + 1} of {len(ops)}, {op.says}, is {value} for any inputs"
    if is_constant:
        says += f"; {before:.0%} of the work comes before it"
    return Flag(
        check="collapsed",
        severity=Severity.DOUBTFUL if is_constant else Severity.NOTE,
        says=says,
        advice="look for a reduction over an axis of size 1, a difference to its own mean, or a clamp that "
        "cuts everything",
    )


def _is_saturated(op: TracedOperator) -> bool:
    """True when nearly all elements have one value although the operator's arguments vary."""
    values = op.sample
    if values.numel() < 16:
        return False
    reads = [x for x in op.arg_samples if x.numel() >= 16]
    if not any(_share_at_mode(x) < AT_ONE_VALUE for x in reads):
        return False
    return _share_at_mode(values) >= AT_ONE_VALUE


def _share_at_mode(values: torch.Tensor) -> float:
    mode = torch.mode(values).values
    return float((values == mode).to(torch.float64).mean())


def _saturated(saturated: Sequence[TracedOperator]) -> Flag:
    op = saturated[0]
    more = f" ({len(saturated) - 1} more operators like it)" if len(saturated) > 1 else ""
    share, mode = _share_at_mode(op.sample), float(torch.mode(op.sample).values)
    return Flag(
        check="saturated",
        severity=Severity.NOTE,
        says=f"{op.says}: {share:.1%} of its values are {mode:.3g}{more}",
        advice="choose inputs or bounds for which the values vary",
    )


def _cancelled(pairs: Sequence[tuple[TracedOperator, TracedOperator]]) -> Flag | None:
    """Flag the operator whose result is smallest compared with its arguments."""

    def shrinkage(op: TracedOperator) -> float:
        largest = max((float(x.abs().max()) for x in op.arg_samples if x.numel()), default=0.0)
        return float(op.sample.abs().max()) / largest if largest > 0 and op.sample.numel() else 1.0

    op = min((a for a, _ in pairs), key=shrinkage, default=None)
    if op is None or shrinkage(op) > VANISHING:
        return None
    return Flag(
        check="cancelled",
        severity=Severity.DOUBTFUL,
        says=f"the result of {op.says} is only {shrinkage(op):.1e} times as large as its arguments",
        advice="a mean after a normalisation over the same elements, or a softmax over very many, leaves "
        "nothing to check",
    )
