"""Which inputs and parameters never reach the output?"""

from collections.abc import Iterator, Sequence

import torch

from kernelwright.core.checkup import Flag, Severity
from kernelwright.referee.checkup.acceptance import NAMES, Fooled, fooled, fooled_on_all
from kernelwright.referee.checkup.subject import CheckedTask, replaced, tensors_in
from kernelwright.referee.checkup.trial import Tensors, Trial
from kernelwright.referee.host.input_distributions import change_inputs

MANY = 0.5
"""A task is doubtful when at least this share of all parameter elements is dead."""
MOST_TRIED = 60
"""Number of parameters tried, largest first: networks have hundreds, and an unused layer is among these."""


def check_deadness(subject: CheckedTask) -> Iterator[Flag]:
    """Flag inputs and parameters that can be drawn again without a change of the output."""
    if subject.facts.get("is_constant"):
        return
    yield from _inputs(subject)
    yield from _parameters(subject)


def _inputs(subject: CheckedTask) -> Iterator[Flag]:
    count = len(tensors_in(subject.own[0].inputs))
    if count < 2:
        return
    for position in range(count):
        trials = subject.judged
        who = fooled_on_all(trials, (_with_input_replaced(subject, t, position) for t in trials))
        if who < Fooled.KERNELBENCH:
            continue
        shape = "x".join(map(str, tensors_in(trials[0].inputs)[position].shape))
        yield Flag(
            check="dead-input",
            severity=Severity.DOUBTFUL if who is Fooled.STRICT else Severity.NOTE,
            says=f"input {position} ({shape}) does not matter: with other values in it the result still "
            f"passes {NAMES[who]}",
            advice="remove it, or choose inputs for which it matters",
        )


def _with_input_replaced(subject: CheckedTask, trial: Trial, position: int) -> Tensors | None:
    """Run a trial with one input drawn again; None where no other values exist or the reference raises."""
    old = tensors_in(trial.inputs)[position]
    donor = tensors_in(subject.draw())[position]
    if torch.equal(donor, old):
        donor = _changed(donor, subject.new_seed())
    if torch.equal(donor, old):
        return None
    try:
        return subject.run(replaced(trial.inputs, position, lambda _: donor), trial.state)
    except Exception:  # the user's own forward: an input whose values make it raise is not dead
        return None


def _changed(x: torch.Tensor, seed: int) -> torch.Tensor:
    """Return other values for an input that is the same in every draw, such as a mask."""
    if x.is_floating_point():
        other = x.clone()
        change_inputs(other, "heavy_tail", 0, torch.Generator().manual_seed(seed))
        return other
    return ~x if x.dtype is torch.bool else x.reshape(-1).flip(0).reshape(x.shape)


def _parameters(subject: CheckedTask) -> Iterator[Flag]:
    floats = [name for name in subject.parameters if subject.weights[name].is_floating_point()]
    sizes = {name: subject.weights[name].numel() for name in floats}
    tried = sorted(sizes, key=lambda name: -sizes[name])[:MOST_TRIED]
    found: dict[Fooled, list[str]] = {Fooled.STRICT: [], Fooled.KERNELBENCH: []}
    for name in tried:
        who = _fooled_by_other_parameter(subject, name)
        if who in found:
            found[who].append(name)
    for who, names in found.items():
        share = sum(sizes[name] for name in names) / max(sum(sizes.values()), 1)
        if names:
            yield _dead_parameters(names, share, who)


def _fooled_by_other_parameter(subject: CheckedTask, name: str) -> Fooled:
    """Return the strictest tolerance that accepts the output with one parameter drawn again."""
    trials: Sequence[Trial] = (subject.own[0], *subject.reweighted)
    worst = Fooled.STRICT
    for trial in trials:
        state = subject.moved_weights("signed", [name], trial.state)
        worst = min(worst, fooled(trial, subject.run(trial.inputs, state)))
        if worst < Fooled.KERNELBENCH:
            break
    return worst


def _dead_parameters(names: Sequence[str], share: float, who: Fooled) -> Flag:
    shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
    is_much = share >= MANY and who is Fooled.STRICT
    return Flag(
        check="dead-parameter",
        severity=Severity.DOUBTFUL if is_much else Severity.NOTE,
        says=f"{shown} ({share:.0%} of all parameters) do not matter: when they are drawn again, the result "
        f"still passes {NAMES[who]}",
        advice="a speedup may come from leaving them out; remove them, or let them reach the output"
        if is_much
        else "a kernel may leave out the computations that use them",
    )
