"""What somebody asks for: every option of every command that judges or runs, as frozen data.

The command line builds requests, the library takes them, the store keeps a run's, and
``core/request_words.py`` prints them as the command that asks for the same again. A request names its task
and knows no machine; ``core/run.RunSpec`` is what a request to optimise becomes on one.
"""

from typing import ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from kernelwright.core.budget import Budget
from kernelwright.core.dynamic import DynamicAxis
from kernelwright.core.errors import UserError
from kernelwright.core.model_words import require_words
from kernelwright.core.models import ModelSettings
from kernelwright.core.options import MAX_MB, MAX_MS, REFEREE_IDLE_S, SandboxTier
from kernelwright.core.places import KernelPlace, TaskPlace
from kernelwright.core.policy import PEAK_MEMORY, LibraryCalls, Nonfinite, Policy, Weights
from kernelwright.core.request_words import Worded
from kernelwright.core.task import Mode, TolerancePolicy, Workload
from kernelwright.core.workers import parse_workers

DEFAULT_RECIPE = "kernelwright"
"""How to search when nobody says otherwise; docs/recipes/kernelwright.md has the evidence."""
DEFAULT_EVALUATIONS = 16
"""Granted to every run of a comparison when no budget is named; ours."""


def _once(names: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Name each baseline once; none of them is no choice."""
    return tuple(dict.fromkeys(names)) or None if names is not None else None


class Request(Worded):
    """What all requests share."""

    require_sandbox: SandboxTier | None = None
    """Refuse to judge in a weaker sandbox; None: as the settings say."""


class _Confining(Request):
    """A request about tasks that may be a stranger's."""

    confine_tasks: bool = False
    """Run the tasks' code in the sandbox only; a roofline floor is then the task's word."""


class _WithWorkloads(Request):
    """A request that may bring its own workloads."""

    workloads: tuple[Workload, ...] = ()
    """Empty: the task's own."""
    mode: Mode | None = None
    """None: the task's own."""

    @field_validator("workloads")
    @classmethod
    def _named_apart(cls, workloads: tuple[Workload, ...]) -> tuple[Workload, ...]:
        names = [workload.name for workload in workloads]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise UserError(f"--workload: {', '.join(twice)} is given twice; name every workload differently")
        return workloads


class _WithPolicy(Request):
    """A request with rules for what counts as a candidate's own work."""

    library_calls: LibraryCalls = LibraryCalls.ALLOWED
    weights: Weights = Weights.EVERY_CALL
    """May what is computed from weights be kept between calls?"""
    nonfinite: Nonfinite = Nonfinite.AUTO
    """What a candidate must make of NaN and infinity."""
    peak_memory: float = Field(default=PEAK_MEMORY, gt=0)
    """How many times the original's peak memory what is delivered may take."""

    @property
    def policy(self) -> Policy:
        """The rules as the referee takes them."""
        return Policy(
            library_calls=self.library_calls, weights=self.weights, nonfinite=self.nonfinite,
            peak_memory=self.peak_memory,
        )  # fmt: skip


class _Searching(Request):
    """A request that runs searches."""

    target: str = "cpu/cpp"
    budget: Budget = Budget()
    """Amounts that it leaves open are the recipe's own."""
    models: ModelSettings | None = None
    """Of the seats that are a model's; prices are looked up when a run begins."""
    store: str | None = None
    """SQLite file or SQLAlchemy URL; None: as the settings say."""
    workers: str | None = None
    """``ray`` or ``ray://HOST:PORT``: a fleet judges; None: the referee here."""
    profile_unconfined: bool = False
    """On a GPU: profile what models wrote, too; it runs with this user's rights then."""

    @field_validator("workers")
    @classmethod
    def _a_cluster(cls, workers: str | None) -> str | None:
        return None if workers is None else parse_workers(workers)

    @field_validator("models")
    @classmethod
    def _as_asked_for(cls, models: ModelSettings | None) -> ModelSettings | None:
        """Leave out what was looked up or tried out, and roles that ask for nothing of their own."""
        if models is None:
            return None
        roles = {role: own for role, own in models.roles.items() if own != type(own)()}
        asked = models.model_copy(
            update={"prices": (), "without_tools": (), "output_modes": {}, "streaming": (), "roles": roles}
        )
        require_words(asked)
        return asked


class RunRequest(_WithWorkloads, _WithPolicy, _Searching, _Confining):
    """Make one task faster: ``kernelwright optimize``."""

    command: ClassVar[str] = "optimize"
    task: TaskPlace
    recipe: str = DEFAULT_RECIPE
    team: str = "expert"
    seed: int = 0
    dynamic: tuple[DynamicAxis, ...] = ()
    """Extents that may vary; empty: a kernel is for the sizes of its workloads alone."""
    tolerance: TolerancePolicy | None = None
    """None: the task's own."""
    baselines: tuple[str, ...] | None = None
    """What is compared with besides eager; None: the usual ones."""
    evaluator: str | None = None
    """``http://HOST:PORT`` or ``drop:FOLDER``; None: the referee here."""
    cold: bool = False
    """The run knows of no other one."""
    blocks: bool | None = None
    """Take the model apart and optimise each kind of block; None: where one may occur twice."""
    with_backward: bool = False
    """Optimise the gradients, too: half of the budget is theirs."""
    again: bool = False
    """Measure anew where the store has the answer."""
    findings: str | None = None
    """Folder of documents, Markdown or text, that models are shown passages of."""
    record: str | None = None
    """Folder for its answers and measurements; such a run is cold."""
    output: str | None = None
    """The kernel's file; None: ``TASK_fast.py``."""
    report: str | None = None
    """The report's file; None: ``TASK_report.html``."""
    open_report: bool = False
    """Show the report in a browser."""

    _baselines = field_validator("baselines")(_once)

    @model_validator(mode="after")
    def _one_judge(self) -> "RunRequest":
        if self.evaluator is not None and self.workers is not None:
            raise UserError("--evaluator and --workers both say who judges; give one of them")
        return self


class EvaluateRequest(_WithWorkloads, _WithPolicy, _Confining):
    """Judge kernels: ``kernelwright evaluate``."""

    command: ClassVar[str] = "evaluate"
    task: TaskPlace
    kernels: tuple[KernelPlace, ...] = Field(min_length=1)
    final: bool = False
    """Longer, in fresh processes."""
    tolerance: TolerancePolicy | None = None
    baselines: tuple[str, ...] | None = None
    """None: eager."""
    device: str = "cpu"
    fresh_referee: bool = False
    """Start a referee for this command alone."""
    referee_idle: float = Field(default=REFEREE_IDLE_S, ge=0)
    """Seconds that the warm referee stays when nobody asks."""

    _baselines = field_validator("baselines")(_once)


class _OverTasks(_Confining):
    """A request about several tasks."""

    sources: tuple[TaskPlace, ...] = ()
    """Files, folders, the suite; empty: the suite. With a manifest: the one folder that its paths lie in."""
    manifest: str | None = None
    """YAML list of ``{path, overrides, group}``."""
    groups: tuple[str, ...] = ()
    """Of the manifest; empty: all."""
    only: str | None = None
    """Glob over the tasks' names."""
    limit: int | None = Field(default=None, ge=1)
    """The first so many."""

    @model_validator(mode="after")
    def _groups_need_a_manifest(self) -> "_OverTasks":
        if self.groups and self.manifest is None:
            raise UserError("--group picks from a manifest; give one with --tasks")
        if self.confine_tasks and self.manifest is not None:
            raise UserError(
                "--tasks: sizes of a manifest's tasks are found by running them in this process; with "
                "--confine-tasks name the files themselves"
            )
        return self


class _Experiment(_OverTasks, _Searching):
    """A request for many runs under one name."""

    name: str | None = None
    """None: the command, the date and the time."""
    resume: str | None = None
    """The experiment to go on with; what has ended in it is not repeated."""
    earlier: tuple[str, ...] = ()
    """Files of results from other stores or machines: what has ended there is not run."""
    out: str | None = None
    """Folder for the results; None: the experiment's name."""

    @model_validator(mode="after")
    def _one_name(self) -> "_Experiment":
        if self.name and self.resume and self.name != self.resume:
            raise UserError("--name and --resume name different experiments; give one of them")
        return self

    def resumed(self, title: str) -> "_Experiment":
        """Return the request that goes on with this experiment."""
        return self.model_copy(update={"name": None, "resume": title})


class BenchRequest(_Experiment, _WithPolicy):
    """Run one recipe over many tasks: ``kernelwright bench``."""

    command: ClassVar[str] = "bench"
    recipe: str = DEFAULT_RECIPE
    team: str = "expert"
    seed: int = 0
    baselines: tuple[str, ...] | None = None
    stop_after: float | None = Field(default=None, ge=1.0)
    """Seconds after which no further task is begun."""
    peers: bool = False
    """Compare what is delivered with all that a careful user could pick instead."""
    quick: bool = False
    """Deliver by the search's own verdicts."""
    profile: bool = True
    """On a GPU: profile candidates during the search."""

    _baselines = field_validator("baselines")(_once)


class CompareRequest(_Experiment):
    """Run recipes on the same tasks under one budget: ``kernelwright compare``."""

    command: ClassVar[str] = "compare"
    recipes: tuple[str, ...] = Field(default=(DEFAULT_RECIPE,), min_length=1)
    teams: tuple[str, ...] = Field(default=("expert",), min_length=1)
    seeds: tuple[int, ...] = Field(default=(0,), min_length=1)
    budget: Budget = Budget(evaluations=DEFAULT_EVALUATIONS)
    memory: Literal["cold", "warm"] = "cold"
    """What a run knows of others: nothing, or what the store knew when the comparison began."""
    reuse: bool = False
    """A candidate that came up before keeps its first measurement."""
    record: str | None = None
    """File that every measurement is added to."""
    replay: str | None = None
    """Recording or store that every measurement is read from."""

    @model_validator(mode="after")
    def _measurements_can_be_had(self) -> "CompareRequest":
        if self.replay is not None and self.record is not None:
            raise UserError("--replay measures nothing, so there is nothing to --record; give one of them")
        if self.replay is not None and self.workers is not None:
            raise UserError("--replay measures nothing, so there is no work for --workers; give one of them")
        if (self.reuse or self.replay is not None) and self.budget.seconds is not None:
            raise UserError(
                "--budget-seconds means nothing where measurements are not made anew; "
                "give --budget-evaluations"
            )
        return self

    @field_validator("recipes", "teams", "seeds")
    @classmethod
    def _each_once(cls, values: tuple[object, ...]) -> tuple[object, ...]:
        return tuple(dict.fromkeys(values))

    @field_validator("budget")
    @classmethod
    def _bounded(cls, budget: Budget) -> Budget:
        return Budget(evaluations=DEFAULT_EVALUATIONS) if budget == Budget() else budget


class CheckRequest(_OverTasks, _WithWorkloads):
    """Say what is wrong with tasks: ``kernelwright check``."""

    command: ClassVar[str] = "check"
    full_size: bool = False
    """Never reduce sizes."""
    max_ms: float = Field(default=MAX_MS, ge=0.1)
    """Estimated milliseconds of a call above which sizes are reduced."""
    max_mb: float = Field(default=MAX_MB, ge=1)
    """Estimated megabytes above which sizes are reduced."""
    out: str | None = None
    """Folder for results.json and results.md."""
    resume: bool = False
    """Keep what lies in ``out`` already."""

    @model_validator(mode="after")
    def _something_to_resume(self) -> "CheckRequest":
        if self.resume and self.out is None:
            raise UserError("--resume goes on with the results of an --out folder; name it")
        return self


class SpaceRequest(_WithWorkloads, _Confining):
    """Say which programs may be generated for a task: ``kernelwright space``."""

    command: ClassVar[str] = "space"
    task: TaskPlace
    target: str = "cpu/cpp"
    sample: int = Field(default=0, ge=0)
    """Points to draw by lot."""
    seed: int = 0


class TuneRequest(_WithWorkloads, _Confining):
    """Close what a kernel leaves open, or choose among generated programs: ``kernelwright tune``."""

    command: ClassVar[str] = "tune"
    task: TaskPlace
    kernel: KernelPlace | None = None
    """With ``TUNE``; None: points of the task's space."""
    seconds: float = Field(default=60.0, gt=0)
    """For building and timing points, once the default one runs; the referee's verdict comes after them."""
    target: str = "cpu/cpp"
    """Of the programs of the space."""
    seed: int = 0
    tolerance: TolerancePolicy | None = None
    library_calls: LibraryCalls = LibraryCalls.ALLOWED
    earlier: tuple[str, ...] = ()
    """T4 files of the same parameters, from earlier tuning or other machines, or folders named as ``out``."""
    output: str | None = None
    """File for the closed source; None: it is not written."""
    out: str | None = None
    """Folder for every point that was tried, also as T1 and T4; None: nothing is written."""


class AuditRequest(Request):
    """Judge every known cheat and hostile program: ``kernelwright audit``."""

    command: ClassVar[str] = "audit"
    families: tuple[int, ...] = ()
    """Empty: all."""
    only: str = "*"
    """Glob over the specimens' names."""
    device: str = "cpu"
    naive: bool = False
    """Also show what a harness that does not look says."""
    listing: bool = False
    """Judge nothing; show how each must end."""
    out: str | None = None
    """Folder for audit.json and cheats.md."""
    resume: bool = False
    """Keep what an audit that was interrupted has left in ``out``."""

    @model_validator(mode="after")
    def _something_to_resume(self) -> "AuditRequest":
        if self.resume and self.out is None:
            raise UserError("--resume goes on with what lies in a folder; name it with --out")
        return self


class ImportRequest(Request):
    """Make tasks and kernels of another benchmark's files: ``kernelwright convert import``."""

    command: ClassVar[str] = "convert import"
    format: Literal["flashinfer", "kernelbench", "popcorn", "robust-kbench"]
    source: str = Field(min_length=1)
    """File or folder."""
    out: str | None = None
    """Folder for the files; None: the working directory."""


class ExportRequest(_WithWorkloads, _Confining):
    """Write a task and its kernels in another format: ``kernelwright convert export``."""

    command: ClassVar[str] = "convert export"
    format: Literal["flashinfer", "hf-kernels", "kernelbench"]
    task: TaskPlace
    kernels: tuple[KernelPlace, ...] = ()
    verdicts: str | None = None
    """File with what ``evaluate --json`` printed of the kernels."""
    author: str = Field(default="kernelwright", min_length=1)
    device: str = "cpu"
    """What the kernels are for."""
    out: str | None = None
    """Folder for the files; None: the working directory."""


class SubmissionRequest(_Confining):
    """Judge somebody's whole KernelBench run: ``kernelwright submission``."""

    command: ClassVar[str] = "submission"
    folder: str = Field(min_length=1)
    """With ``level_L_problem_P_sample_S_kernel.py``."""
    problems: str = Field(min_length=1)
    """KernelBench's folder, with ``level1`` and so on."""
    limit: int | None = Field(default=None, ge=1)
    library_calls: LibraryCalls = LibraryCalls.ALLOWED
    device: str = "cpu"
    full_size: bool = False
    """Never reduce sizes."""
    max_ms: float = Field(default=MAX_MS, ge=0.1)
    max_mb: float = Field(default=MAX_MB, ge=1)
    reference_times: str | None = None
    """KernelBench's timing file of the reference, on the machine that their results are from."""
    out: str | None = None
    """Folder for submission.json and submission.md."""


class ClaimsRequest(Request):
    """Judge published kernels beside what was claimed of them: ``kernelwright verify-claims``."""

    command: ClassVar[str] = "verify-claims"
    folder: str = Field(min_length=1)
    """With ``claims.json``, tasks and kernels."""
    library_calls: LibraryCalls = LibraryCalls.ALLOWED
    device: str = "cpu"
    out: str | None = None
    """Folder for claims-judged.json and claims-judged.md."""


REQUESTS: tuple[type[Request], ...] = (
    RunRequest, EvaluateRequest, BenchRequest, CompareRequest, CheckRequest, SpaceRequest, TuneRequest,
    AuditRequest, ImportRequest, ExportRequest, SubmissionRequest, ClaimsRequest,
)  # fmt: skip
