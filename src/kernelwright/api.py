"""The library's front door: optimise a live module or a task."""

import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from kernelwright.agents.llm.connect import make_client
from kernelwright.agents.llm.context_check import require_room
from kernelwright.agents.llm.tape import Tape
from kernelwright.agents.teams import check_team, find_team, model_seats
from kernelwright.core.budget import Budget, Meter
from kernelwright.core.candidate import Candidate
from kernelwright.core.evaluation import Evaluation
from kernelwright.core.events import Event
from kernelwright.core.policy import Policy
from kernelwright.core.run import DEFAULT_RECIPE, RunSpec
from kernelwright.core.target import CPU_CPP
from kernelwright.core.task import Mode, Task
from kernelwright.methods import find_recipe
from kernelwright.referee.sandbox.choose import tier_here
from kernelwright.referee.sandbox.scratch import clear_up
from kernelwright.referee.session.confined import confined_compiler, start_confined
from kernelwright.referee.session.referee import Referee, RefereeSettings
from kernelwright.report.html import render_report
from kernelwright.runs.evaluator import Evaluator
from kernelwright.runs.inspecting import InspectingEvaluator, Inspector, Profiler
from kernelwright.runs.loop import Crew, RunOutcome, Tools, continue_run, start_run
from kernelwright.runs.machine import machine_of_run
from kernelwright.runs.prepare import Preparation, gpu_of, has_gpu_of, machine_to_plan_for, prepare
from kernelwright.runs.recorded_run import load_run, save_run
from kernelwright.runs.recording import RecordedEvaluator, RecordedMachine, prepare_as_recorded
from kernelwright.settings import Settings, load_settings
from kernelwright.store.base import Store
from kernelwright.store.sqlstore import open_store
from kernelwright.targets.gpu.inspect.ahead import TIMEOUT_S, Ahead, Ways
from kernelwright.targets.gpu.profilers.profile import Profiled
from kernelwright.targets.registry import target_of
from kernelwright.tasks.live import task_from_module
from kernelwright.tasks.namespace import bind_source


@dataclass(frozen=True)
class OptimizeResult:
    """What came of ``optimize``."""

    module: nn.Module
    """Drop-in replacement sharing the original's parameters; the original itself when nothing faster
    was found."""
    run_id: str
    evaluation: Evaluation | None
    """The referee's final verdict on the replacement; None when there is none."""
    source: str | None
    """The replacement's source file, None when the module is unchanged."""
    reason: str
    """Why the search ended."""
    store: Store

    @property
    def speedup(self) -> float | None:
        """Geometric mean over the workloads against eager; None when the module is unchanged."""
        return self.evaluation.geomean_speedup() if self.evaluation and self.source else None

    def save_report(self, path: str | Path) -> Path:
        """Write the run's self-contained HTML report and return its path."""
        where = Path(path)
        where.write_text(render_report(self.store, self.run_id), encoding="utf-8")
        return where


def optimize(
    module: nn.Module,
    example_inputs: Sequence[Any],
    *,
    name: str | None = None,
    recipe: str = DEFAULT_RECIPE,
    budget: Budget | None = None,
    settings: Settings | None = None,
    on_event: Callable[[Event], None] = lambda event: None,
) -> OptimizeResult:
    """Search for a faster module that computes the same, and prove it.

    Args:
        module: any ``nn.Module`` on the CPU; it is not changed.
        example_inputs: positional arguments of ``forward``, or a list of such tuples, one per workload.
        name: how the run is called; default: the class's name.
        recipe: how to search.
        budget: when to stop; default: the recipe's own.
        settings: where stores and caches are; default: from the environment.
        on_event: called with each event as it happens.

    Raises:
        TaskError: the module raises, is not deterministic or gives non-finite outputs.
        MachineError: no compiler, or not enough memory.

    Example:
        >>> result = kernelwright.optimize(model, (x,))  # doctest: +SKIP
        >>> result.module(x)  # doctest: +SKIP
    """
    where = settings or load_settings()
    title = name or type(module).__name__
    task = task_from_module(module, example_inputs, name=title, folder=where.data_dir / "modules")
    chosen = find_recipe(recipe)
    machine = machine_of_run(CPU_CPP, where.cache_dir, sandbox=tier_here())
    spec = RunSpec(
        task=task,
        recipe=recipe,
        budget=budget or chosen.budget,
        machine=machine,
        environment=machine.environment(),
    )
    store = open_store(where.store)
    outcome = run_task(spec, store=store, settings=where, on_event=on_event)
    fast = load_winner(outcome.winner, module) if outcome.winner else module
    return OptimizeResult(
        module=fast,
        run_id=outcome.run_id,
        evaluation=outcome.evaluation,
        source=outcome.winner.source if outcome.winner else None,
        reason=outcome.reason,
        store=store,
    )


def run_task(
    spec: RunSpec,
    *,
    store: Store,
    settings: Settings | None = None,
    referee: Evaluator | None = None,
    on_event: Callable[[Event], None] = lambda event: None,
    prepare: Preparation = prepare,
    inspect: Inspector | None = None,
    profile: Profiler | None = None,
) -> RunOutcome:
    """Start a run and carry it to its end.

    For a GPU's target every candidate is built ahead of time (``inspect``, default: ``inspector``) before the
    referee sees it, and where its GPU is here the fastest so far are profiled (``profile``, default:
    ``profiler``).

    Raises:
        UserError: an unknown name, an expert where only models write the language, a budget in USD for a
            model of unknown price, or a model with no room for the prompts of its seats; nothing has begun
            then.
    """
    where = settings or load_settings()
    check_team(spec.team, spec.target)
    if spec.models is not None:
        require_room(spec.models, model_seats(spec.team), spec.target)
    with _referee(referee, where, spec) as judge:
        tools = _tools(spec, store, where, _inspecting(judge, spec, where, inspect, profile), on_event)
        return start_run(spec, replace(tools, prepare=prepare))


def resume_run(
    run_id: str,
    *,
    store: Store,
    settings: Settings | None = None,
    referee: Evaluator | None = None,
    on_event: Callable[[Event], None] = lambda event: None,
    prepare: Preparation = prepare,
    inspect: Inspector | None = None,
    profile: Profiler | None = None,
) -> RunOutcome:
    """Carry an interrupted run on; finished evaluations are not repeated."""
    where = settings or load_settings()
    spec = store.get_run(run_id).spec
    clear_up()  # after the process that was interrupted, also where nothing is left to be done
    with _referee(referee, where, spec) as judge:
        tools = _tools(spec, store, where, _inspecting(judge, spec, where, inspect, profile), on_event)
        return continue_run(run_id, replace(tools, prepare=prepare))


def record_run(run_id: str, folder: str | Path, *, store: Store, settings: Settings | None = None) -> None:
    """Write a finished run into a folder from which ``replay_run`` plays it again.

    Raises:
        UserError: the run has not ended, it knew of other runs, or the folder cannot be written.
    """
    where = settings or load_settings()
    spec = store.get_run(run_id).spec
    machine = machine_to_plan_for(spec, where.cache_dir)
    recorded = RecordedMachine(machine=machine, gpu=gpu_of(spec, where.cache_dir))
    save_run(store, run_id, Path(folder), recorded)


def replay_run(
    folder: str | Path,
    *,
    store: Store,
    settings: Settings | None = None,
    on_event: Callable[[Event], None] = lambda event: None,
) -> RunOutcome:
    """Play a recorded run again: the same answers, measurements and end; nobody is asked or measured.

    Raises:
        UserError: nothing is recorded there, or the run now asks or measures what was not recorded: the
            prompts, the recipe or what they are made from have changed since.
    """
    where = settings or load_settings()
    recorded = load_run(Path(folder))
    judge = RecordedEvaluator(None, recorded.recording)
    tools = _tools(recorded.spec, store, where, judge, on_event, recorded.tape)
    return start_run(recorded.spec, replace(tools, prepare=prepare_as_recorded(recorded.machine)))


def load_winner(winner: Candidate, original: nn.Module) -> nn.Module:
    """Return the candidate's module with the original's own parameters and a way back to it.

    Calls that need gradients, and shapes that were not verified, go to the original.
    """
    namespace: dict[str, Any] = {"__name__": f"kernelwright_{winner.id}"}
    exec(compile(winner.source, f"<kernelwright {winner.id}>", "exec"), namespace)
    fast: nn.Module = namespace["ModelNew"]()
    fast.load_state_dict(original.state_dict(keep_vars=True), assign=True)
    fast.train(original.training)
    _attach_original(fast, original)
    return fast


def _attach_original(fast: nn.Module, original: nn.Module) -> None:
    kernel_forward = fast.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        if torch.is_grad_enabled() and _needs_grad(fast, args):
            warnings.warn(
                "gradients are enabled: the original module runs; use torch.no_grad() for the fast one",
                stacklevel=2,
            )
            return original(*args, **kwargs)
        try:
            return kernel_forward(*args, **kwargs)
        except (ValueError, TypeError):  # shapes or arguments that the kernels were not made for
            return original(*args, **kwargs)

    fast.forward = forward


def _needs_grad(module: nn.Module, args: Sequence[Any]) -> bool:
    tensors = [a for a in args if isinstance(a, torch.Tensor)]
    return any(t.requires_grad for t in (*tensors, *module.parameters()))


def open_referee(
    settings: Settings | None = None, policy: Policy | None = None, *, device: str = "cpu"
) -> Referee:
    """Return a referee to use as a context manager; several runs may share it, one after the other.

    Args:
        settings: where caches are; default: from the environment.
        policy: what it judges by, the default one when None; runs that share it must have the same.
        device: where candidates run: ``cpu``, ``cuda``, ``cuda:N``, ``hip`` or ``hip:N``.
    """
    where = settings or load_settings()
    return Referee(
        RefereeSettings(
            cache_dir=where.cache_dir,
            policy=policy or Policy(),
            require_sandbox=where.require_sandbox,
            device=device,
        )
    )


def _referee(given: Evaluator | None, where: Settings, spec: RunSpec) -> AbstractContextManager[Evaluator]:
    if given is not None:
        return nullcontext(given)
    return open_referee(where, spec.policy, device=spec.target.device)


def inspector(spec: RunSpec, settings: Settings) -> Inspector:
    """Return what builds a run's candidates for its GPU, confined as the referee's are.

    The GPU is the one that the run's record names, else the one that is here; where neither is known nothing
    is built, and a note says so.
    """
    gpu, look = gpu_of(spec, settings.cache_dir), target_of(spec.target).inspect
    if gpu is None or look is None:
        unknown = Ahead(note="not built ahead of time: no GPU is known that this run is for")
        return lambda task, candidate: unknown
    limits = RefereeSettings(cache_dir=settings.cache_dir, require_sandbox=settings.require_sandbox)
    ways = Ways(
        settings.cache_dir / "gpu-builds", start_confined, lambda: confined_compiler(limits), TIMEOUT_S
    )

    def inspect(task: Task, candidate: Candidate) -> Ahead:
        source = bind_source(task, task.workloads[0])
        is_training = task.mode is Mode.TRAIN
        return look(candidate.source, gpu, task_source=source, is_training=is_training, ways=ways)

    return inspect


def profiler(spec: RunSpec, settings: Settings) -> Profiler | None:
    """Return what profiles a run's candidates on the GPU that is here; None where that is not the run's.

    Profilers run candidates unconfined, so what models wrote is not profiled.
    """
    profile = target_of(spec.target).profile
    if profile is None or not has_gpu_of(spec, settings.cache_dir):
        return None
    if spec.models is not None:
        refused = Profiled(note="not profiled: a model wrote it, and profilers run candidates unconfined")
        return lambda task, candidate: refused
    return lambda task, candidate: profile(
        candidate.source, bind_source(task, task.workloads[0]), mode=task.mode.value
    )


def _inspecting(
    judge: Evaluator, spec: RunSpec, where: Settings, inspect: Inspector | None, profile: Profiler | None
) -> Evaluator:
    """Return the evaluator of a run: its target may look ahead, a recorded measurement needs none."""
    if target_of(spec.target).inspect is None:
        return judge
    if isinstance(judge, RecordedEvaluator):
        if judge.inner is None:
            return judge
        inner = _inspecting(judge.inner, spec, where, inspect, profile)
        return RecordedEvaluator(inner, judge.recording, is_served=judge.is_served)
    return InspectingEvaluator(judge, inspect or inspector(spec, where), profile or profiler(spec, where))


def assemble(spec: RunSpec, meter: Meter, tape: Tape) -> Crew:
    """Return the team of a run; its models, where it has any, are asked through the meter and the tape."""
    if spec.models is None:
        return Crew(find_team(spec.team))
    temperatures = find_recipe(spec.recipe).temperatures
    models = spec.models.with_temperatures(temperatures)
    client = make_client(models, meter, tape, seed=spec.seed)
    team = find_team(spec.team, client, prompt_tokens=models.prompt_tokens())
    return Crew(team, client.account.by_name)


def _tools(
    spec: RunSpec,
    store: Store,
    where: Settings,
    referee: Evaluator,
    on_event: Callable[[Event], None],
    recorded: Tape | None = None,
) -> Tools:
    recipe = find_recipe(spec.recipe)
    return Tools(
        store=store,
        referee=referee,
        assemble=lambda meter, own: assemble(spec, meter, recorded or own),
        policy=recipe.make_policy(spec.seed),
        pipelines=recipe.pipelines,
        cache_dir=where.cache_dir,
        has_long_term=recipe.has_long_term,
        on_event=on_event,
    )
