"""Which operators could be left out, and whose results do not matter?

An operator is *idle* when its argument can replace its result, and *dead* when noise added to its result does
not change the output. Both are tried on the eager call, operator by operator.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_flatten

from kernelwright.core.checkup import Flag, Severity
from kernelwright.referee.checkup.acceptance import NAMES, Fooled, fooled
from kernelwright.referee.checkup.subject import CheckedTask
from kernelwright.referee.checkup.tracing import Hook, Run, Tap, TracedOperator, first_tensor, with_first
from kernelwright.referee.checkup.trial import Trial

MOST_TRIED = 48
"""Most operators that are tried, the costliest first."""
LEAST_TRIED = 8
MOST_CARRIED_OUT = 50_000
"""Most operators run in all: the number tried times the operators of a call. Long calls try fewer."""
MUCH = 0.3
"""A task is doubtful when useless operators take at least this share of the estimated eager time."""


def check_redundancy(subject: CheckedTask) -> Iterator[Flag]:
    """Flag operators that do nothing and operators whose results do not reach the output."""
    if subject.facts.get("is_near_constant") or subject.facts.get("is_identity"):
        return  # then no operator matters, and that has been said
    tap = Tap(is_recording=True)
    subject.rerun(subject.own[0], tap)
    counted = [op for op in tap.ops if op.is_float]
    tried = sorted(counted, key=lambda op: -op.cost_ms)
    tried = tried[: max(LEAST_TRIED, min(MOST_TRIED, MOST_CARRIED_OUT // max(len(tap.ops), 1)))]
    total = sum(op.cost_ms for op in tap.ops)
    dead = _useless(subject, tried, [_noise(subject, 0.3), _noise(subject, 3.0)])
    idle = _useless(subject, [op for op in tried if op not in dead], [_pass_on])
    if dead:
        yield _flag("dead-operator", "noise added to their results does not change the output", dead, total)
    if idle:
        yield _flag("idle-operator", "their arguments can replace their results", idle, total)


Useless = dict[TracedOperator, tuple[Fooled, bool]]
"""Operator -> the tolerance that accepts its removal on own inputs, and whether it does on every input."""


def _useless(subject: CheckedTask, ops: Sequence[TracedOperator], hooks: Sequence[Hook]) -> Useless:
    found: Useless = {}
    for op in ops:
        who = min(_who(subject, trial, op, hook) for trial in subject.own[:1] for hook in hooks)
        if who >= Fooled.KERNELBENCH:
            who = min(who, *(_who(subject, trial, op, hook) for trial in subject.own[1:] for hook in hooks))
        if who >= Fooled.KERNELBENCH:
            others = [*(t for t in subject.families if t.is_finite), *subject.reweighted]
            everywhere = all(_who(subject, t, op, hook) >= who for t in others for hook in hooks)
            found[op] = (who, everywhere)
    return found


def _who(subject: CheckedTask, trial: Trial, op: TracedOperator, hook: Hook) -> Fooled:
    try:
        return fooled(trial, subject.rerun(trial, Tap(hooks={op.index: hook})))
    except _NothingToPassOn:
        return Fooled.NOBODY
    except Exception:  # the user's own forward, given values it never sees
        return Fooled.NOBODY


class _NothingToPassOn(Exception):
    """No argument can replace the result."""


def _noise(subject: CheckedTask, size: float) -> Hook:
    def add_noise(run: Run, args: tuple[Any, ...]) -> Any:
        result = run()
        value = first_tensor(result)
        given = [x for x in tree_flatten(result)[0] if isinstance(x, torch.Tensor)]
        if value is None or not all(x.is_floating_point() for x in given):
            raise _NothingToPassOn  # values with positions: the positions may be what is used
        generator = torch.Generator().manual_seed(subject.run_seed)
        noise = torch.randn(value.shape, generator=generator).to(value.dtype)
        scale = float(value.nan_to_num(0, 0, 0).square().mean().sqrt()) or 1.0
        return with_first(result, value + noise * (size * scale))

    return add_noise


def _pass_on(run: Run, args: tuple[Any, ...]) -> Any:
    """Replace the result by the first argument with as many elements."""
    tensors = [x.clone() for x in tree_flatten(args)[0] if isinstance(x, torch.Tensor)]
    result = run()
    value = first_tensor(result)
    if value is None:
        raise _NothingToPassOn
    fitting = [x for x in tensors if x.numel() == value.numel() and x.is_floating_point()]
    if not fitting:
        raise _NothingToPassOn
    return with_first(result, fitting[0])


def _flag(check: str, how: str, found: Useless, total: float) -> Flag:
    who = min(fooled_by for fooled_by, _ in found.values())
    share = sum(op.cost_ms for op in found) / max(total, 1e-12)
    always = [op for op, (_, everywhere) in found.items() if everywhere]
    ordered = sorted(found, key=lambda op: op.index)
    more = f" and {len(ordered) - 3} more" if len(ordered) > 3 else ""
    names = ", ".join(op.says for op in ordered[:3]) + more
    where = "on every input tried" if len(always) == len(found) else "on the task's own inputs"
    if 0 < len(always) < len(found):
        where += f", {len(always)} of them on every input tried"
    is_much = share >= MUCH
    return Flag(
        check=check,
        severity=Severity.DOUBTFUL if is_much else Severity.NOTE,
        says=f"{names}: {how}, {where} (by {NAMES[who]}); {share:.0%} of the estimated eager time",
        advice="a speedup may come from leaving them out; remove them, or give inputs on which they matter",
    )
