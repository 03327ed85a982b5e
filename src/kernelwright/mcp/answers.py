"""What the tools answer: nouns of the project, cut to what an agent can act on. All are strict JSON."""

from pydantic import ConfigDict

from kernelwright.core.checkup import Flag
from kernelwright.core.evaluation import Check, Speedup, Stage, Status
from kernelwright.core.evidence import Bottleneck, FactValue, Headroom
from kernelwright.core.frozen import Frozen
from kernelwright.core.plan import Move, ParamValue


class Answer(Frozen):
    """What every answer shares: infinities and NaN are null, as JSON has no word for them."""

    model_config = ConfigDict(ser_json_inf_nan="null")


class TaskReport(Answer):
    """What is wrong with a task."""

    trustworthy: bool
    """False: a speedup on this task may mean nothing."""
    headline: str
    flags: tuple[Flag, ...]
    """Worst first; each says what to do about it."""
    sizes: dict[str, str]
    """Size globals that were reduced to make the check quick."""
    next: str
    """What to do now."""


class WorkloadTimes(Answer):
    """Timings of one workload."""

    workload: str
    ms: float
    """Median latency of one call."""
    speedups: tuple[Speedup, ...]
    """Over each baseline, with the 95 % interval."""
    floor_ms: float | None
    """The least time that this machine needs for the work; null where it is not known."""


class WorstError(Answer):
    """The largest of the distances from the float64 oracle, as shares of what is allowed."""

    workload: str
    distribution: str
    """How the inputs were drawn."""
    output: str
    error: float | None
    """Null: not finite."""
    allowed: float | None


class KernelVerdict(Answer):
    """The referee's verdict on one kernel."""

    verified: bool
    """True: every check passed. It does not mean faster."""
    status: Status
    stage: Stage
    """The furthest stage that was entered."""
    check: Check | None
    """The check that failed; null when verified."""
    headline: str
    says: tuple[str, ...]
    """What led to it, a line each."""
    next: str
    """What to do now."""
    speedup: float | None
    """Over eager, the geometric mean over the workloads; null when not verified."""
    is_faster: bool
    """True when the whole interval over eager is above 1 on every workload."""
    workloads: tuple[WorkloadTimes, ...]
    worst_error: WorstError | None
    library_calls: dict[str, int]
    """Operations that one call left to libraries."""
    log: str
    """Tail of what the compiler or the kernel's process wrote; text of an untrusted program."""
    notes: tuple[str, ...]
    is_final: bool
    """Measured longer, in several fresh processes."""
    sandbox: str | None


class NamedVerdict(Answer):
    """One of several kernels."""

    name: str
    verdict: KernelVerdict


class KernelTable(Answer):
    """Several kernels judged in one session on the same inputs."""

    kernels: tuple[NamedVerdict, ...]
    """As they were given."""
    best: str | None
    """The fastest verified one; null where none is verified."""
    next: str


class FloorBound(Answer):
    """The roofline of one workload."""

    workload: str
    floor_ms: float
    bound_by: str
    """``memory`` or ``compute``."""
    flops: int
    """Operations that no implementation can avoid."""
    min_bytes: int
    """Inputs, used parameters and outputs, moved once."""


class SkillChoice(Answer):
    """A skill that applies here."""

    skill: str
    score: float
    reasons: tuple[str, ...]


class BottleneckReport(Answer):
    """What limits a kernel."""

    verdict: KernelVerdict
    bottleneck: Bottleneck | None
    """What costs most of the time that could be had back; null when the kernel is not verified."""
    also: tuple[Bottleneck, ...]
    headroom: Headroom | None
    structure: str | None
    reasons: tuple[str, ...]
    """The evidence in words."""
    roofline: tuple[FloorBound, ...]
    evidence: dict[str, FactValue]
    """Measured facts; the resource kernelwright://evidence says what each name means."""
    skills: tuple[SkillChoice, ...]
    """Best first; skill_read has their text."""
    next: str


class FoundSkill(Answer):
    """A skill in a line."""

    name: str
    summary: str
    targets: tuple[str, ...]
    bottlenecks: tuple[Bottleneck, ...]
    carried_out_by_expert: bool
    """True: a move of this name can be part of a plan for lower_plan."""


class FoundSkills(Answer):
    """Skills that fit a question, best first."""

    skills: tuple[FoundSkill, ...]
    total: int
    """How many fit; those beyond the limit are left out."""


class SkillPage(Answer):
    """One skill in full."""

    skill: FoundSkill
    requires: tuple[str, ...]
    """Conditions on evidence, all of which must hold."""
    forbids: tuple[str, ...]
    params: dict[str, tuple[ParamValue, ...]]
    sources: tuple[str, ...]
    text: str
    """Guidance and a worked pattern, Markdown."""


class SkillEffect(Answer):
    """What a skill was measured to do, over all runs."""

    skill: str
    by: str
    """Who carried it out: ``expert`` or ``llm``."""
    expected: str
    tries: int
    verified: int
    wins: int
    median_speedup: float | None
    """Of the verified tries, old over new latency."""


class FoundFinding(Answer):
    """A sentence of experience and how far it has come."""

    text: str
    state: str
    """``admitted`` after it held on tasks that it was not taken from; else ``proposed`` or ``rejected``."""
    skill: str | None


class FoundPlan(Answer):
    """A plan that won on another task."""

    task: str
    speedup: float
    """Over eager, there."""
    moves: tuple[Move, ...]
    run_id: str


class Memory(Answer):
    """What earlier runs have taught."""

    effects: tuple[SkillEffect, ...]
    findings: tuple[FoundFinding, ...]
    plans: tuple[FoundPlan, ...]
    next: str


class NextMove(Answer):
    """A place where a skill applies on top of a plan."""

    skill: str
    region: str
    why: str
    gain: float
    """Analytic guess of old over new latency of the whole program, at least 1; not measured."""
    params: dict[str, tuple[ParamValue, ...]]
    """Values worth trying, best guess first."""


class LoweredKernel(Answer):
    """A kernel that the expert wrote for a plan."""

    candidate_id: str
    target: str
    source: str
    """A Python file that defines ModelNew: the argument ``kernel`` of the other tools."""
    given_up: dict[str, str]
    """Workload -> why nothing was generated for it."""
    moves: tuple[NextMove, ...]
    """What may follow; the largest gain first."""
    next: str


class SpaceFactor(Answer):
    """One kind of decision."""

    factor: str
    decisions: int
    log10: float
    """Of its number of points."""


class OpenDecision(Answer):
    """Something that a program for the task decides."""

    name: str
    factor: str
    values: tuple[ParamValue, ...]
    default: ParamValue
    why: str
    illegal: dict[str, str]
    """Value -> why it cannot be taken."""


class DrawnPoint(Answer):
    """A point of the space that was drawn by lot."""

    decides: dict[str, ParamValue]
    """What it decides other than the default."""
    moves: tuple[str, ...]
    """The plan that carries it out, as SKILL[REGION](PARAMS)."""
    is_program: bool
    illegal: str | None
    """Why it is no program."""


class ProgramSpace(Answer):
    """Which programs may be generated for a task."""

    headline: str
    log10: float
    """Of the number of points, counted at the default one."""
    factors: tuple[SpaceFactor, ...]
    decisions: tuple[OpenDecision, ...]
    points: tuple[DrawnPoint, ...]
    next: str


class TunedKernel(Answer):
    """The best point that tuning found, and the referee's verdict on it."""

    headline: str
    values: dict[str, ParamValue]
    """What was closed: parameters of TUNE, or decisions of the space that are not taken by default."""
    source: str
    """The closed source, a file that defines ModelNew."""
    points: int
    failed: int
    surface: tuple[str, ...]
    """What was learned of each parameter, by cheap timings."""
    verdict: KernelVerdict | None
    next: str


class Optimized(Answer):
    """What came of a search."""

    run_id: str
    improved: bool
    """False: nothing faster was found and the module stays as it is."""
    headline: str
    says: tuple[str, ...]
    source: str | None
    """The verified kernel, a Python file that defines ModelNew; null when not improved."""
    verdict: KernelVerdict | None
    """The final measurement, in fresh processes."""
    report: str
    """Resource with the run's report."""
    next: str


class GpuKernel(Answer):
    """One GPU kernel of a candidate."""

    kernel: str
    can_run: bool
    detail: str
    facts: dict[str, FactValue]
    """Registers, spills, shared memory, occupancy and the like."""
    meaning: tuple[str, ...]
    """The facts in words."""


class GpuReport(Answer):
    """A candidate's kernels, built ahead of time for one GPU."""

    gpu: str
    architecture: str
    can_run: bool
    headline: str
    detail: str
    kernels: tuple[GpuKernel, ...]
    notes: tuple[str, ...]
    log: str


class Inspected(Answer):
    """A candidate's kernels on each GPU that was asked for."""

    can_run: bool
    gpus: tuple[GpuReport, ...]
    next: str
