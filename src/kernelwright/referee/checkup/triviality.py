"""Would the tolerances accept an answer that computes nothing?

Tries zeros, one constant, the output for other inputs, an input itself, and one slice of the output repeated.
Each is tried on the task's own inputs, as KernelBench does, and on the changed inputs that the referee uses
too.
"""

from collections.abc import Callable, Iterator, Sequence

import torch

from kernelwright.core.checkup import Flag, Severity
from kernelwright.referee.checkup.acceptance import (
    KERNELBENCH,
    KERNELBENCH_HALF,
    NAMES,
    SEVERITY,
    Fooled,
    fooled_on_all,
)
from kernelwright.referee.checkup.subject import CheckedTask, tensors_in
from kernelwright.referee.checkup.trial import Tensors, Trial

Answer = Callable[[Trial], Sequence[torch.Tensor] | None]
"""Function that returns an answer for a trial; None where there is no such answer."""
STRONGER = "give inputs on which the result varies (signed, wider, smaller reductions), or leave the task out"


def check_triviality(subject: CheckedTask) -> Iterator[Flag]:
    """Flag outputs that do not depend on the inputs, and then answers that use them trivially."""
    if not subject.has_changing_inputs:
        yield Flag(
            check="fixed-inputs",
            severity=Severity.DOUBTFUL,
            says="get_inputs() returns the same values on every call: a stored answer passes any check that "
            "draws no other inputs",
            advice="draw inputs at random; the referee also judges on changed ones",
        )
    constant = list(_constants(subject))
    yield from constant
    subject.facts["is_constant"] = any(flag.severity is Severity.UNUSABLE for flag in constant)
    subject.facts["is_near_constant"] = any(flag.severity is not Severity.NOTE for flag in constant)
    if not subject.facts["is_near_constant"]:
        same = list(_inputs_as_answer(subject))
        yield from same
        subject.facts["is_identity"] = any(flag.severity is not Severity.NOTE for flag in same)
        yield from _slices(subject)


def _constants(subject: CheckedTask) -> Iterator[Flag]:
    """Yield one flag when a tolerance accepts zeros, a constant, or the output for other inputs."""
    first, others = subject.own[0], subject.own[1:]
    tried: list[tuple[str, Answer]] = [("zeros", lambda trial: [torch.zeros_like(x) for x in trial.outputs])]
    for tolerance in (KERNELBENCH, KERNELBENCH_HALF):
        tried.append(("one constant", _constant_answer(first, tolerance)))
    if subject.has_changing_inputs:
        tried.append(("the output for other inputs", lambda trial: first.outputs))
    passed: dict[str, Fooled] = {}
    for name, answer in tried:
        trials = subject.own if name == "zeros" else others
        who = fooled_on_all(trials, [answer(trial) for trial in trials])
        passed[name] = max(who, passed.get(name, Fooled.NOBODY))
    worst = max(passed.values())
    if worst is Fooled.NOBODY:
        return
    names = [name for name, who in passed.items() if who is worst]
    if worst is Fooled.STRICT:
        check, how = "constant-output", "the output does not depend on the inputs"
    else:
        check, how = "near-constant-output", "the output hardly depends on the inputs"
    gap = f"{_largest_gap(subject):.1e}"
    spread = f"values {_range(first.outputs)}, at most {gap} apart between two draws"
    shown = _shown_by(subject, first) if worst is Fooled.STRICT else ""
    yield Flag(
        check=check,
        severity=SEVERITY[worst],
        says=f"{how} ({spread}): {' and '.join(names)} would pass {NAMES[worst]}{shown}",
        advice=STRONGER,
    )


def _constant_answer(trial: Trial, tolerance: float) -> Answer:
    """Answer with the constant that is closest to all elements of a trial's output."""
    constants = [_best_constant(output, tolerance) for output in trial.outputs]
    return lambda other: [_filled(x, constant) for x, constant in zip(other.outputs, constants, strict=True)]


def _filled(x: torch.Tensor, constant: float) -> torch.Tensor:
    is_exact = not (x.is_floating_point() or x.is_complex())
    return torch.full_like(x, round(constant) if is_exact else constant)


def _best_constant(output: torch.Tensor, tolerance: float) -> float:
    """Return the middle of the interval that every element's tolerance allows; the mean if it is empty."""
    if output.numel() == 0 or output.is_complex():
        return 0.0
    wide = output.to(torch.float64)
    slack = tolerance + tolerance * wide.abs()
    low, high = float((wide - slack).max()), float((wide + slack).min())
    return (low + high) / 2 if low <= high else float(wide.mean())


def _shown_by(subject: CheckedTask, first: Trial) -> str:
    """Say on which changed inputs or weights the output differs; empty when none were tried."""
    tried = [*[t for t in subject.families if t.is_finite], *subject.reweighted]
    shown = [
        trial.label
        for trial in tried
        if fooled_on_all([trial], [subject.own[0].outputs]) is not Fooled.STRICT
        and not _follows_weights_only(subject, trial, first)
    ]
    if not tried:
        return ""
    return f"; only {', '.join(shown)} would expose this" if shown else "; changed inputs do not expose this"


def _follows_weights_only(subject: CheckedTask, trial: Trial, first: Trial) -> bool:
    """True when another draw of inputs on a trial's weights gives the trial's output too."""
    if trial.state is first.state:
        return False
    other = subject.make_trial(trial.label, first.inputs, trial.state)
    return fooled_on_all([trial], [other.outputs]) is Fooled.STRICT


def _inputs_as_answer(subject: CheckedTask) -> Iterator[Flag]:
    """Flag a task whose output is one of its inputs."""
    if len(subject.own[0].outputs) != 1:
        return
    for position in range(len(tensors_in(subject.own[0].inputs))):
        who = fooled_on_all(subject.own, [_input_as_answer(trial, position) for trial in subject.own])
        if who is Fooled.NOBODY:
            continue
        answers = [_input_as_answer(trial, position) for trial in subject.judged]
        everywhere = fooled_on_all(subject.judged, answers)
        on_all = everywhere is Fooled.STRICT
        severity = Severity.UNUSABLE if on_all else min(SEVERITY[who], Severity.DOUBTFUL, key=_mildness)
        where = "on every input tried" if on_all else "on the task's own inputs; changed ones expose this"
        yield Flag(
            check="identity",
            severity=severity,
            says=f"input {position} returned unchanged passes {NAMES[who]} {where}",
            advice="use signed inputs (randn), or leave the task out",
        )


def _mildness(severity: Severity) -> int:
    return -list(Severity).index(severity)


def _input_as_answer(trial: Trial, position: int) -> Tensors | None:
    value, output = tensors_in(trial.inputs)[position], trial.outputs[0]
    fits = value.numel() == output.numel() and value.dtype == output.dtype
    return [value.reshape(output.shape)] if fits else None


def _slices(subject: CheckedTask) -> Iterator[Flag]:
    """Flag an output that is constant along an axis."""
    shape = subject.own[0].outputs[0].shape
    for axis, size in enumerate(shape):
        if size < 2:
            continue
        trials = subject.own
        answers = [[_repeated(x, axis) for x in trial.outputs] for trial in trials]
        who = fooled_on_all(trials, answers)
        if who < Fooled.KERNELBENCH:
            continue
        yield Flag(
            check="uniform-axis",
            severity=Severity.DOUBTFUL,
            says=f"the output is constant along axis {axis} (length {size}): its first slice repeated "
            f"passes {NAMES[who]}",
            advice=f"computing one slice of {size} would be enough; give inputs that vary along this axis",
        )


def _repeated(x: torch.Tensor, axis: int) -> torch.Tensor:
    return x.narrow(axis, 0, 1).expand_as(x) if x.dim() > axis and x.shape[axis] else x


def _largest_gap(subject: CheckedTask) -> float:
    one, other = subject.own[0].outputs, subject.own[1].outputs
    gaps = [(a.to(torch.float64) - b.to(torch.float64)).abs() for a, b in zip(one, other, strict=True)]
    return max((float(gap.max()) for gap in gaps if gap.numel()), default=0.0)


def _range(outputs: Tensors) -> str:
    values = [x for x in outputs if x.numel() and not x.is_complex()]
    if not values:
        return "none"
    low, high = min(float(x.min()) for x in values), max(float(x.max()) for x in values)
    return f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"
