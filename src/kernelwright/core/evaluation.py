"""The outcome of one candidate before the referee."""

from enum import StrEnum
from html import escape
from typing import Literal

from pydantic import Field, model_validator

from kernelwright.core.frozen import Frozen
from kernelwright.core.policy import Policy


class Stage(StrEnum):
    """The stages in order; an evaluation names the furthest one that was entered."""

    GUARD = "guard"
    BUILD = "build"
    LOAD = "load"
    VERIFY = "verify"
    TIME = "time"
    REPLAY = "replay"
    """What is looked at when the timing is over: idle work, replay, tampering, late outputs, own work. In
    evaluations stored before there was this stage it is part of ``time``."""
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
    """A buffer the reference updates (batch norm statistics) holds something else."""
    MUTATED_INPUT = "mutated_input"
    """An input or a parameter was written to and the reference does not do so."""
    ALIASED_OUTPUT = "aliased_output"
    """An output shares memory with an input, a parameter or an earlier output, or is not dense."""
    REJECTED = "rejected"
    """A guard found it out: faster than the floor, clocks that disagree, a stale output."""


class Check(StrEnum):
    """What found a candidate out; docs/referee.md says what each looks at."""

    SOURCE = "source"
    """It is not Python, or defines no ``ModelNew``."""
    BUILD = "build"
    """The compiler refused it."""
    INTERFACE = "interface"
    """It cannot be imported or constructed, or its state_dict is another than the reference's."""
    RAISED = "raised"
    """``forward`` raised, or the process died of itself."""
    LIMITS = "limits"
    """A limit on time, memory, processes or files ended it."""
    FORM = "form"
    """Number, type, dtype or shape of its outputs."""
    STORAGE = "storage"
    """Outputs must be memory of their own that nothing else writes to, complete when the call returns."""
    INPUTS = "inputs"
    """Inputs and parameters must be the same bytes afterwards, and so must the memory around them."""
    STATE = "state"
    """Buffers must change as the reference changes them."""
    ORACLE = "oracle"
    """Compared with the float64 oracle on inputs as the task draws them, from secret seeds."""
    FAMILIES = "families"
    """The same on inputs scaled, negated, with spikes or heavy tails."""
    WEIGHTS = "weights"
    """The same on weights that its constructor did not see."""
    PRECISION = "precision"
    """Near the oracle, but not as near as the declared precision asks for."""
    TIMED_CALLS = "timed_calls"
    """The outputs of calls that were timed."""
    REPLAY = "replay"
    """Calls on inputs it has never seen, all outputs kept: as fast and as right as the timed ones?"""
    CLOCK = "clock"
    """The worker's clock against the parent's."""
    TAMPER = "tamper"
    """Functions and global state that do not belong to it are as they were before it was imported."""
    IDLE_WORK = "idle_work"
    """Processor time that its process takes while nothing is asked of it."""
    FLOOR = "floor"
    """Faster than this machine can be."""
    LIBRARY_CALLS = "library_calls"
    """What it dispatched to libraries, where the policy forbids that."""
    OWN_KERNEL = "own_kernel"
    """With its compiled library replaced by one that does nothing it still gives the right answer."""


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
"""Which check a status speaks for when nothing more exact is said."""


class NumericalError(Frozen):
    """Distance of one output from the float64 oracle on one draw of inputs and weights."""

    workload: str
    family: str
    """Input family: ``as_is``, ``scaled``, ``negated``, ``sparse_spikes`` or ``heavy_tail``."""
    output: str
    """``out0``, ``out1`` …, or ``buffer:NAME``."""
    error: float
    """Candidate's scaled error; unit-free (see ``referee/tolerance.py``)."""
    reference_error: float
    """The float32 reference's own scaled error on the same draw."""
    allowed: float
    """What the tolerance policy permitted."""


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
    ratio: float
    """Median of the paired ratios, over several pairs of processes the geometric mean of their medians; above
    1 the candidate is faster."""
    low: float
    """Lower end of its 95 % interval, which holds what processes differ by (docs/referee.md)."""
    high: float
    """Upper end."""

    @property
    def verdict(self) -> Literal["faster", "slower", "no_significant_change"]:
        """What the interval allows one to say."""
        if self.low > 1.0:
            return "faster"
        return "slower" if self.high < 1.0 else "no_significant_change"


class WorkloadResult(Frozen):
    """Timings of one workload."""

    workload: str
    candidate: Timing
    baselines: dict[str, Timing]
    speedups: tuple[Speedup, ...]
    floor_ms: float | None = None
    """Roofline floor of the workload on this machine; None when the graph is unknown."""

    def speedup(self, baseline: str) -> Speedup | None:
        """Return the comparison with the named baseline, None where it was not measured."""
        return next((s for s in self.speedups if s.baseline == baseline), None)

    @property
    def floor_fraction(self) -> float | None:
        """Floor over latency: 1.0 is as fast as the machine can be."""
        return None if self.floor_ms is None else self.floor_ms / self.candidate.median_ms


class Evaluation(Frozen):
    """Everything the referee says of one candidate on one task."""

    candidate_id: str
    task_id: str
    stage: Stage
    status: Status
    detail: str = ""
    """One line: which check failed and by how much; empty when verified."""
    check: Check | None = None
    """What found it out; None when verified, and in evaluations stored before there was this field."""
    policy: Policy | None = None
    """What was declared to count as the candidate's own; None in evaluations stored before."""
    log: str = ""
    """Tail of the compiler's or the worker's output."""
    errors: tuple[NumericalError, ...] = ()
    families_skipped: dict[str, str] = Field(default_factory=dict)
    """Input family -> why it could not be used (the reference itself is non-finite there)."""
    results: tuple[WorkloadResult, ...] = ()
    phases_s: dict[str, float] = Field(default_factory=dict)
    """Wall seconds per stage, as the parent's clock saw them."""
    facts: dict[str, float | int | str | bool | None] = Field(default_factory=dict)
    """Evidence gathered on the way under the names of ``core/evidence.py``."""
    notes: tuple[str, ...] = ()
    """One line each: what compilers and profilers reported or could not, and findings by clocks in one
    process that other processes had to confirm. No verdict rests on notes."""
    library_calls: dict[str, int] | None = None
    """Operations that one call dispatched to torch and that compute -> how often, as the worker tells."""
    is_final: bool = False
    """Measured again in fresh processes with fresh secret seeds."""
    sandbox: str | None = None
    """Tier under which it was judged (docs/threat-model.md); None in evaluations stored before."""

    @model_validator(mode="after")
    def _timings_only_when_verified(self) -> "Evaluation":
        if (self.status is Status.VERIFIED) != (self.stage is Stage.DONE):
            raise ValueError("verified and stage 'done' go together")
        if self.results and self.status is not Status.VERIFIED:
            raise ValueError("a candidate that is not verified has no timings")
        return self

    @property
    def is_verified(self) -> bool:
        """True when every check passed."""
        return self.status is Status.VERIFIED

    def _repr_html_(self) -> str:
        """Return the verdict in a line, for a notebook."""
        speedup = self.geomean_speedup()
        how = "" if speedup is None else f": {speedup:.2f}x over eager"
        why = f" at stage {self.stage}: {escape(self.detail)}" if not self.is_verified else ""
        return f"<b>{self.status.replace('_', ' ')}</b>{how}{why}"

    def geomean_speedup(self, baseline: str = "eager") -> float | None:
        """Geometric mean over the workloads; None when not verified or never compared with it."""
        ratios = [s.ratio for r in self.results if (s := r.speedup(baseline)) is not None]
        if not ratios:
            return None
        product = 1.0
        for ratio in ratios:
            product *= ratio ** (1 / len(ratios))
        return product
