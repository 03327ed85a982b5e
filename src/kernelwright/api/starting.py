"""From a request to a run in the store, ready to be carried on."""

from dataclasses import dataclass
from pathlib import Path

from kernelwright import remote
from kernelwright.agents.teams import check_team
from kernelwright.api import playing, workers
from kernelwright.api.capturing import require_own
from kernelwright.api.machines import (
    bound_settings,
    environment_of,
    further_baselines,
    machine_for,
    parse_target,
)
from kernelwright.api.models import check_models, ready_models
from kernelwright.api.stored import stored_answer, unfinished_run
from kernelwright.core.budget import Budget
from kernelwright.core.errors import UserError
from kernelwright.core.models import ModelSettings
from kernelwright.core.policy import LibraryCalls, Policy, Weights
from kernelwright.core.request import BenchRequest, RunRequest
from kernelwright.core.run import RunSpec
from kernelwright.core.task import Task
from kernelwright.memory.documents import read_documents
from kernelwright.methods import find_recipe
from kernelwright.runs.evaluator import Evaluator
from kernelwright.runs.loop import RunOutcome, create_run, ended_run
from kernelwright.runs.machine import Elsewhere
from kernelwright.settings import Settings
from kernelwright.store import sqlstore
from kernelwright.store.base import RunRecord, Store, find_run
from kernelwright.targets.base import Target
from kernelwright.targets.registry import target_of
from kernelwright.tasks.places import load_place
from kernelwright.whole.deciding import is_whole_model
from kernelwright.whole.sharing import FOR_THE_WHOLE


@dataclass(frozen=True)
class Begun:
    """A run that is in the store and has somebody to judge it."""

    run_id: str
    spec: RunSpec
    store: Store
    settings: Settings
    evaluator: Evaluator | None = None
    """None: a referee of its own."""
    is_stored: bool = False
    """It had ended before it was asked for."""

    @property
    def request(self) -> RunRequest | None:
        """What was asked for; None where an experiment asked."""
        return self.spec.request

    @property
    def paths(self) -> tuple[str, str]:
        """Where its kernel and its report were to go, in the folder where it was asked for."""
        name, asked = self.spec.task.name, self.request
        kernel = asked.output if asked is not None else None
        report = asked.report if asked is not None else None
        folder = Path(self.spec.folder or "")
        return str(folder / (kernel or f"{name}_fast.py")), str(folder / (report or f"{name}_report.html"))

    def carry_on(self, on_event: playing.OnEvent) -> RunOutcome:
        """Carry it to its end, and record it where that was asked for; a stored answer is just read."""
        if self.is_stored:
            return ended_run(self.run_id, self.store)
        with workers.closing(self.evaluator):
            outcome = playing.carry_on(
                self.run_id,
                store=self.store,
                settings=self.settings,
                referee=self.evaluator,
                on_event=on_event,
            )
        if self.request is not None and self.request.record is not None:
            folder = Path(self.spec.folder or "") / self.request.record
            playing.record_run(self.run_id, folder, store=self.store, settings=self.settings)
        return outcome


def begin(
    request: RunRequest,
    *,
    settings: Settings | None = None,
    store: Store | None = None,
    evaluator: Evaluator | None = None,
    carry_on: bool = False,
) -> Begun:
    """Put the run that a request asks for into the store, or find the one that answers it.

    Args:
        request: what is asked for.
        settings: where things are; default: ``load_settings()``.
        store: an open one, in the place of the request's.
        evaluator: an open one, in the place of the request's. Unless it is a fleet's, nobody knows what it
            goes by: what the store has is no answer then.
        carry_on: an interrupted run that asked the same is carried on.

    Raises:
        UserError: something in the request cannot be; nothing is in the store then.
        MachineError: no compiler, or an evaluator that does not answer.
    """
    where = bound_settings(
        settings,
        request.require_sandbox,
        confine_tasks=request.confine_tasks,
        profile_unconfined=request.profile_unconfined,
    )
    named = _named_evaluator(request, where)
    try:
        is_given = evaluator is not None and not workers.is_of_fleet(evaluator)
        begun = _begin(request, where, store, evaluator or named, is_given=is_given, carry_on=carry_on)
        is_needed = begun.evaluator is named and not begun.is_stored
    except BaseException:
        workers.leave(named)
        raise
    if not is_needed:
        workers.leave(named)
    return begun


def _named_evaluator(request: RunRequest, where: Settings) -> Evaluator | None:
    """Return who judges where a request says so; None: the referee here."""
    if request.workers is not None:
        return workers.FleetRun(request.workers, request.target, where, request.policy)
    if request.evaluator is None:
        return None
    if request.policy != Policy():
        raise UserError(
            "--library-calls, --weights, --nonfinite, --peak-memory: with --evaluator the evaluator's own "
            "policy holds; give them there"
        )
    return remote.open_evaluator(request.evaluator)


def _begin(
    request: RunRequest,
    where: Settings,
    store: Store | None,
    judge: Evaluator | None,
    *,
    is_given: bool,
    carry_on: bool,
) -> Begun:
    further_baselines(request.baselines, request.target)
    models = check_models(request.models, request.team, request.target)
    task = load_place(
        request.task, workloads=request.workloads, mode=request.mode, tolerance=request.tolerance
    )
    opened = store or sqlstore.open_store(request.store or where.store)
    is_elsewhere = isinstance(judge, Elsewhere)
    find_recipe(request.recipe)
    target = parse_target(request.target, is_elsewhere=is_elsewhere)
    check_team(request.team, target)
    if where.confine_tasks:
        _require_file(task)
    if request.dynamic:
        require_own(task, where, "--dynamic")
        task = _dynamic(task, request, target_of(target))
    models = ready_models(models, request.team, [request.recipe], request.budget.usd)
    documents = read_documents(Path(request.findings)) if request.findings is not None else ()
    if documents and models is None:
        raise UserError(
            f"--findings: documents are for models, and none has a seat in the team {request.team!r}; "
            "take --team llm or a mixture"
        )
    if request.with_backward:
        require_own(task, where, "--with-backward")
        _require_gradients(request, task, settings=where, evaluator=judge)
    own = request.model_copy(update={"budget": request.budget.halved()}) if request.with_backward else request
    spec = spec_for(own, task, models, settings=where, evaluator=judge).model_copy(
        update={
            "documents": documents,
            "is_cold": request.cold or request.record is not None,
            "request": request.model_copy(update={"store": None}),
            "folder": str(Path.cwd()),
        }
    )
    spec = as_whole(spec, request, settings=where, evaluator=judge)
    known = None if request.again or request.record or is_given else stored_answer(opened, spec)
    if known is not None:
        read = known.spec.model_copy(update={"task": task, "request": spec.request, "folder": spec.folder})
        return Begun(known.run_id, read, opened, where, judge, is_stored=True)
    is_carried = carry_on or spec.by_blocks or request.with_backward
    left = unfinished_run(opened, spec) if is_carried and not request.again else None
    run_id = create_run(spec, opened) if left is None else left.run_id
    return Begun(run_id, opened.get_run(run_id).spec, opened, where, judge)


def _require_file(task: Task) -> None:
    """Raise UserError for a task whose code is no stranger's: it lies in a pickle, which is never read."""
    if task.artifact is not None:
        raise UserError(f"{task.name}: a live module is your own; --confine-tasks is for a stranger's file")


def _dynamic(task: Task, request: RunRequest, target: Target) -> Task:
    """Return the task with its dynamic axes; raises UserError where the target's kernels take none."""
    if not target.lowering.takes_extents:
        raise UserError(
            f"--dynamic: kernels of {str(target.name)!r} have fixed sizes; leave the option out or name "
            "another --target"
        )
    # lazy: loads torch
    from kernelwright.tasks.dynamic import dynamic_task

    return dynamic_task(task, request.dynamic, seed=request.seed)


def resume(
    run: str,
    *,
    settings: Settings | None = None,
    store: Store | None = None,
    evaluator: Evaluator | str | None = None,
    require_sandbox: str | None = None,
) -> Begun:
    """Return a run of the store as it was begun, to be carried on.

    Args:
        run: its id, or how that begins.
        settings: where things are; default: ``load_settings()``.
        store: an open one; default: the settings'.
        evaluator: who judges from now on; default: who did.
        require_sandbox: as in a request; default: as it was begun.

    Raises:
        UserError: there is no such run.
    """
    where = bound_settings(settings, require_sandbox)
    opened = store or sqlstore.open_store(where.store)
    record = find_run(opened, run)
    asked = record.spec.request
    if asked is not None:
        wanted = None if require_sandbox is not None else asked.require_sandbox
        where = bound_settings(
            where,
            wanted,
            confine_tasks=asked.confine_tasks,
            profile_unconfined=asked.profile_unconfined,
        )
    judge = evaluator or (asked.evaluator if asked else None)
    return Begun(
        record.run_id,
        record.spec,
        opened,
        where,
        remote.open_evaluator(judge) if isinstance(judge, str) else judge or _fleet_of(record, where),
    )


def _fleet_of(record: RunRecord, where: Settings) -> Evaluator | None:
    """Return the fleet that judges a run; None: no fleet does."""
    spec, asked = record.spec, record.spec.request
    if asked is not None and asked.workers is not None:
        target = str(spec.target)
        return workers.FleetRun(asked.workers, target, where, spec.policy, spec.machine.is_like)
    if asked is None and spec.experiment is not None and spec.machine.is_elsewhere:
        raise UserError(
            f"run {record.run_id} was judged by a fleet; go on with its experiment: bench or compare with "
            f"--resume {spec.experiment} --workers"
        )
    return None


def as_whole(
    spec: RunSpec, request: RunRequest, *, settings: Settings, evaluator: Evaluator | None
) -> RunSpec:
    """Return the spec of a run that takes its model apart, or may deliver torch.compile of a module.

    Raises:
        UserError: blocks are asked for where a model cannot be taken apart.
    """
    if wants_blocks(request, spec.task, settings=settings, evaluator=evaluator):
        whole = Budget(seconds=request.budget.seconds and FOR_THE_WHOLE * request.budget.seconds)
        return spec.model_copy(update={"by_blocks": True, "budget": whole})
    if request.blocks is False or _why_not_whole(request, spec.task, settings=settings, evaluator=evaluator):
        return spec
    return spec.model_copy(update={"may_compile": may_compile(spec)})


def wants_blocks(
    request: RunRequest, task: Task, *, settings: Settings, evaluator: Evaluator | None = None
) -> bool:
    """Say whether a request is about a whole model: where it says so, else where ``is_whole_model``.

    Raises:
        UserError: blocks are asked for where a model cannot be taken apart.
    """
    found = _why_not_whole(request, task, settings=settings, evaluator=evaluator)
    if request.blocks and found:
        raise UserError(f"--blocks: a model cannot be taken apart {found[0]}; leave one of the two out")
    return bool(request.blocks) or (request.blocks is None and not found and is_whole_model(task))


def may_compile(spec: RunSpec) -> bool:
    """Say whether torch.compile of the module may be delivered where it beats all that was found."""
    own = spec.policy.library_calls is LibraryCalls.FORBIDDEN or spec.policy.weights is Weights.FROZEN
    is_apart = target_of(spec.target).device.is_apart
    return not own and not is_apart and "torch_compile" in spec.baselines


def _why_not_whole(
    request: RunRequest, task: Task, *, settings: Settings, evaluator: Evaluator | None
) -> list[str]:
    """Return why a module cannot be taken for a whole model, in words of the command line."""
    target = target_of(parse_target(request.target, is_elsewhere=isinstance(evaluator, Elsewhere)))
    why_not = {
        "with --record": request.record is not None,
        "with --confine-tasks, as the model runs in this process": settings.confine_tasks,
        "with --evaluator": isinstance(evaluator, Elsewhere) and request.workers is None,
        f"for {target}": target.device.is_apart,
        "with --dynamic": bool(task.dynamic),
        "with --weights frozen": request.weights is Weights.FROZEN,
        "with --with-backward": request.with_backward,
    }
    return [words for words, holds in why_not.items() if holds]


def _require_gradients(
    request: RunRequest, task: Task, *, settings: Settings, evaluator: Evaluator | None
) -> None:
    """Raise UserError where gradients cannot be optimised, whatever the module is."""
    target = target_of(parse_target(request.target, is_elsewhere=isinstance(evaluator, Elsewhere)))
    why_not = {
        "with --record": request.record is not None,
        "with --confine-tasks, as autograd runs in this process": settings.confine_tasks,
        "with --evaluator or --workers": isinstance(evaluator, Elsewhere),
        f"for {target}": target.device.is_apart,
        "with --dynamic": bool(task.dynamic),
        "with --weights frozen": request.weights is Weights.FROZEN,
        "with --blocks": bool(request.blocks),
    }
    found = [words for words, holds in why_not.items() if holds]
    if found:
        raise UserError(f"--with-backward: gradients are not optimised {found[0]}; leave one of the two out")


def spec_for(
    request: RunRequest | BenchRequest,
    task: Task,
    models: ModelSettings | None,
    *,
    settings: Settings,
    evaluator: Evaluator | None = None,
    experiment: str | None = None,
    baselines: tuple[str, ...] | None = None,
) -> RunSpec:
    """Return what a request becomes on the machine where its evaluator, None: the referee here, judges.

    Raises:
        UserError: unknown recipe, team, target or baseline.
        MachineError: no compiler to measure the machine's peaks with.
    """
    granted = find_recipe(request.recipe).budget.model_dump()
    granted |= request.budget.model_dump(exclude_none=True)
    target = parse_target(request.target, is_elsewhere=isinstance(evaluator, Elsewhere))
    chosen = baselines or further_baselines(request.baselines, request.target)
    machine = machine_for(target, settings, evaluator)
    return RunSpec(
        task=task,
        target=target,
        recipe=request.recipe,
        team=request.team,
        models=models,
        budget=Budget(**granted),
        policy=request.policy,
        seed=request.seed,
        baselines=chosen or RunSpec.model_fields["baselines"].default,
        experiment=experiment,
        machine=machine,
        environment=environment_of(machine),
    )
