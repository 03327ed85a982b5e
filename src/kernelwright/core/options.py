"""The table of options: how every field of a request is written on a command line.

The command line's options, their help, the configuration's keys and the line that repeats a run are all
made from ``OPTIONS``. A new option is a field in ``core/request.py`` and a line here.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from kernelwright.core.dynamic import parse_dynamic
from kernelwright.core.errors import UserError
from kernelwright.core.models import CallMode, Effort, OutputMode, StreamMode
from kernelwright.core.places import parse_place
from kernelwright.core.policy import LibraryCalls, Nonfinite, Weights
from kernelwright.core.task import Mode, TolerancePolicy
from kernelwright.core.workers import parse_workers
from kernelwright.core.workload_words import parse_workload, workload_word

MAX_MS, MAX_MB = 20.0, 100.0
"""Above these ``check`` reduces sizes; ours."""
REFEREE_IDLE_S = 600.0
"""How long a warm referee stays when nobody asks; ours."""
SandboxTier: TypeAlias = Literal["namespaces", "bubblewrap", "landlock", "limits"]
"""See ``referee/sandbox/tiers.py``."""
IMPORT_FORMATS = ("flashinfer", "kernelbench", "popcorn", "robust-kbench")
EXPORT_FORMATS = ("flashinfer", "hf-kernels", "kernelbench")
"""See ``formats/table.py``."""
Panel: TypeAlias = Literal["Task", "Search", "Budget", "Judging", "Language models", "Results"]


@dataclass(frozen=True)
class Option:
    """One option, or one argument, of one or more requests."""

    field: str
    """Of the request; ``budget.NAME`` and ``models.NAME`` are parts of one."""
    flag: str
    """``--name``; of an argument its name in capitals."""
    help: str
    panel: Panel
    kind: type[Any] = str
    choices: tuple[str, ...] = ()
    many: bool = False
    """May be repeated."""
    parse: Callable[[Any], Any] = lambda value: value
    """From what was written to the field's value, or to one of its values."""
    show: Callable[[Any], str] = str
    """The way back."""
    short: str = ""
    metavar: str | None = None
    minimum: float | None = None
    default: str | None = None
    """As help shows it, where the field's own default says too little."""
    only: tuple[str, ...] = ()
    """The commands that have it; empty: every one whose request has the field."""
    is_argument: bool = False
    is_off: bool = False
    """A switch that makes the field false."""
    is_always_said: bool = False
    """Said when it has its default, too: a configuration may have another one elsewhere."""
    is_configurable: bool = False
    """A configuration file and the environment may give it."""

    @property
    def key(self) -> str:
        """What the configuration and the command's function call it."""
        return self.flag.lstrip("-").lower().replace("-", "_").removesuffix("...")

    @property
    def group(self) -> str:
        """The request's own field, of which it may be a part."""
        return self.field.partition(".")[0]

    @property
    def part(self) -> str:
        """Which part; empty: the whole field."""
        return self.field.partition(".")[2]


def _choices(values: Iterable[Any]) -> tuple[str, ...]:
    return tuple(str(value) for value in values)


def _spelled(value: str) -> str:
    """Return a value as the command line spells it."""
    return str(value).replace("_", "-")


def _split(text: str) -> tuple[str, ...]:
    """Split at commas, but not within a team such as ``llm+planner=expert,coder=llm``."""
    found: list[str] = []
    for part in (part.strip() for part in text.split(",")):
        if "=" in part and "+" not in part and found and "+" in found[-1]:
            found[-1] += f",{part}"
        elif part:
            found.append(part)
    return tuple(found)


def _names(option: str) -> Callable[[str], tuple[str, ...]]:
    def parse(text: str) -> tuple[str, ...]:
        if not _split(text):
            raise UserError(f"{option} {text!r}: expected names with commas between them")
        return _split(text)

    return parse


def _seeds(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise UserError(f"--seeds {text!r}: expected whole numbers such as 0,1,2") from None


def _joined(values: Iterable[Any]) -> str:
    return ",".join(map(str, values))


_OVER_TASKS = ("bench", "compare", "check")
_EXPERIMENTS = ("bench", "compare")
_IMPORT, _EXPORT = "convert import", "convert export"
_DEVICE = "cpu, cuda, cuda:N, hip or hip:N."

OPTIONS: tuple[Option, ...] = (
    Option(
        "task", "FILE", "KernelBench-format file with Model and get_inputs, or suite:NAME.", "Task",
        parse=parse_place, only=("optimize",), is_argument=True,
    ),
    Option(
        "format", "FORMAT", "What is read.", "Task", choices=IMPORT_FORMATS, is_argument=True,
        only=(_IMPORT,),
    ),
    Option(
        "format", "FORMAT", "What is written.", "Task", choices=EXPORT_FORMATS, is_argument=True,
        only=(_EXPORT,),
    ),
    Option(
        "folder", "FOLDER", "Somebody's run: level_L_problem_P_sample_S_kernel.py.", "Task", is_argument=True,
        only=("submission",),
    ),
    Option(
        "folder", "FOLDER", "Tasks, kernels and claims.json.", "Task", is_argument=True,
        only=("verify-claims",),
    ),
    Option(
        "problems", "PROBLEMS", "KernelBench's folder, with level1 and so on.", "Task", is_argument=True,
    ),
    Option(
        "source", "SOURCE", "File or folder in that format.", "Task", is_argument=True, only=(_IMPORT,),
    ),
    Option(
        "task", "TASK", "KernelBench-format file, or suite:NAME.", "Task",
        parse=parse_place, only=("evaluate", "space", "tune", _EXPORT), is_argument=True,
    ),
    Option(
        "kernels", "KERNEL...", "Files that define ModelNew.", "Task", metavar="KERNEL",
        parse=parse_place, many=True, is_argument=True,
    ),
    Option(
        "kernel", "KERNEL", "File that defines ModelNew and TUNE; none: the programs of the task's space.",
        "Task",
        parse=parse_place, is_argument=True,
    ),
    Option(
        "sources", "SOURCES", "Tasks; default: our own suite.", "Task", metavar="[suite | FOLDER | FILE...]",
        parse=parse_place, many=True, is_argument=True, only=_OVER_TASKS,
    ),
    Option(
        "workloads", "--workload", "One more shape to be right and fast on; rebinds module-level globals. "
        "Repeatable.", "Task", metavar="NAME:GLOBAL=VALUE,...", many=True,
        parse=parse_workload, show=workload_word,
    ),
    Option(
        "dynamic", "--dynamic", "An extent that may vary: kernels hold for the whole range, are verified on "
        "its edges and on extents drawn from it, and timed at the task's own or those after @. Repeatable.",
        "Task", metavar="NAME[=INPUT:AXIS,...][:MIN-MAX][@SIZE,...]", many=True, parse=parse_dynamic,
        show=lambda axis: axis.words,
    ),
    Option("mode", "--mode", "Train or eval mode.", "Task", choices=_choices(Mode), default="the file's"),
    Option(
        "tolerance", "--tolerance", "How far from the oracle is allowed.", "Task",
        choices=_choices(TolerancePolicy), default="the file's", is_configurable=True,
    ),
    Option(
        "manifest", "--tasks", "YAML list of {path, overrides, group}; give the folder as argument.", "Task",
        metavar="PATH",
    ),
    Option("groups", "--group", "Only this group of --tasks; may be repeated.", "Task", many=True),
    Option("only", "--only", "Glob over task names, or CATEGORY/NAME: level1/*.", "Task", only=_OVER_TASKS),
    Option(
        "only", "--only", "Only specimens of such names.", "Task", metavar="GLOB", default="*",
        only=("audit",),
    ),
    Option("families", "--family", "Only this family; repeatable.", "Task", kind=int, many=True),
    Option("limit", "--limit", "The first N tasks.", "Task", kind=int, metavar="N", minimum=1),
    Option(
        "recipe", "--recipe", "How to search: {methods}; see docs/recipes.", "Search",
        is_always_said=True, is_configurable=True,
    ),
    Option(
        "recipes", "--recipes", "Who is compared.", "Search", metavar="NAME,...",
        parse=_names("--recipes"), show=_joined,
    ),
    Option(
        "team", "--team", "Who plans and writes: expert, llm, or a mixture such as "
        "expert+planner=llm,coder=llm.", "Search", is_always_said=True, is_configurable=True,
    ),
    Option(
        "teams", "--team", "Who plays; each recipe is played by each.", "Search", metavar="NAME,...",
        parse=_names("--team"), show=_joined,
    ),
    Option(
        "target", "--target", "Device and language to write for.", "Search",
        is_always_said=True, is_configurable=True,
    ),
    Option(
        "seed", "--seed", "Seed of the search's own choices.", "Search", kind=int,
        is_always_said=True, is_configurable=True,
    ),
    Option(
        "seeds", "--seeds", "Each task is run once per seed.", "Search", metavar="NUMBER,...",
        parse=_seeds, show=_joined,
    ),
    Option(
        "sample", "--sample", "Draw so many points by lot, and say what each decides.", "Search", kind=int,
        metavar="N", minimum=0,
    ),
    Option(
        "memory", "--memory", "cold: no run knows of another. warm: all know what the store knew when it "
        "began.", "Search", choices=("cold", "warm"),
    ),
    Option(
        "blocks", "--blocks", "Take the model apart: optimise each kind of block once, then put it together. "
        "See docs/whole-models.md.", "Search", kind=bool,
        default="where a kind occurs twice",
    ),
    Option(
        "blocks", "--no-blocks", "Optimise the model as one kernel.", "Search", kind=bool, is_off=True,
    ),
    Option(
        "with_backward", "--with-backward", "Optimise the gradients, too, for training; half of the budget "
        "is theirs. See docs/delivery.md.", "Search", kind=bool,
    ),
    Option(
        "again", "--again", "Measure anew, also where the store has the answer to the same request.",
        "Search", kind=bool,
    ),
    Option("cold", "--cold", "Begin with no memory of other runs.", "Search", kind=bool),
    Option(
        "findings", "--findings", "Show models what documents in Markdown or text say of the task.",
        "Search", metavar="FOLDER",
    ),
    Option(
        "earlier", "--earlier", "Begin with what tuning the same parameters measured before, here or on "
        "another machine: a T4 file, or a folder that --out named. Repeatable.", "Search", metavar="PATH",
        many=True, only=("tune",),
    ),
    Option(
        "budget.evaluations", "--budget-evaluations", "Candidates to measure at most.", "Budget", kind=int,
        metavar="N", minimum=1, default="the recipe's", is_configurable=True,
    ),
    Option(
        "budget.seconds", "--budget-seconds", "Seconds to search at most.", "Budget", kind=float,
        metavar="SECONDS", minimum=0,
        is_configurable=True, show=repr,
    ),
    Option(
        "budget.model_calls", "--budget-calls", "Requests to models at most.", "Budget", kind=int,
        metavar="N",
        minimum=1,
        is_configurable=True,
    ),
    Option(
        "budget.tokens", "--budget-tokens", "Tokens in and out at most.", "Budget", kind=int, metavar="N",
        minimum=1,
        is_configurable=True,
    ),
    Option(
        "budget.usd", "--budget-usd", "US dollars at most.", "Budget", kind=float, metavar="USD", minimum=0,
        is_configurable=True, show=repr,
    ),
    Option(
        "seconds", "--seconds", "For building and timing points.", "Budget", kind=float, metavar="SECONDS",
        minimum=0, show=repr,
    ),
    Option(
        "stop_after", "--stop-after", "Begin no further task then; go on with --resume.", "Budget",
        metavar="SECONDS", kind=float, minimum=1, show=repr,
    ),
    Option("final", "--final", "Longer, in fresh processes.", "Judging", kind=bool),
    Option(
        "baselines", "--baseline", "Compare what is delivered with this: eager, torch_compile; on the "
        "processor also torch_compile_frozen, onnxruntime, openvino; on a GPU also eager_tf32, "
        "torch_compile_max_autotune. Repeatable.", "Judging", many=True,
        default="eager and torch_compile", only=("optimize", "bench"), is_configurable=True,
    ),
    Option(
        "baselines", "--baseline", "eager or torch_compile; on the processor also torch_compile_frozen, "
        "onnxruntime, openvino; on a GPU also eager_tf32, torch_compile_max_autotune. Repeatable.",
        "Judging", many=True, default="eager",
        only=("evaluate",),
    ),
    Option(
        "peers", "--peers", "Compare what is delivered with all that a careful user could pick instead: on "
        "the processor torch.compile, the same autotuned with frozen weights, ONNX Runtime and OpenVINO "
        "(extra peers).", "Judging", kind=bool, only=("bench",),
    ),
    Option(
        "library_calls", "--library-calls", "May a kernel leave the work to torch and its libraries?",
        "Judging", choices=_choices(LibraryCalls), is_configurable=True,
    ),
    Option(
        "weights", "--weights", "every-call: weights change between calls, so each call pays for what it "
        "computes from them. frozen: they are constant, and a kernel may prepare them once.", "Judging",
        choices=tuple(_spelled(value) for value in Weights), parse=Weights, show=_spelled,
        default="every-call", is_configurable=True,
    ),
    Option(
        "nonfinite", "--nonfinite", "NaN and infinity in inputs. auto: judged where the task keeps them in "
        "their row. same: must come out as the task has them. ignored: never tried.", "Judging",
        choices=_choices(Nonfinite), parse=Nonfinite, is_configurable=True,
    ),
    Option(
        "peak_memory", "--peak-memory", "How many times the original's peak memory a delivered module may "
        "take; a final measures it.", "Judging", kind=float, minimum=0.01, default="1.25",
        is_configurable=True,
    ),
    Option(
        "evaluator", "--evaluator", "Judge candidates elsewhere: at a `kernelwright serve`, or through files "
        "in a folder.", "Judging", metavar="URL | drop:FOLDER", default="the referee here",
        is_configurable=True,
    ),
    Option(
        "workers", "--workers", "Judge on the devices of a Ray cluster, tasks side by side: one of this "
        "command's own on this machine, or one that runs. See docs/fleet.md.", "Judging",
        metavar="ray | ray://HOST:PORT", default="the referee here", parse=parse_workers,
    ),
    Option("device", "--device", f"Where candidates run: {_DEVICE}", "Judging", is_configurable=True),
    Option(
        "quick", "--quick", "Deliver by the search's own verdict: no final measurement in fresh processes, "
        "no profile, compared with eager and what --baseline names.", "Judging", kind=bool,
    ),
    Option(
        "profile", "--no-profile", "On a GPU: profile no candidate during the search.", "Judging", kind=bool,
        is_off=True,
    ),
    Option(
        "profile_unconfined", "--profile-unconfined", "On a GPU: profile what models wrote, too. Profilers "
        "run it outside the sandbox, with your rights.", "Judging", kind=bool,
    ),
    Option(
        "reuse", "--reuse-measurements", "Measure a candidate once per task, whoever proposes it; it is "
        "charged all the same.", "Judging", kind=bool,
    ),
    Option(
        "replay", "--replay", "Measure nothing: read a recording (file or folder), or a store.", "Judging",
        metavar="PATH",
    ),
    Option("full_size", "--full-size", "Never reduce sizes, on which flags depend.", "Judging", kind=bool),
    Option(
        "max_ms", "--max-ms", "Reduce sizes above this estimated time of a call.", "Judging", kind=float,
        minimum=0.1, show=repr, default=f"{MAX_MS:g}",
    ),
    Option(
        "max_mb", "--max-mb", "Reduce sizes above this estimated memory.", "Judging", kind=float, minimum=1,
        show=repr, default=f"{MAX_MB:g}",
    ),
    Option(
        "naive", "--naive", "Also show the verdicts of a naive harness, unconfined.", "Judging",
        kind=bool,
    ),
    Option("listing", "--list", "Judge nothing; show how each must end.", "Judging", kind=bool),
    Option(
        "require_sandbox", "--require-sandbox", "Refuse to judge in a weaker sandbox than this.", "Judging",
        choices=get_args(SandboxTier), default="the best there is", is_configurable=True,
    ),
    Option(
        "confine_tasks", "--confine-tasks", "The task is a stranger's: run its code in the sandbox only.",
        "Judging", kind=bool,
    ),
    Option(
        "fresh_referee", "--fresh-referee", "Judge in a referee of this command's own, not in the one that "
        "stays warm between commands.", "Judging", kind=bool, is_configurable=True,
    ),
    Option(
        "referee_idle", "--referee-idle", "Seconds that the warm referee stays when nobody asks; 0: there is "
        "none.", "Judging",
        kind=float, metavar="SECONDS", minimum=0, show=repr, default=f"{REFEREE_IDLE_S:g}",
        is_configurable=True,
    ),
    Option(
        "models.model", "--model", "Model of every seat that is a model's, e.g. openai:gpt-5. Keys come from "
        "the environment.", "Language models", metavar="PROVIDER:NAME", is_configurable=True,
    ),
    Option(
        "models.base_url", "--base-url", "A server that speaks OpenAI's protocol, or Anthropic's; key: "
        "KERNELWRIGHT_API_KEY.", "Language models", is_configurable=True,
    ),
    Option(
        "models.roles", "--role-model", "Another model, or temperature, for one role; after ';' base_url=, "
        "max_output_tokens=, price=INPUT/OUTPUT. Repeatable.", "Language models",
        metavar="ROLE=[PROVIDER:NAME][@TEMPERATURE]", many=True, is_configurable=True,
    ),
    Option(
        "models.temperature", "--temperature", "Temperature of every role.", "Language models", kind=float,
        minimum=0, default="the server's", is_configurable=True,
    ),
    Option(
        "models.max_output_tokens", "--max-output-tokens", "Tokens of one answer at most.",
        "Language models", kind=int, minimum=16, default="8192", is_configurable=True,
    ),
    Option(
        "models.effort", "--effort", "How long reasoning models think; what they think is part of "
        "--max-output-tokens.", "Language models", choices=get_args(Effort), default="the server's",
        is_configurable=True,
    ),
    Option(
        "models.context_tokens", "--context-tokens", "The model's context, answers included, where it is "
        "small: prompts are cut to fit.", "Language models", kind=int, minimum=512, is_configurable=True,
    ),
    Option(
        "models.price", "--price", "US dollars per million tokens, where no list knows the model. "
        "Repeatable.", "Language models", metavar="[PROVIDER:NAME=]INPUT,OUTPUT", many=True,
        is_configurable=True,
    ),
    Option(
        "models.output_mode", "--output-mode",
        "How structured answers are asked for; auto: as the server can.",
        "Language models",
        choices=get_args(OutputMode), default="auto", is_configurable=True,
    ),
    Option(
        "models.calls", "--calls", "merged: plan and kernel, or diagnosis and repair, in one answer. "
        "separate: one request each, as published.", "Language models",
        choices=get_args(CallMode), default="merged",
        is_configurable=True,
    ),
    Option(
        "models.kernels_per_call", "--kernels-per-call", "Kernels that one answer may hold, each a candidate "
        "of its own.", "Language models", kind=int, minimum=1, default="1", is_configurable=True,
    ),
    Option(
        "models.concurrency", "--concurrency", "Requests to models under way at once, where questions do not "
        "depend on each other's answers.", "Language models", kind=int, minimum=1, default="1",
        is_configurable=True,
    ),
    Option(
        "models.tool_calls", "--tool-calls", "Calls of tools before one answer at most, where the server "
        "takes tools; 0: none are offered. Each costs a request.", "Language models", kind=int, minimum=0,
        default="3", is_configurable=True,
    ),
    Option(
        "models.stream", "--stream", "auto: answers come piece by piece where the server can send them so.",
        "Language models", choices=get_args(StreamMode), default="auto", is_configurable=True,
    ),
    Option(
        "models.timeout_s", "--model-timeout", "Seconds that one request may take; of a streamed answer, "
        "each piece of it.", "Language models", kind=float, minimum=0, default="300", is_configurable=True,
    ),
    Option(
        "models.max_reply_bytes", "--max-reply-bytes", "Size of one answer on the wire.", "Language models",
        kind=int, minimum=1, default="8388608", is_configurable=True,
    ),
    Option(
        "models.instrument", "--instrument", "Emit OpenTelemetry spans: run, steps, requests to models, "
        "tools, evaluations.", "Language models", kind=bool, is_configurable=True,
    ),
    Option(
        "store", "--store", "SQLite file or SQLAlchemy URL of the store.", "Results",
        default="KERNELWRIGHT_STORE",
    ),
    Option("name", "--name", "Name of the experiment.", "Results", default="COMMAND-DATE-TIME"),
    Option(
        "resume", "--resume", "Go on; what has ended is skipped.", "Results", metavar="NAME",
        only=_EXPERIMENTS,
    ),
    Option(
        "resume", "--resume", "Keep what --out has already and do the rest.", "Results", kind=bool,
        only=("check", "audit"),
    ),
    Option(
        "earlier", "--earlier", "Take over what this results.json, or comparison.json, has from another "
        "store or machine; the conditions must be the same. Repeatable.", "Results", metavar="FILE",
        many=True, only=_EXPERIMENTS,
    ),
    Option("out", "--out", "Folder for the results.", "Results", default="./NAME", only=_EXPERIMENTS),
    Option(
        "out", "--out", "Folder for the results.", "Results", metavar="FOLDER",
        only=("check", "audit", "submission", "verify-claims"),
    ),
    Option(
        "out", "--out", "Folder for the files.", "Results", metavar="FOLDER", default="here",
        only=(_IMPORT, _EXPORT),
    ),
    Option(
        "reference_times", "--reference-times", "KernelBench's timing file of the machine that their results "
        "are from: fast_p as theirs.", "Judging", metavar="FILE",
    ),
    Option(
        "verdicts", "--verdicts", "What `evaluate --json` printed of the kernels.", "Results", metavar="FILE",
    ),
    Option("author", "--author", "Who made the kernels.", "Results", default="kernelwright"),
    Option(
        "record", "--record", "Folder for the run's answers and measurements: see runs replay.", "Results",
        metavar="FOLDER", only=("optimize",),
    ),
    Option(
        "record", "--record", "Add every measurement to this file, for --replay.", "Results",
        metavar="FILE", only=("compare",),
    ),
    Option(
        "output", "--output", "Kernel file.", "Results", short="-o", default="FILE_fast.py",
        only=("optimize",),
    ),
    Option("output", "--output", "File for the tuned kernel.", "Results", short="-o", only=("tune",)),
    Option(
        "out", "--out", "Folder for every tried point, also as Kernel Tuner's T1 and T4.", "Results",
        metavar="FOLDER", only=("tune",),
    ),
    Option("report", "--report", "HTML report.", "Results", default="FILE_report.html"),
    Option("open_report", "--open", "Open the report.", "Results", kind=bool),
)  # fmt: skip
