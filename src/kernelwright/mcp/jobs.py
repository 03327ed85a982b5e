"""What takes long, each as a function of text and options; carried out in a process of its own."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernelwright import api
from kernelwright.api.diagnosing import run_diagnose
from kernelwright.api.front import request_for
from kernelwright.api.inspecting import looking, require_inputs, wanted_gpu
from kernelwright.api.machines import parse_target
from kernelwright.api.optimizing import finish
from kernelwright.api.planning import write_plan
from kernelwright.api.recalling import recall
from kernelwright.api.spaces import run_space
from kernelwright.api.tuning import run_tune
from kernelwright.core.errors import UserError
from kernelwright.core.events import CandidateEvaluated, Event
from kernelwright.core.plan import Plan
from kernelwright.core.request import CheckRequest, EvaluateRequest, RunRequest, SpaceRequest, TuneRequest
from kernelwright.mcp import advice
from kernelwright.mcp.answers import (
    Answer,
    BottleneckReport,
    Inspected,
    KernelTable,
    KernelVerdict,
    LoweredKernel,
    Memory,
    NamedVerdict,
    Optimized,
    ProgramSpace,
    TaskReport,
    TunedKernel,
)
from kernelwright.mcp.asked import (
    CHECK,
    EVALUATE,
    LOWER,
    MAX_SAMPLE,
    OPTIMIZE,
    SPACE,
    TUNE,
    kernel_of,
    place_of,
)
from kernelwright.mcp.convert import (
    bottleneck_report,
    gpu_report,
    kernel_verdict,
    lowered_kernel,
    memory_of,
    program_space,
    task_report,
    tuned_kernel,
)
from kernelwright.report.progress import activity
from kernelwright.report.results import KernelComparison
from kernelwright.report.story import Story, tell
from kernelwright.report.verdict import run_verdict
from kernelwright.settings import Settings
from kernelwright.store.base import Store
from kernelwright.store.reading import open_for_reading
from kernelwright.targets.gpu.inspect.compiled import default_gpu, form_of
from kernelwright.targets.gpu.inspect.inspection import KernelForm
from kernelwright.tasks.places import load_place

Options = Mapping[str, Any] | None


@dataclass(frozen=True)
class JobContext:
    """What a job is given beside its arguments."""

    settings: Settings
    say: Callable[[str], None]
    """Tells the caller how far it has come."""

    def read_store(self) -> Store:
        """Open the store to look at it."""
        return open_for_reading(self.settings.store, must_exist=False)


def check_task(call: JobContext, task: str, options: Options = None) -> TaskReport:
    """Say what is wrong with a task."""
    fields = CHECK.fields(options)
    request = request_for(CheckRequest, call.settings, sources=(place_of(task),), **fields)
    call.say("examining the task")
    result = api.run_check(request, settings=call.settings, progress=False)
    return task_report(result.checkups[0])


def evaluate(call: JobContext, task: str, kernel: str, options: Options = None) -> KernelVerdict:
    """Judge one kernel."""
    request = _judging(call, task, {"kernel": kernel}, options)
    call.say("building, verifying, timing the kernel")
    (evaluation,) = api.run_evaluate(request, settings=call.settings)
    return kernel_verdict(evaluation)


def compare_kernels(
    call: JobContext, task: str, kernels: Mapping[str, str], options: Options = None
) -> KernelTable:
    """Judge several kernels in one session."""
    if not kernels:
        raise UserError("kernels: there is none; pass at least one name with its source text")
    request = _judging(call, task, kernels, options)
    verdicts = api.run_evaluate(request, settings=call.settings)
    found = []
    for number, name in enumerate(kernels, 1):
        call.say(f"judging {name}, {number} of {len(kernels)}")
        found.append(next(verdicts))
    next(verdicts, None)
    best = KernelComparison(request.task.title, tuple(kernels), tuple(found)).best
    rows = tuple(
        NamedVerdict(name=name, verdict=kernel_verdict(one)) for name, one in zip(kernels, found, strict=True)
    )
    return KernelTable(kernels=rows, best=best, next=advice.COMPARED if best else rows[0].verdict.next)


def diagnose(
    call: JobContext,
    task: str,
    kernel: str,
    plan: Sequence[Mapping[str, Any]] | None = None,
    options: Options = None,
) -> BottleneckReport:
    """Judge a kernel and say what limits it."""
    request = _judging(call, task, {"kernel": kernel}, options)
    call.say("building, verifying, timing the kernel")
    known = None if plan is None else Plan.model_validate({"moves": plan})
    found = run_diagnose(request, plan=known, settings=call.settings, store=call.read_store())
    return bottleneck_report(found)


def _judging(call: JobContext, task: str, kernels: Mapping[str, str], options: Options) -> EvaluateRequest:
    fields = EVALUATE.fields(options)
    places = tuple(kernel_of(source, name.replace(":", "_") or "kernel") for name, source in kernels.items())
    return request_for(EvaluateRequest, call.settings, task=place_of(task), kernels=places, **fields)


def lower_plan(
    call: JobContext, task: str, moves: Sequence[Mapping[str, Any]] = (), options: Options = None
) -> LoweredKernel:
    """Have the expert write a kernel for a plan."""
    fields = LOWER.fields(options)
    request = request_for(RunRequest, call.settings, task=place_of(task), **fields)
    call.say("capturing the graph and writing the kernel")
    found = load_place(
        request.task, workloads=request.workloads, mode=request.mode, tolerance=request.tolerance
    )
    target = parse_target(request.target, is_elsewhere=True)
    return lowered_kernel(
        write_plan(found, Plan.model_validate({"moves": moves}), target, settings=call.settings)
    )


def space(call: JobContext, task: str, options: Options = None) -> ProgramSpace:
    """Say which programs may be generated for a task."""
    fields = SPACE.fields(options)
    request = request_for(SpaceRequest, call.settings, task=place_of(task), **fields)
    if request.sample > MAX_SAMPLE:
        raise UserError(f"options: sample {request.sample} is more than {MAX_SAMPLE}")
    call.say("capturing the graph and counting decisions")
    return program_space(run_space(request, settings=call.settings))


def tune(call: JobContext, task: str, kernel: str | None = None, options: Options = None) -> TunedKernel:
    """Close what a kernel leaves open, or choose among the programs of the space."""
    fields = TUNE.fields(options)
    place = None if kernel is None else kernel_of(kernel)
    request = request_for(TuneRequest, call.settings, task=place_of(task), kernel=place, **fields)
    call.say(f"building and timing points for {request.seconds:.0f} s; the verdict comes after them")
    return tuned_kernel(run_tune(request, settings=call.settings))


def memory_recall(
    call: JobContext,
    task: str | None = None,
    skill: str | None = None,
    target: str | None = None,
    count: int = 8,
) -> Memory:
    """Say what earlier runs have taught, about tasks like one where one is given."""
    name = parse_target(target or RunRequest.model_fields["target"].default, is_elsewhere=True)
    like = None if task is None else load_place(place_of(task))
    call.say("looking the task up in the archive" if task else "reading the store")
    found = recall(
        call.read_store(), target=name, skill=skill, task=like, count=count, settings=call.settings
    )
    return memory_of(found)


def inspect(
    call: JobContext,
    kernel: str,
    task: str | None = None,
    gpus: Sequence[str] = (),
    options: Options = None,
) -> Inspected:
    """Build a candidate's GPU kernels ahead of time."""
    source = kernel_of(kernel).source
    form = form_of(source)
    wanted = [wanted_gpu(name, form) for name in dict.fromkeys(gpus or [default_gpu(form)])]
    fields = LOWER.fields(options)
    request = request_for(RunRequest, call.settings, task=place_of(task), **fields) if task else None
    inputs = None
    if form == KernelForm.TRITON and request is not None:
        inputs = load_place(request.task, workloads=request.workloads, mode=request.mode)
    elif form == KernelForm.TRITON:
        require_inputs("kernel", source)
    found = []
    with looking(form, source, inputs, call.settings) as look:
        for one in wanted:
            call.say(f"building for {one.architecture}")
            found.append(gpu_report(look(one)))
    can_run = all(report.can_run for report in found)
    return Inspected(
        can_run=can_run,
        gpus=tuple(found),
        next=advice.INSPECTED if can_run else advice.NOT_INSPECTED,
    )


def optimize(
    call: JobContext,
    task: str | None = None,
    name: str = "task",
    resume: str | None = None,
    options: Options = None,
) -> Optimized:
    """Search for a faster module."""
    if (task is None) == (resume is None):
        raise UserError("optimize takes a task, or resume with the id of a run that was interrupted")
    if task is None:
        begun = api.resume(str(resume), settings=call.settings)
    else:
        place = place_of(task, name)
        request = request_for(RunRequest, call.settings, task=place, **OPTIMIZE.fields(options))
        request = request.model_copy(update={"again": True, "blocks": False})  # a job is one run of its own
        begun = api.begin(request, settings=call.settings)
    call.say(f"run {begun.run_id} has begun; after an interruption pass it as resume")
    watch = _Watch(call.say, begun.spec.budget.evaluations)
    result = finish(begun, progress=False, on_event=watch.add)
    story = tell(stored.event for stored in begun.store.iter_events(result.run_id))
    verdict = run_verdict(story)
    return Optimized(
        run_id=result.run_id,
        improved=result.source is not None,
        headline=verdict.headline,
        says=verdict.lines,
        source=result.source,
        verdict=kernel_verdict(result.evaluation) if result.evaluation and result.source else None,
        report=f"kernelwright://runs/{result.run_id}/report",
        next=advice.OPTIMIZED if result.source is not None else advice.UNCHANGED,
    )


class _Watch:
    """Says how far a run has come, event by event."""

    def __init__(self, say: Callable[[str], None], evaluations: int | None) -> None:
        self._say, self._of = say, "" if evaluations is None else f" of {evaluations}"
        self._story, self._done, self._doing = Story(), 0, ""

    def add(self, event: Event) -> None:
        """Say what an event means."""
        self._story.add(event)
        self._done += isinstance(event, CandidateEvaluated) and not event.evaluation.is_final
        self._doing = activity(event, self._story) or self._doing
        best = self._story.best
        shown = f", best {best.speedup} over eager" if best is not None and best.speedup else ""
        self._say(f"{self._done}{self._of} evaluations{shown}: {self._doing}")


JOBS: dict[str, Callable[..., Answer]] = {
    job.__name__: job
    for job in (
        check_task, evaluate, compare_kernels, diagnose, lower_plan, space, tune, memory_recall, inspect,
        optimize,
    )
}  # fmt: skip
"""By the name of their tool; the first argument is the context."""
