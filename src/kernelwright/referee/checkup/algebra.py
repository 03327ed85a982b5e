"""Can algebra make the heaviest operator small, such as a matrix product whose outputs are only summed?"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from kernelwright.core.checkup import Flag, Severity
from kernelwright.referee.checkup.acceptance import Fooled, fooled
from kernelwright.referee.checkup.subject import CheckedTask
from kernelwright.referee.checkup.tracing import Hook, Run, Tap, TracedOperator, first_tensor, with_first

HEAVY = 0.5
"""Least share of the estimated eager time of an operator that this check examines."""
SMALLER = 4
"""A reduction counts when it leaves at least this many times fewer elements."""
LINEAR = 1e-3
"""Largest relative deviation from additivity that float32 rounding explains."""
AHEAD = 12
"""Number of operators after the heavy one that are examined."""


def check_algebra(subject: CheckedTask) -> Iterator[Flag]:
    """Flag a heavy linear operator whose result is only used through a linear reduction."""
    if subject.facts.get("is_near_constant"):
        return
    plain = _record(subject, {})
    heavy = max((op for op in plain if op.flops), key=lambda op: op.cost_ms, default=None)
    if heavy is None or heavy.cost_ms < HEAVY * sum(op.cost_ms for op in plain):
        return
    if not _is_linear(subject, heavy):
        return
    cut = next(iter(_linear_cuts(subject, heavy, plain)), None)
    if cut is not None:
        size = _numel(heavy) // max(_numel(cut), 1)
        yield Flag(
            check="algebra",
            severity=Severity.NOTE,
            says=f"the result of {heavy.says} is used only through {cut.says}, which is linear in it and "
            f"{size} times smaller: the reduction can be done first",
            advice="count a speedup from this as algebra, not as a faster kernel",
        )


def _linear_cuts(
    subject: CheckedTask, heavy: TracedOperator, plain: Sequence[TracedOperator]
) -> Iterator[TracedOperator]:
    """Yield later operators that are linear in the heavy one's result, far smaller, and its only use."""
    a, b = _shift(subject, 1), _shift(subject, 2)
    runs = [_record(subject, {heavy.index: hook}) for hook in (a, b, _both(a, b))]
    later = [op for op in plain if heavy.index < op.index <= heavy.index + AHEAD]
    for op in later:
        is_small = op.is_float and _numel(op) * SMALLER <= _numel(heavy)
        if is_small and _is_additive(op, runs) and _is_all_that_sees(subject, heavy, op, a):
            yield op


def _is_additive(op: TracedOperator, runs: Sequence[Sequence[TracedOperator]]) -> bool:
    if any(len(run) <= op.index for run in runs):
        return False
    plain, (one, two, both) = op.sample, (run[op.index].sample for run in runs)
    if not plain.numel() or any(x.shape != plain.shape for x in (one, two, both)):
        return False
    moved = float((one - plain).abs().max())
    return moved > 0 and float((both - one - two + plain).abs().max()) <= LINEAR * moved


def _is_linear(subject: CheckedTask, op: TracedOperator) -> bool:
    """True when an operator is affine in its largest argument."""
    found: dict[str, torch.Tensor] = {}

    def scaled(factor: float) -> Hook:
        def hook(run: Run, args: tuple[Any, ...]) -> Any:
            position = max(range(len(args)), key=lambda i: _size_of(args[i]))
            original = args[position].clone()
            args[position].mul_(factor)
            try:
                result = run()
            finally:
                args[position].copy_(original)
            value = first_tensor(result)
            if value is not None:
                found[str(factor)] = value.to(torch.float64).clone()
            return result

        return hook

    for factor in (0.0, 1.0, 2.0):
        try:
            subject.rerun(subject.own[0], Tap(hooks={op.index: scaled(factor)}))
        except Exception:  # a view that cannot be written to, or values that forward does not take
            return False
    if len(found) < 3:
        return False
    zero, one, two = found["0.0"], found["1.0"], found["2.0"]
    moved = float((one - zero).abs().max())
    return moved > 0 and float((two - 2 * one + zero).abs().max()) <= LINEAR * moved


def _is_all_that_sees(subject: CheckedTask, heavy: TracedOperator, cut: TracedOperator, shift: Hook) -> bool:
    """True when the heavy result reaches the output through the cut only.

    Changes the heavy result, restores the cut's result, and sees whether the output stays the same.
    """
    kept: list[torch.Tensor] = []

    def remember(run: Run, args: tuple[Any, ...]) -> Any:
        result = run()
        value = first_tensor(result)
        if value is not None:
            kept.append(value.clone())
        return result

    subject.rerun(subject.own[0], Tap(hooks={cut.index: remember}))
    if not kept:
        return False

    def restore(run: Run, args: tuple[Any, ...]) -> Any:
        return with_first(run(), kept[0])

    outputs = subject.rerun(subject.own[0], Tap(hooks={heavy.index: shift, cut.index: restore}))
    return fooled(subject.own[0], outputs) is Fooled.STRICT


def _shift(subject: CheckedTask, salt: int) -> Hook:
    def shift(run: Run, args: tuple[Any, ...]) -> Any:
        result = run()
        value = first_tensor(result)
        assert value is not None
        generator = torch.Generator().manual_seed(subject.run_seed + salt)
        scale = float(value.square().mean().sqrt()) or 1.0
        # All of one sign: a sum over very many elements must move by more than it rounds.
        moved = scale * torch.rand(value.shape, generator=generator).to(value.dtype)
        return with_first(result, value + moved)

    return shift


def _both(one: Hook, other: Hook) -> Hook:
    def both(run: Run, args: tuple[Any, ...]) -> Any:
        plain = run()
        value = first_tensor(plain)
        assert value is not None
        base = value.clone()
        added = _given(one, base, args) + _given(other, base, args) - base
        return with_first(plain, added)

    return both


def _given(hook: Hook, value: torch.Tensor, args: tuple[Any, ...]) -> torch.Tensor:
    result = first_tensor(hook(value.clone, args))
    assert result is not None
    return result


def _record(subject: CheckedTask, hooks: dict[int, Hook]) -> Sequence[TracedOperator]:
    tap = Tap(hooks=hooks, is_recording=True)
    subject.rerun(subject.own[0], tap)
    return tap.ops


def _numel(op: TracedOperator) -> int:
    return int(torch.Size(op.shape).numel())


def _size_of(value: Any) -> int:
    return value.numel() if isinstance(value, torch.Tensor) else 0
