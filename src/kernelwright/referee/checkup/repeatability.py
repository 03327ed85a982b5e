"""Does the reference give the same result twice, and what does it keep between calls?"""

from collections.abc import Iterator

import torch

from kernelwright.core.checkup import Flag, Severity
from kernelwright.referee.checks.tolerance import distance_between
from kernelwright.referee.checkup.acceptance import is_close, raw
from kernelwright.referee.checkup.subject import CheckedTask, clone, outputs_of
from kernelwright.referee.checkup.trial import State, Tensors

NOISE = 1e-4
"""Largest scaled difference of two runs that thread order may explain; the referee uses the same limit."""
USE_EVAL = 'use eval mode (`--mode eval` or MODE = "eval"), or a fixed mask as an input'


def check_repeatability(subject: CheckedTask) -> Iterator[Flag]:
    """Flag random results, results that are not reproducible, and state that calls change."""
    first = subject.own[0]
    again = subject.run(first.inputs, first.state)
    gap = _gap(first.outputs, again)
    if gap > NOISE:
        yield Flag(
            check="not-reproducible",
            severity=Severity.UNUSABLE,
            says=f"two calls on the same inputs, weights and random state differ by {gap:.1e}",
            advice="remove what depends on thread order or uninitialised memory; no kernel can match it",
        )
        return
    yield from _random(subject, first.outputs)
    yield from _state(subject)


def _random(subject: CheckedTask, outputs: Tensors) -> Iterator[Flag]:
    trial = subject.own[0]
    other = subject.run(trial.inputs, trial.state, seed=subject.new_seed())
    gap = _gap(outputs, other)
    if gap > NOISE:
        passes = all(is_close(a, b, NOISE) for a, b in zip(outputs, other, strict=True))
        yield Flag(
            check="random",
            severity=Severity.UNUSABLE,
            says=f"random: two calls on the same inputs and weights differ by {gap:.1e} (scaled)"
            + ("" if passes else "; in KernelBench the reference fails against itself"),
            advice=f"dropout in train mode, or another random draw in forward: {USE_EVAL}",
        )
    elif _draws_random_numbers(subject):
        yield Flag(
            check="random-unseen",
            severity=Severity.DOUBTFUL,
            says="forward draws random numbers, but the result does not depend on them",
            advice=f"dropout in train mode whose effect is lost: {USE_EVAL}",
        )


def _draws_random_numbers(subject: CheckedTask) -> bool:
    trial = subject.own[0]
    subject.load(trial.state)
    torch.manual_seed(subject.run_seed)
    before = torch.get_rng_state()
    subject.model(*clone(trial.inputs))
    return not torch.equal(before, torch.get_rng_state())


def _state(subject: CheckedTask) -> Iterator[Flag]:
    """Flag buffers that forward changes, and results that depend on the calls before."""
    trial = subject.own[0]
    subject.load(trial.state)
    torch.manual_seed(subject.run_seed)
    subject.model(*clone(trial.inputs))
    changed = _changed(trial.state, subject)
    torch.manual_seed(subject.run_seed)
    second = outputs_of(subject.model(*clone(trial.inputs)))
    gap = _gap(trial.outputs, second)
    if gap > NOISE:
        yield Flag(
            check="remembers-calls",
            severity=Severity.UNUSABLE,
            says=f"a second call on the same inputs differs by {gap:.1e}: forward keeps state between calls",
            advice="take the state as an input and return the new one",
        )
    elif changed:
        names = ", ".join(changed[:3]) + (" ..." if len(changed) > 3 else "")
        yield Flag(
            check="updates-buffers",
            severity=Severity.NOTE,
            says=f"forward writes {len(changed)} buffer(s) in train mode: {names}",
            advice="every kernel has to write them too; in eval mode the same module can be much cheaper",
        )


def _changed(state: State, subject: CheckedTask) -> list[str]:
    own = subject.model.state_dict()
    return [name for name, value in state.items() if not torch.equal(own[name], value)]


def _gap(one: Tensors, other: Tensors) -> float:
    pairs = zip(one, other, strict=True)
    return max(
        float("inf") if a.shape != b.shape else distance_between(str(a.dtype)[6:], raw(a), raw(b))
        for a, b in pairs
    )
