"""The functions that users call: keywords in, a request made of them, results out.

Every function takes what its command takes. What is left out comes from the environment, the project's
file, the user's file, or is built in: see docs/configuration.md.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeGuard, TypeVar

from torch import nn

from kernelwright.api.auditing import run_audit
from kernelwright.api.benching import run_bench
from kernelwright.api.checking import run_check
from kernelwright.api.comparing import run_compare
from kernelwright.api.judging import run_evaluate
from kernelwright.api.models_apart import finish_by_blocks
from kernelwright.api.optimizing import OptimizeResult, finish
from kernelwright.api.spaces import run_space
from kernelwright.api.starting import Begun, begin
from kernelwright.api.starting import resume as resume_run
from kernelwright.api.training import finish_with_backward
from kernelwright.api.tuning import run_tune
from kernelwright.core.budget import Budget
from kernelwright.core.dynamic import read_dynamic
from kernelwright.core.errors import UserError
from kernelwright.core.evaluation import Evaluation
from kernelwright.core.events import Event
from kernelwright.core.models import ModelSettings
from kernelwright.core.places import AsText, AtPath, KernelPlace, TaskPlace, parse_place
from kernelwright.core.policy import LibraryCalls, Nonfinite, Weights
from kernelwright.core.request import (
    AuditRequest,
    BenchRequest,
    CheckRequest,
    CompareRequest,
    EvaluateRequest,
    Request,
    RunRequest,
    SpaceRequest,
    TuneRequest,
)
from kernelwright.core.request_words import defaults_for, make_request, read_values
from kernelwright.core.target import TargetName
from kernelwright.core.task import Mode, Task, TolerancePolicy, Workload
from kernelwright.corpus.results import AuditResult
from kernelwright.delivery import saving
from kernelwright.delivery.runtime import calls
from kernelwright.delivery.runtime.calls import CallReport
from kernelwright.delivery.runtime.contract import require_underived
from kernelwright.report.results import BenchResult, CheckResult, ComparisonResult, KernelComparison
from kernelwright.report.runlist import RunList, list_runs
from kernelwright.report.spaces import SpaceResult
from kernelwright.report.tuned import TuneResult
from kernelwright.runs.evaluator import Evaluator
from kernelwright.settings import Settings, load_settings
from kernelwright.store import sqlstore
from kernelwright.store.base import Store
from kernelwright.store.reading import open_for_reading
from kernelwright.tasks.live import task_from_module
from kernelwright.tasks.places import save_task
from kernelwright.tasks.randomness import kept_random_state

What = str | Path | nn.Module | Task
"""A task: a path, ``suite:NAME``, source text (it has a line break), a module, or a task."""
AnyRequest = TypeVar("AnyRequest", bound=Request)
WITH_RESUME = frozenset(
    {"what", "resume", "evaluator", "require_sandbox", "progress", "store", "settings", "on_event"}
)
"""What ``optimize`` takes for a run that goes on; all else was settled when it began."""


@kept_random_state()
def optimize(
    what: What | None = None,
    inputs: Any = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    name: str | None = None,
    recipe: str | None = None,
    team: str | None = None,
    models: ModelSettings | str | None = None,
    target: str | TargetName | None = None,
    seed: int | None = None,
    budget: Budget | None = None,
    baselines: Sequence[str] | None = None,
    workloads: Sequence[Workload] = (),
    dynamic_shapes: Any = None,
    mode: Mode | str | None = None,
    tolerance: TolerancePolicy | str | None = None,
    library_calls: LibraryCalls | str | None = None,
    weights: Weights | str | None = None,
    nonfinite: Nonfinite | str | None = None,
    peak_memory: float | None = None,
    evaluator: Evaluator | str | None = None,
    workers: str | None = None,
    cold: bool = False,
    blocks: bool | None = None,
    with_backward: bool = False,
    again: bool = False,
    findings: str | Path | None = None,
    record: str | Path | None = None,
    require_sandbox: str | None = None,
    confine_tasks: bool = False,
    profile_unconfined: bool = False,
    resume: str | None = None,
    progress: bool | None = None,
    store: Store | str | Path | None = None,
    settings: Settings | None = None,
    on_event: Callable[[Event], None] | None = None,
) -> OptimizeResult:
    """Search for a faster module that computes the same, and prove it.

    Args:
        what: a KernelBench-format file or its text, ``suite:NAME``, or any ``nn.Module`` (it is not
            changed).
        inputs: of a module: positional arguments of ``forward``, or a list of such tuples, one per workload.
        kwargs: of a module: further arguments of ``forward``, by name.
        name: how the run is called; default: the class's name.
        recipe: how to search; default ``kernelwright``.
        team: who plans and writes: ``expert`` (the default), ``llm`` or a mixture.
        models: of the seats that are a model's; text names one, ``openai:gpt-5``.
        target: device and language; default ``cpu/cpp``.
        seed: of the search's own choices; default 0.
        budget: when to stop; amounts that it leaves open are the recipe's own.
        baselines: what is compared with besides eager.
        workloads: shapes to be right and fast on, in the place of the task's own.
        dynamic_shapes: extents that may vary: text such as ``batch:1-64`` or ``rows=x:0,y:0:1-64``, a list
            of such, or as for ``torch.export``: ``{"x": {0: Dim("batch", min=1, max=64)}}``.
            See docs/delivery.md.
        mode: train or eval mode; default: the task's own.
        tolerance: how far from the oracle is allowed; default: the task's own.
        library_calls: may a kernel leave the work to torch and its libraries? Default ``allowed``.
        weights: ``every_call``: each call pays for what it computes from weights; ``frozen``: weights are
            constant, and a kernel may prepare them once. Default ``every_call``.
        nonfinite: is NaN and infinity judged: ``auto``, ``same`` or ``ignored``; see docs/referee/inputs.md.
        peak_memory: how many times the original's peak memory the module may take. Default 1.25.
        evaluator: who judges, an address or an object; default: the referee here.
        workers: ``ray`` or ``ray://HOST:PORT``: a device of that cluster judges; see docs/fleet.md.
        cold: begin with no memory of other runs.
        blocks: take the model apart, optimise each kind of block once and put the model together; None:
            where a kind of block occurs twice. See docs/whole-models.md.
        with_backward: optimise the gradients, too, for training; half of the budget is theirs. The default
            runs the original where gradients are needed. See docs/delivery.md.
        again: measure anew, also where the store has the answer to the same request.
        findings: folder of documents, Markdown or text, that models are shown passages of.
        record: folder for the run's answers and measurements.
        require_sandbox: refuse to judge in a weaker sandbox.
        confine_tasks: the task is a stranger's file: run its code in the sandbox only.
        profile_unconfined: on a GPU, profile what models wrote, too, outside the sandbox.
        resume: a run that was interrupted: carry it on as it was begun. ``what`` may then be the module that
            it was for; evaluator, require_sandbox, progress, store, settings and on_event may be given too.
        progress: a display; None: on a terminal and in a notebook; False: silent.
        store: where runs are kept: an open one, a path or a URL.
        settings: in the place of what configuration files and the environment say.
        on_event: called with each event as it happens.

    Raises:
        TaskError: the task does not load, raises, is not deterministic or gives non-finite outputs.
        UserError: an option that cannot be.
        MachineError: no compiler, or not enough memory.
        KeyboardInterrupt: as it came, once the store is consistent: ``resume`` carries the run on, and
            ``kernelwright.api.best_so_far`` has the best verified kernel by then.

    Example:
        >>> result = kernelwright.optimize(model, (x,))  # doctest: +SKIP
        >>> result.module(x)  # doctest: +SKIP
    """
    given = dict(locals())
    where = settings or load_settings()
    opened = store if _is_store(store) else None
    judge = None if isinstance(evaluator, str) else evaluator
    module = what if isinstance(what, nn.Module) else None
    _require_underived(module)
    if resume is not None:
        _require_as_begun(given)
        kept = opened or sqlstore.open_store(str(store or where.store))
        begun = resume_run(
            resume, settings=where, store=kept, evaluator=evaluator, require_sandbox=require_sandbox
        )
        return _finished(begun, module, progress, on_event)
    if what is None:
        raise UserError("optimize takes a file, text or a module, or resume=RUN")
    request = request_for(
        RunRequest,
        where,
        task=_place(what, where, inputs=inputs, kwargs=kwargs, name=name),
        recipe=recipe,
        team=team,
        models=ModelSettings(model=models) if isinstance(models, str) else models,
        target=None if target is None else str(target),
        seed=seed,
        budget=budget,
        baselines=None if baselines is None else tuple(baselines),
        workloads=tuple(workloads),
        dynamic=read_dynamic(dynamic_shapes),
        mode=mode,
        tolerance=tolerance,
        library_calls=library_calls,
        weights=weights,
        nonfinite=nonfinite,
        peak_memory=peak_memory,
        evaluator=evaluator if isinstance(evaluator, str) else None,
        workers=workers,
        cold=cold,
        blocks=blocks,
        with_backward=with_backward,
        again=again,
        findings=None if findings is None else str(findings),
        record=None if record is None else str(record),
        require_sandbox=require_sandbox,
        confine_tasks=confine_tasks,
        profile_unconfined=profile_unconfined,
        store=None if store is None or opened is not None else str(store),
    )
    begun = begin(request, settings=where, store=opened, evaluator=judge)
    return _finished(begun, module, progress, on_event)


def _require_as_begun(given: Mapping[str, Any]) -> None:
    """Raise UserError where more is asked of a run that goes on than it was begun with."""
    known = inspect.signature(optimize).parameters
    more = [name for name in given if name not in WITH_RESUME and given[name] is not known[name].default]
    if not isinstance(given["what"], nn.Module | None):
        more = ["what", *more]
    if more:
        raise UserError(f"optimize(resume=...) goes on as the run was begun: leave {', '.join(more)} out")


def _require_underived(module: nn.Module | None) -> None:
    """Raise UserError before a search for a module in whose place nothing could be delivered."""
    try:
        require_underived(type(module))
    except TypeError as error:
        raise UserError(str(error)) from error


def _finished(
    begun: Begun,
    module: nn.Module | None,
    progress: bool | None,
    on_event: Callable[[Event], None] | None,
) -> OptimizeResult:
    if begun.spec.by_blocks:
        listen = on_event or (lambda event: None)
        return finish_by_blocks(begun, original=module, progress=progress, on_event=listen)
    is_training = begun.request is not None and begun.request.with_backward
    end = finish_with_backward if is_training else finish
    return end(begun, original=module, progress=progress, on_event=on_event)


def evaluate(
    task: What,
    kernel: str | Path,
    *,
    final: bool = False,
    baselines: Sequence[str] = ("eager",),
    settings: Settings | None = None,
    **options: Any,
) -> Evaluation:
    """Return the referee's verdict on a kernel, whoever wrote it.

    Args:
        task: as for ``optimize``.
        kernel: file that defines ``ModelNew``, or its text.
        final: longer, in fresh processes.
        baselines: what it is compared with.
        settings: in the place of what configuration files and the environment say.
        options: further fields of ``EvaluateRequest``: workloads, mode, tolerance, library_calls, weights,
            nonfinite, peak_memory, device, require_sandbox, confine_tasks, fresh_referee, referee_idle; and
            ``inputs`` where the task is a module.

    Raises:
        TaskError: the task cannot be used.
        UserError: an option that cannot be.
        MachineError: no process, memory or compiler. Whatever the kernel does is a status, never an error.
    """
    judged = _judge(task, [kernel], settings, final=final, baselines=tuple(baselines), **options)
    return judged.evaluations[0]


def compare_kernels(
    task: What,
    kernels: Sequence[str | Path] | Mapping[str, str | Path],
    *,
    final: bool = False,
    baselines: Sequence[str] = ("eager",),
    settings: Settings | None = None,
    **options: Any,
) -> KernelComparison:
    """Return the referee's verdicts on several kernels for one task, judged in one session.

    The arguments are those of ``evaluate``; kernels in a mapping have the names that it gives them.
    """
    named = dict(kernels) if isinstance(kernels, Mapping) else None
    chosen = list(named.values()) if named is not None else list(kernels)
    found = _judge(task, chosen, settings, final=final, baselines=tuple(baselines), **options)
    names = tuple(named) if named is not None else found.names
    return KernelComparison(found.task, names, found.evaluations)


def _judge(
    task: What, kernels: Sequence[str | Path], settings: Settings | None, **options: Any
) -> KernelComparison:
    where = settings or load_settings()
    place = _place(task, where, inputs=options.pop("inputs", None))
    request = request_for(
        EvaluateRequest, where, task=place, kernels=tuple(map(_kernel_place, kernels)), **options
    )
    names = [kernel.title for kernel in request.kernels]
    unique = tuple(f"{n} ({i})" if names.count(n) > 1 else n for i, n in enumerate(names, 1))
    return KernelComparison(place.title, unique, tuple(run_evaluate(request, settings=where)))


def compare(
    tasks: What | Sequence[What],
    recipes: Sequence[str],
    *,
    seeds: Sequence[int] = (0,),
    budget: Budget | None = None,
    progress: bool | None = None,
    settings: Settings | None = None,
    **options: Any,
) -> ComparisonResult:
    """Play recipes on the same tasks under one budget.

    Args:
        tasks: files, folders, ``suite``, or a list of these and of tasks.
        recipes: who is compared.
        seeds: each task is run once per seed.
        budget: the same for every run; default: 16 evaluations.
        progress: as for ``optimize``.
        settings: in the place of what configuration files and the environment say.
        options: further fields of ``CompareRequest``.

    Raises:
        UserError: an option that cannot be.
    """
    where = settings or load_settings()
    request = request_for(
        CompareRequest,
        where,
        sources=_places(tasks, where),
        recipes=tuple(recipes),
        seeds=tuple(seeds),
        budget=budget,
        **options,
    )
    return run_compare(request, settings=where, progress=progress)


def bench(
    tasks: What | Sequence[What] = "suite",
    *,
    recipe: str | None = None,
    budget: Budget | None = None,
    progress: bool | None = None,
    settings: Settings | None = None,
    **options: Any,
) -> BenchResult:
    """Run one recipe over many tasks; a failing task is a row, not an error.

    The arguments are those of ``compare``; further options are fields of ``BenchRequest``.
    """
    where = settings or load_settings()
    request = request_for(
        BenchRequest, where, sources=_places(tasks, where), recipe=recipe, budget=budget, **options
    )
    return run_bench(request, settings=where, progress=progress)


def check(
    task: What | Sequence[What],
    *,
    progress: bool | None = None,
    settings: Settings | None = None,
    **options: Any,
) -> CheckResult:
    """Say what is wrong with one or more tasks, before anyone trusts a speedup on them.

    Further options are fields of ``CheckRequest``.
    """
    where = settings or load_settings()
    request = request_for(CheckRequest, where, sources=_places(task, where), **options)
    return run_check(request, settings=where, progress=progress)


def space(task: What, *, sample: int = 0, settings: Settings | None = None, **options: Any) -> SpaceResult:
    """Return which programs may be generated for a task: the decisions, their number, what is illegal.

    Args:
        task: as for ``optimize``.
        sample: so many points are drawn by lot; each is a program, or says why it is none.
        settings: in the place of what configuration files and the environment say.
        options: further fields of ``SpaceRequest``: workloads, mode, target, seed; and ``inputs`` where the
            task is a module.

    Raises:
        TaskError: the task cannot be captured.
        UserError: an option that cannot be.
    """
    where = settings or load_settings()
    place = _place(task, where, inputs=options.pop("inputs", None))
    return run_space(request_for(SpaceRequest, where, task=place, sample=sample, **options), settings=where)


def tune(
    task: What,
    kernel: str | Path | None = None,
    *,
    seconds: float = 60.0,
    settings: Settings | None = None,
    **options: Any,
) -> TuneResult:
    """Close the parameters that a kernel leaves open, by cheap timings; the referee judges the winner.

    Args:
        task: as for ``optimize``, but no module.
        kernel: file or text with ``ModelNew`` and ``TUNE = {"NAME": [default, ...]}``; None: the points are
            those of the task's space of programs.
        seconds: for building and timing points.
        settings: in the place of what configuration files and the environment say.
        options: further fields of ``TuneRequest``.

    Raises:
        TaskError: the task cannot be used.
        UserError: nothing is open, or the kernel does not run with its defaults.
        MachineError: no process, memory or compiler.
    """
    where = settings or load_settings()
    place = None if kernel is None else _kernel_place(kernel)
    request = request_for(
        TuneRequest, where, task=_place(task, where), kernel=place, seconds=seconds, **options
    )
    return run_tune(request, settings=where)


def audit(*, progress: bool | None = None, settings: Settings | None = None, **options: Any) -> AuditResult:
    """Judge every known cheat and hostile program; options are fields of ``AuditRequest``."""
    where = settings or load_settings()
    return run_audit(request_for(AuditRequest, where, **options), settings=where, progress=progress)


def runs(
    store: Store | str | Path | None = None,
    *,
    experiment: str | None = None,
    limit: int | None = None,
    settings: Settings | None = None,
) -> RunList:
    """Return the runs of a store, newest first."""
    if not _is_store(store):
        where = store or (settings or load_settings()).store
        store = open_for_reading(str(where), must_exist=store is not None)
    return list_runs(store, experiment=experiment, limit=limit)


def load(folder: str | Path, module: nn.Module | None = None, *, strict: bool = False) -> nn.Module:
    """Return a module that ``OptimizeResult.save`` wrote; the same that ``optimize`` returned.

    Needs no compiler on a machine of the same kind, and builds the kernel anew elsewhere. This runs code of
    the folder: load what you trust. Its digest tells damage, not who wrote it.

    Args:
        folder: as it was saved.
        module: the original; its class, attributes and weights are used, as a copy. None: the folder's own.
        strict: raise ``NotVerifiedError`` where the original would run.

    Raises:
        UserError: no such folder, a damaged one, a kernel that cannot be built here, or an original that is
            not to be had without ``module``.
    """
    return saving.load(folder, module, strict=strict)


def report(module: nn.Module) -> CallReport:
    """Return how often the kernel of a delivered module ran, how often its original, and why.

    Of a model that holds several, their sum; of one that holds none, zeros.
    """
    return calls.report(module)


def request_for(request: type[AnyRequest], settings: Settings, **fields: Any) -> AnyRequest:
    """Return a request; fields that are None are left to the settings' defaults.

    Raises:
        UserError: there is no such field, or it cannot be as it is.
    """
    unknown = [name for name in fields if name not in request.model_fields]
    if unknown:
        known = ", ".join(request.model_fields)
        raise UserError(f"{request.command} takes no {unknown[0]!r}; it takes {known}")
    given = {name: value for name, value in fields.items() if value is not None}
    if isinstance(given.get("models"), str):
        given["models"] = ModelSettings(model=given["models"])
    defaults = read_values(request, defaults_for(request, settings.defaults, given))
    return make_request(request, {**defaults, **given})


def _is_store(store: object) -> TypeGuard[Store]:
    return store is not None and not isinstance(store, str | Path)


def _place(
    what: What,
    settings: Settings,
    *,
    inputs: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    name: str | None = None,
) -> TaskPlace:
    """Return where a task is to be had, once it is somewhere."""
    if isinstance(what, nn.Module):
        title, folder = name or type(what).__name__, settings.data_dir / "modules"
        return save_task(task_from_module(what, inputs, name=title, folder=folder, kwargs=kwargs))
    if inputs is not None or kwargs is not None:
        raise UserError("inputs and kwargs are a module's; a file says its own with get_inputs")
    if isinstance(what, Task):
        return save_task(what) if what.artifact else _place_of_task(what)
    if isinstance(what, Path):
        return AtPath(path=str(what))
    return AsText(name=name or "task", source=what) if "\n" in what else parse_place(what)


def _place_of_task(task: Task) -> AtPath | AsText:
    return AtPath(path=task.path) if task.path else AsText(name=task.name, source=task.source)


def _places(tasks: What | Sequence[What], settings: Settings) -> tuple[TaskPlace, ...]:
    several = [tasks] if isinstance(tasks, str | Path | nn.Module | Task) else tasks
    return tuple(_place(task, settings) for task in several)


def _kernel_place(kernel: str | Path) -> KernelPlace:
    if isinstance(kernel, str) and "\n" in kernel:
        return AsText(name="kernel", source=kernel)
    return AtPath(path=str(kernel))
