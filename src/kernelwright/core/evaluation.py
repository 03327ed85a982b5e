"""The outcome of one candidate before the referee."""

import math
from collections.abc import Iterable
from enum import StrEnum
from html import escape
from typing import Literal

from pydantic import Field, field_validator, model_validator

from kernelwright.core.frozen import Frozen
from kernelwright.core.policy import Policy
from kernelwright.core.visible import visible_line, visible_lines


class Stage(StrEnum):
    """The stages in order; an evaluation names the furthest one that was entered."""

    GUARD = "guard"
    BUILD = "build"
    LOAD = "load"
    VERIFY = "verify"
    TIME = "time"
    REPLAY = "replay"
    """Checks after the timing: idle work, replay, tampering, late outputs, own work. Older stored evaluations
    have these checks in ``time``."""
    DONE = "done"


class Status(StrEnum):
    """How the evaluation ended. Everything but VERIFIED is the candidate's failure."""

    VERIFIED = "verified"
    """Every check passed; timings are present."""
    PARSE_ERROR = "parse_error"
    """The source is not Python, or defines no ``ModelNew``."""
    COMPILE_ERROR = "compile_error"
    """The C++ compiler refused it; the log holds its message."""
    LOAD_ERROR = "load_error"
    """Import or constructor raised, or parameters differ from the reference's."""
    RUNTIME_ERROR = "runtime_error"
    """``forward`` raised."""
    CRASHED = "crashed"
    """The worker process died (signal named in the detail)."""
    TIMEOUT = "timeout"
    """A stage ran past its limit; the process group was killed."""
    INCORRECT_SHAPE = "incorrect_shape"
    INCORRECT_DTYPE = "incorrect_dtype"
    INCORRECT_NUMERICS = "incorrect_numerics"
    """Further from the oracle than the tolerance policy allows."""
    NON_FINITE = "non_finite"
    """NaN or infinity where the reference has none."""
    INCORRECT_STATE = "incorrect_state"
    """A buffer that the reference updates (batch norm statistics) has another value."""
    MUTATED_INPUT = "mutated_input"
    """The candidate wrote to an input or a parameter, and the reference does not."""
    ALIASED_OUTPUT = "aliased_output"
    """An output shares memory with an input, a parameter or an earlier output, or is not dense."""
    REJECTED = "rejected"
    """A check against cheating failed: faster than the floor, clocks that disagree, a stale output. With a
    check of ``POLICY_CHECKS`` the policy forbids what the candidate does."""


class Check(StrEnum):
    """The check that failed a candidate; docs/referee.md describes each."""

    SOURCE = "source"
    """The source is not Python, or defines no ``ModelNew``."""
    BUILD = "build"
    """The compiler refused the source."""
    INTERFACE = "interface"
    """The candidate cannot be imported or constructed, or its state_dict differs from the reference's."""
    RAISED = "raised"
    """``forward`` raised, or the process crashed."""
    LIMITS = "limits"
    """A limit on time, memory, processes or files ended the process."""
    FORM = "form"
    """Number, type, dtype and shape of the outputs."""
    STORAGE = "storage"
    """Outputs must be memory of their own that nothing else writes to, complete when the call returns."""
    INPUTS = "inputs"
    """Inputs and parameters must be the same bytes afterwards, and so must the memory around them."""
    STATE = "state"
    """Buffers must change as the reference changes them."""
    ORACLE = "oracle"
    """Compared with the float64 oracle on inputs as the task draws them, from secret seeds."""
    FAMILIES = "families"
    """The same on inputs scaled, negated, permuted, with spikes, heavy tails, odd rows or odd elements."""
    NONFINITE = "nonfinite"
    """NaN and infinity in the inputs, where the policy has them judged."""
    WEIGHTS = "weights"
    """The same on weights that the candidate's constructor did not see."""
    PRECISION = "precision"
    """Outputs are near the oracle, but not as near as the tolerance demands."""
    TIMED_CALLS = "timed_calls"
    """Outputs of timed calls."""
    REPLAY = "replay"
    """Calls on unseen inputs, all outputs kept: as fast and as right as the timed calls?"""
    CLOCK = "clock"
    """The worker's clock agrees with the parent's."""
    TAMPER = "tamper"
    """Foreign functions and global state are as they were before the candidate was imported."""
    IDLE_WORK = "idle_work"
    """Processor time that the candidate's process uses while no command runs."""
    FLOOR = "floor"
    """Latency below what this machine can reach."""
    MEMORY = "memory"
    """Peak memory of what is delivered, beyond what the policy allows."""
    LIBRARY_CALLS = "library_calls"
    """Operations dispatched to libraries, where the policy forbids them."""
    OWN_KERNEL = "own_kernel"
    """The candidate must fail when its compiled library is replaced by one that does nothing."""


STATUS_CHECK = {
    Status.PARSE_ERROR: Check.SOURCE,
    Status.COMPILE_ERROR: Check.BUILD,
    Status.LOAD_ERROR: Check.INTERFACE,
    Status.RUNTIME_ERROR: Check.RAISED,
    Status.CRASHED: Check.RAISED,
    Status.TIMEOUT: Check.LIMITS,
    Status.INCORRECT_SHAPE: Check.FORM,
    Status.INCORRECT_DTYPE: Check.FORM,
    Status.INCORRECT_NUMERICS: Check.ORACLE,
    Status.NON_FINITE: Check.ORACLE,
    Status.INCORRECT_STATE: Check.STATE,
    Status.MUTATED_INPUT: Check.INPUTS,
    Status.ALIASED_OUTPUT: Check.STORAGE,
}
"""The check that a status implies when no check is given."""

POLICY_CHECKS = frozenset({Check.LIBRARY_CALLS, Check.OWN_KERNEL, Check.MEMORY})
"""Checks of what the chosen policy forbids: rules about the form of a candidate, not signs of fraud."""


LINE_CHARS, LOG_CHARS = 2000, 200_000
"""Most characters of a line, and of a log, in an evaluation: whoever writes them may be the candidate."""

DISTURBED = 2.0
"""Upper over lower end of an interval above which the ratio in it says next to nothing; our choice."""

EAGER_DRIFT = "run.eager_drift"
"""Fact of what was measured while eager took much longer than before in the same run."""

DRIFT = 1.5
"""Eager's latency over its least in the run, above which other work went on beside a timing; our choice."""


class NumericalError(Frozen):
    """Distance of one output from the float64 oracle on one sample of inputs and weights."""

    workload: str
    family: str
    """Input distribution, as docs/referee/inputs.md lists them: ``as_is``, ``scaled``, ``odd_rows`` …"""
    output: str
    """``out0``, ``out1`` …, or ``buffer:NAME``."""
    error: float
    """The candidate's scaled error, without unit (see ``referee/checks/tolerance.py``)."""
    reference_error: float
    """The float32 reference's own scaled error on the same sample."""
    allowed: float
    """The largest scaled error that the tolerance allowed."""


class Timing(Frozen):
    """Latency of one callable; medians over samples, each the mean over its calls."""

    median_ms: float
    p10_ms: float
    p90_ms: float
    n_samples: int
    calls_per_sample: int


class Speedup(Frozen):
    """Paired ratio baseline / candidate, measured alternately."""

    baseline: str
    """``eager`` or ``torch_compile``."""
    ratio: float = Field(gt=0)
    """Median of the paired ratios; with several pairs of processes, the geometric mean of their medians. The
    candidate is faster above 1."""
    low: float = Field(ge=0)
    """Lower end of the 95 % interval, with the differences between processes (docs/referee/timing.md)."""
    high: float = Field(gt=0)
    """Upper end."""

    @property
    def verdict(self) -> Literal["faster", "slower", "no_significant_change"]:
        """The conclusion that the interval allows."""
        if self.low > 1.0:
            return "faster"
        return "slower" if self.high < 1.0 else "no_significant_change"

    def against(self, name: str) -> str:
        """Say how it did against another kernel, timed in turn with it."""
        ratio = f"{self.ratio:.2f}x [{self.low:.2f}, {self.high:.2f}]"
        is_told = self.verdict != "no_significant_change"
        return f"{ratio} of {name}" if is_told else f"not distinguishable from {name} ({ratio})"


class WorkloadResult(Frozen):
    """Timings of one workload."""

    workload: str
    candidate: Timing
    baselines: dict[str, Timing]
    speedups: tuple[Speedup, ...]
    floor_ms: float | None = None
    """Roofline floor of the workload on this machine; None when the graph is unknown."""
    floor_was_ms: float | None = None
    """The floor by peaks that this candidate showed to be measured too low, which is our error: they were
    measured again, and ``floor_ms`` follows from that. None: nothing was in doubt."""

    def speedup(self, baseline: str) -> Speedup | None:
        """Return the comparison with the named baseline, None where it was not measured."""
        return next((s for s in self.speedups if s.baseline == baseline), None)

    @property
    def floor_fraction(self) -> float | None:
        """Floor over latency: 1.0 is as fast as the machine can be."""
        return None if self.floor_ms is None else self.floor_ms / self.candidate.median_ms


class PeakMemory(Frozen):
    """The most memory that calls take: weights, inputs, one earlier output, the output and all between."""

    delivered_bytes: int
    original_bytes: int

    @property
    def ratio(self) -> float:
        """What is delivered over the original: above 1 it takes more."""
        return self.delivered_bytes / max(self.original_bytes, 1)


class OrdinaryResult(Frozen):
    """One workload in an ordinary process: malloc as it is by default, so large outputs are fresh pages."""

    timed: Literal["module", "kernel"]
    """What was timed: the module as it is delivered, or ``ModelNew`` alone."""
    all_threads: WorkloadResult
    one_thread: WorkloadResult | None = None
    """The same with one OpenMP thread on both sides; None where there is no more than one."""
    memory: PeakMemory | None = None
    """None where the system does not tell."""


class Evaluation(Frozen):
    """The referee's record of one candidate on one task.

    Much of its text comes from the candidate: in all of it hidden characters are replaced by their names, and
    it is cut to ``LINE_CHARS`` and ``LOG_CHARS``.
    """

    candidate_id: str
    task_id: str
    stage: Stage
    status: Status
    detail: str = ""
    """One line: which check failed and by how much; empty when verified."""
    check: Check | None = None
    """The check that failed; None when verified, and in old stored evaluations."""
    policy: Policy | None = None
    """What counted as the candidate's own work; None in old stored evaluations."""
    log: str = ""
    """Tail of the compiler's or the worker's output."""
    errors: tuple[NumericalError, ...] = ()
    families_skipped: dict[str, str] = Field(default_factory=dict)
    """Input distribution -> why it could not be used (the reference itself is not finite on it)."""
    results: tuple[WorkloadResult, ...] = ()
    """With memory that the processes keep, so that no side pays for fresh pages (docs/referee/timing.md)."""
    ordinary: tuple[OrdinaryResult, ...] | None = None
    """The same workloads in an ordinary process; None where this was not measured: in searches, on devices,
    and in old stored evaluations."""
    phases_s: dict[str, float] = Field(default_factory=dict)
    """Wall seconds per stage, by the parent's clock."""
    facts: dict[str, float | int | str | bool | None] = Field(default_factory=dict)
    """Evidence gathered during the evaluation, under the names of ``core/evidence.py``."""
    notes: tuple[str, ...] = ()
    """One line each: what compilers and profilers reported or could not, and findings by clocks in one
    process that other processes had to confirm. No verdict rests on notes."""
    missing_baselines: dict[str, str] = Field(default_factory=dict)
    """Baseline -> why it could not be made, or what it computes wrongly."""
    not_replayed: tuple[str, ...] = ()
    """Workloads on which neither replay nor new values were tried: an earlier candidate of the same search is
    at least as fast there."""
    library_calls: dict[str, int] | None = None
    """Computing operation that one call dispatched to torch -> count, as reported by the worker."""
    is_final: bool = False
    """True for a final measurement, in fresh processes with fresh secret seeds."""
    referee: int | None = None
    """Version of the referee that judged (``referee/version.py``); None in old stored evaluations."""
    sandbox: str | None = None
    """Sandbox tier of the candidate (docs/threat-model.md); None in old stored evaluations."""
    device: str | None = None
    """Device of a fleet that judged (docs/fleet.md); None: no fleet was asked."""

    @field_validator("detail")
    @classmethod
    def _on_one_line(cls, text: str) -> str:
        return _line(text)

    @field_validator("log")
    @classmethod
    def _without_hidden_characters(cls, text: str) -> str:
        return visible_lines(text[-LOG_CHARS:])[-LOG_CHARS:]

    @field_validator("notes")
    @classmethod
    def _each_on_one_line(cls, notes: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(_line, notes))

    @field_validator("missing_baselines")
    @classmethod
    def _reasons_on_one_line(cls, reasons: dict[str, str]) -> dict[str, str]:
        return {name: _line(why) for name, why in reasons.items()}

    @field_validator("facts")
    @classmethod
    def _facts_to_be_shown(
        cls, facts: dict[str, float | int | str | bool | None]
    ) -> dict[str, float | int | str | bool | None]:
        return {
            _line(name): _line(value) if isinstance(value, str) else value for name, value in facts.items()
        }

    @field_validator("library_calls")
    @classmethod
    def _names_to_be_shown(cls, calls: dict[str, int] | None) -> dict[str, int] | None:
        return None if calls is None else {_line(name): count for name, count in calls.items()}

    @model_validator(mode="after")
    def _timings_only_when_verified(self) -> "Evaluation":
        if (self.status is Status.VERIFIED) != (self.stage is Stage.DONE):
            raise ValueError("verified and stage 'done' go together")
        if (self.results or self.ordinary) and self.status is not Status.VERIFIED:
            raise ValueError("a candidate that is not verified has no timings")
        return self

    @property
    def told(self) -> tuple[WorkloadResult, ...]:
        """The results to quote: those of an ordinary process where they were measured."""
        return tuple(one.all_threads for one in self.ordinary) if self.ordinary else self.results

    @property
    def is_verified(self) -> bool:
        """True when every check passed."""
        return self.status is Status.VERIFIED

    @property
    def is_faster(self) -> bool:
        """True for a verified candidate that is faster than eager on one workload, and slower on none.

        Where it was measured in an ordinary process, it must be faster there, and slower nowhere: neither
        with one thread, nor with memory that the processes keep.
        """
        told = _over_eager(self.told)
        alone = [one.one_thread for one in self.ordinary or () if one.one_thread is not None]
        everywhere = (*told, *_over_eager(self.results), *_over_eager(alone))
        return self.is_verified and "faster" in told and "slower" not in everywhere

    def _repr_html_(self) -> str:
        """Return the verdict in a line, for a notebook."""
        speedup = self.geomean_speedup()
        how = "" if speedup is None else f": {speedup:.2f}x over eager"
        why = f" at stage {self.stage}: {escape(self.detail)}" if not self.is_verified else ""
        return f"<b>{self.status.replace('_', ' ')}</b>{how}{why}"

    def geomean_speedup(self, baseline: str = "eager") -> float | None:
        """Return the geometric mean over the workloads, in an ordinary process where that was measured.

        None if not verified or not compared with it.
        """
        ratios = [s.ratio for r in self.told if (s := r.speedup(baseline)) is not None]
        if not ratios:
            return None
        product = 1.0
        for ratio in ratios:
            product *= ratio ** (1 / len(ratios))
        return product

    def speedup_interval(self, baseline: str = "eager") -> tuple[float, float] | None:
        """Return the interval of the speedup, both ends as geometric means over the workloads."""
        found = [speedup for result in self.told if (speedup := result.speedup(baseline)) is not None]
        if not found:
            return None
        low = math.exp(sum(math.log(max(speedup.low, 1e-9)) for speedup in found) / len(found))
        high = math.exp(sum(math.log(max(speedup.high, 1e-9)) for speedup in found) / len(found))
        return low, high

    @property
    def interval_width(self) -> float | None:
        """Upper over lower end of the interval of the speedup over eager; None where there is none."""
        interval = self.speedup_interval()
        return None if interval is None else interval[1] / max(interval[0], 1e-9)

    @property
    def is_disturbed(self) -> bool:
        """Tell whether other programs ran beside the timing: a wide interval, or eager was slow."""
        return (self.interval_width or 0.0) > DISTURBED or EAGER_DRIFT in self.facts


def _line(text: str) -> str:
    return visible_line(text[:LINE_CHARS])[:LINE_CHARS]


def _over_eager(results: Iterable[WorkloadResult]) -> list[str]:
    return [speedup.verdict for result in results if (speedup := result.speedup("eager")) is not None]
