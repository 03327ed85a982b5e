"""How a run ended, in plain words."""

from dataclasses import dataclass
from typing import Literal

from kernelwright.core.evaluation import POLICY_CHECKS, Evaluation
from kernelwright.core.events import ModelTakenApart, RunFinished
from kernelwright.report.blocks import composition_lines
from kernelwright.report.measures import (
    RatioInterval,
    floor_ms,
    latency_ms,
    millis,
    speedup_of,
    speedup_over,
    times,
    ways_timed,
)
from kernelwright.report.story import Story

Tone = Literal["good", "neutral", "bad"]


@dataclass(frozen=True)
class Verdict:
    """A headline and lines that can each be read alone."""

    tone: Tone
    headline: str
    lines: tuple[str, ...]


def run_verdict(story: Story, failure: str | None = None) -> Verdict:
    """Return the verdict on a finished, failed or unfinished run."""
    if failure is not None:
        return Verdict("bad", "The run failed", (failure,))
    if story.finished is None:
        headline = "Interrupted; not measured again" if story.interrupted else "The run has not ended"
        return Verdict("neutral", headline, (*_unfinished_lines(story), *_compiler(story)))
    evaluation = story.finished.evaluation
    why = f"The search ended because {_because(story.finished.reason)}."
    if story.apart is not None:
        return _model_verdict(story, story.apart, story.finished)
    if story.finished.winner is None:
        if evaluation is None and story.best is not None:
            return Verdict("neutral", _late("module"), (*_late_lines(story), *_compiler(story), why))
        measured = f"{len(story.evaluated)} candidates were measured; none is faster than the module."
        lines = (measured, *_not_delivered(evaluation), *_compiler(story), why)
        return Verdict("neutral", _unchanged_headline(story), lines)
    if evaluation is None or not evaluation.is_verified:
        told = ("no final evaluation",) if evaluation is None else _failure(evaluation)
        lines = (*told, *_compiler(story), why)
        return Verdict("bad", "The winner did not pass its final evaluation", lines)
    speedup = speedup_over(evaluation, "eager")
    lines = (*figures(evaluation), *_finalists(story), *_rules(evaluation), *_compiler(story), why)
    return Verdict("good", _headline(speedup), lines)


def _model_verdict(story: Story, apart: ModelTakenApart, finished: RunFinished) -> Verdict:
    """Return the verdict on a whole model."""
    how = composition_lines(apart, finished.winner)
    evaluation = finished.evaluation
    if finished.winner is not None and evaluation is not None:
        lines = (*how, *figures(evaluation), *_finalists(story), *_rules(evaluation))
        return Verdict("good", _headline(speedup_over(evaluation, "eager")), lines)
    if evaluation is None and story.best is not None:
        return Verdict("neutral", _late("model"), (*how, *_late_lines(story)))
    measured = () if evaluation is None or not evaluation.is_verified else figures(evaluation)
    failed = (failed_line(evaluation),) if evaluation is not None and not evaluation.is_verified else ()
    over = None if evaluation is None else speedup_over(evaluation, "torch_compile")
    compiled = ("torch.compile of the whole model is faster than it with kernels.",)
    said = compiled if over is not None and over.is_slower else ()
    headline = "The model stays as it is: with kernels it is not faster than eager and torch.compile"
    return Verdict("neutral", headline, (*how, *said, *measured, *failed))


def _late(what: str) -> str:
    """Return the headline where the seconds ended before a final measurement."""
    return f"Out of time before the final measurement: the {what} stays as it is"


def _late_lines(story: Story) -> tuple[str, ...]:
    return (*_unfinished_lines(story), "Allow more seconds for a final measurement.")


def _not_delivered(evaluation: Evaluation | None) -> tuple[str, ...]:
    """Say why the last finalist is not delivered, where the search alone does not tell."""
    if evaluation is None:
        return ()
    if not evaluation.is_verified:
        return (f"The last finalist: {failed_line(evaluation)}.",)
    if not evaluation.ordinary:
        return ()
    ways = {words: speedup_of(results, "eager") for words, results in ways_timed(evaluation).items()}
    told = [f"{speedup}{' ' + words if words else ''}" for words, speedup in ways.items() if speedup]
    return (
        f"In an ordinary process the last finalist is no faster everywhere, so it is not delivered: "
        f"{', '.join(told)}.",
    )


def _finalists(story: Story) -> tuple[str, ...]:
    """Return one line about the choice among the fastest candidates, with every ratio and its interval."""
    return () if story.finalists is None else (f"Finalists: {story.finalists.reason}.",)


def _unchanged_headline(story: Story) -> str:
    """Return the headline for an unchanged module, with the reason where the compiler could not work."""
    if story.prepared is not None and story.prepared.capture_error:
        return "Not captured, so nothing was tried: the module stays as it is"
    if story.given_up:
        return "Nothing faster found, but the compiler gave up: the module stays as it is"
    return "Nothing faster found: the module stays as it is"


def _compiler(story: Story) -> tuple[str, ...]:
    """Return one line for each workload on which the compiler gave up, with the reason."""
    return tuple(
        f"The compiler gave up on workload {told.workload}: {told.reason}. "
        + (
            "All of it runs through torch."
            if told.candidate is None
            else "That candidate runs through torch."
        )
        for told in story.given_up
    )


def evaluation_verdict(evaluation: Evaluation) -> Verdict:
    """Return the referee's verdict on one kernel in words."""
    if not evaluation.is_verified:
        return Verdict("bad", "Not verified", _failure(evaluation))
    speedup = speedup_over(evaluation, "eager")
    return Verdict("good", _headline(speedup), (*figures(evaluation), *_rules(evaluation)))


def _failure(evaluation: Evaluation) -> tuple[str, ...]:
    """Return lines that say at which stage the kernel failed and which check found it."""
    check = evaluation.check
    found = () if check is None else (f"Found by: {check.replace('_', ' ')}.",)
    return failed_line(evaluation), *found, *_rules(evaluation), *_library_line(evaluation)


def _rules(evaluation: Evaluation) -> tuple[str, ...]:
    """Return a line with the policy and the sandbox of the evaluation."""
    policy = evaluation.policy
    if policy is None:
        return ()
    precision = "" if policy.precision is None else f"precision {policy.precision}, "
    sandbox = "" if evaluation.sandbox is None else f"; sandbox {evaluation.sandbox}"
    memory = f", peak memory up to {policy.peak_memory:g} times" if evaluation.ordinary else ""
    return (
        f"Policy: {precision}library calls {policy.library_calls}, "
        f"{policy.weights.words}, {policy.nonfinite.words}{memory}{sandbox}.",
    )


def _library_line(evaluation: Evaluation) -> tuple[str, ...]:
    if not evaluation.library_calls:
        return ()
    named = ", ".join(f"{name} ({count})" for name, count in evaluation.library_calls.items())
    return (f"Library calls in one call: {named}.",)


def figures(evaluation: Evaluation) -> tuple[str, ...]:
    """Return one line for each comparison that was measured, and one for the roofline floor."""
    lines = []
    for name, label in (("eager", "eager"), ("torch_compile", "torch.compile")):
        speedup = speedup_over(evaluation, name)
        if speedup is not None:
            lines.append(f"{speedup} over {label}{_caveat(speedup)}.")
    lines += [*_ordinary_lines(evaluation), *_floor_line(evaluation)]
    for result in evaluation.told if len(evaluation.told) > 1 else ():
        eager = result.speedup("eager")
        shown = f", {times(eager.ratio)} over eager" if eager else ""
        lines.append(f"Workload {result.workload}: {millis(result.candidate.median_ms)}{shown}.")
    return (*lines, *_library_line(evaluation))


def _ordinary_lines(evaluation: Evaluation) -> list[str]:
    """Say what was timed in an ordinary process, how the other timings came out, and the peak memory."""
    if not evaluation.ordinary:
        return []
    is_module = all(one.timed == "module" for one in evaluation.ordinary)
    what = "as the module that is delivered" if is_module else "the kernel alone"
    lines = [f"Timed in an ordinary process, {what}."]
    for words, results in ways_timed(evaluation).items():
        speedup = speedup_of(results, "eager") if words else None
        if speedup is not None:
            lines.append(f"{words[0].upper()}{words[1:]}: {speedup} over eager{_caveat(speedup)}.")
    peaks = [one.memory for one in evaluation.ordinary if one.memory is not None]
    worst = max(peaks, key=lambda memory: memory.ratio, default=None)
    if worst is None:
        return [*lines, "Peak memory: not measured, the system does not tell."]
    told = f"{worst.delivered_bytes / 1e6:.1f} MB against {worst.original_bytes / 1e6:.1f} MB"
    return [*lines, f"Peak memory: {worst.ratio:.2f} times the original's ({told})."]


def _floor_line(evaluation: Evaluation) -> list[str]:
    floor, ms = floor_ms(evaluation), latency_ms(evaluation)
    if floor is None or ms is None:
        return []
    which = " (geometric means over the workloads)" if len(evaluation.told) > 1 else ""
    line = f"The fastest this machine could do is {millis(floor)}; this takes {millis(ms)}{which}."
    return [line, *_corrections(evaluation)]


def _corrections(evaluation: Evaluation) -> list[str]:
    """Return a line for each floor that was our error."""
    return [
        f"The machine's peaks had been measured too low: by them, workload {result.workload} would take "
        f"{millis(result.floor_was_ms)} at least. They were measured again."
        for result in evaluation.told
        if result.floor_was_ms is not None
    ]


def failed_line(evaluation: Evaluation) -> str:
    """Return stage, status and reason of an evaluation that is not verified.

    What only the chosen policy forbids is called so: no check against cheating has failed.
    """
    status = evaluation.status.replace("_", " ")
    if evaluation.check in POLICY_CHECKS:
        status = "not within the policy"
    return f"Stopped at stage {evaluation.stage}: {status}" + (
        f": {evaluation.detail}" if evaluation.detail else ""
    )


def _headline(speedup: RatioInterval | None) -> str:
    if speedup is None:
        return "Verified"
    if speedup.is_faster:
        return f"Verified, {times(speedup.ratio)} faster than eager"
    if speedup.is_slower:
        return f"Verified, but slower than eager ({times(speedup.ratio)})"
    return f"Verified; no significant change against eager ({times(speedup.ratio)})"


def _caveat(speedup: RatioInterval) -> str:
    if speedup.is_faster:
        return ""
    return " (slower)" if speedup.is_slower else " (no significant change)"


def _because(reason: str) -> str:
    text = reason.strip().rstrip(".")
    return text[:1].lower() + text[1:] if text[:2] != text[:2].upper() else text


def _unfinished_lines(story: Story) -> tuple[str, ...]:
    best = story.best
    if best is None or best.speedup is None:
        return ("No candidate has been verified yet.",)
    return (f"Best so far: {best.speedup} over eager, not yet measured again in a fresh process.",)
