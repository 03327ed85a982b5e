"""Runs carried to their end: who judges, who looks at candidates before and after, who plays."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypedDict, Unpack

from kernelwright.agents.llm.connect import make_client
from kernelwright.agents.llm.context_check import require_room
from kernelwright.agents.llm.tape import Tape
from kernelwright.agents.problem import Problem
from kernelwright.agents.teams import check_team, find_team, model_seats
from kernelwright.api.capturing import preparation
from kernelwright.api.closing import closer
from kernelwright.api.explaining import explain
from kernelwright.api.model_tools import toolboxes
from kernelwright.api.referees import open_referee as open_referee
from kernelwright.api.workers import is_of_fleet
from kernelwright.core.budget import Meter
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import UserError
from kernelwright.core.events import Event, ModelTakenApart
from kernelwright.core.run import RunSpec, RunState
from kernelwright.core.task import Mode, Task
from kernelwright.methods import find_recipe
from kernelwright.referee.sandbox.scratch import clear_up
from kernelwright.referee.session.confined import confined_compiler, start_confined
from kernelwright.referee.session.referee import Referee
from kernelwright.referee.settings import make_referee_settings
from kernelwright.runs.evaluator import Evaluator
from kernelwright.runs.evaluators import JUST_THE_REFEREE, Around, compose
from kernelwright.runs.inspecting import Inspector, Profiler
from kernelwright.runs.loop import Crew, RunOutcome, Tools, continue_run, create_run, start_run
from kernelwright.runs.prepare import Preparation, gpu_of, has_gpu_of, machine_to_plan_for, prepare
from kernelwright.runs.recorded_run import load_run, save_run
from kernelwright.runs.recording import RecordedMachine, prepare_as_recorded
from kernelwright.settings import Settings, load_settings
from kernelwright.store.base import Store
from kernelwright.targets.gpu.inspect.ahead import TIMEOUT_S, AotCheck, Ways
from kernelwright.targets.gpu.profilers.profile import Profiled
from kernelwright.targets.registry import target_of
from kernelwright.tasks.namespace import bind_source
from kernelwright.whole.composing import is_delivered
from kernelwright.whole.printing import print_compiled
from kernelwright.whole.step import COMPOSE, Compose, ComposeOnce

OnEvent = Callable[[Event], None]


class How(TypedDict, total=False):
    """How a run is carried on; everything may be left out."""

    settings: Settings
    """Where caches are; default: ``load_settings()``."""
    referee: Evaluator | None
    """Who judges; default: a referee of the run's own."""
    on_event: OnEvent
    """Called with each event as it happens."""
    prepare: Preparation | None
    """How the task is prepared; default: on this machine, as the settings say."""
    inspect: Inspector | None
    """What builds candidates for a GPU before the referee sees them; default: ``inspector``."""
    profile: Profiler | None
    """What profiles the fastest so far on a GPU that is here; default: ``profiler``."""
    around: Around
    """What else stands around who judges."""


def play(spec: RunSpec, *, store: Store, **how: Unpack[How]) -> RunOutcome:
    """Start a run and carry it to its end.

    Raises:
        UserError: an unknown name, an expert where only models write the language, a budget in USD for a
            model of unknown price, or a model with no room for the prompts of its seats; nothing has begun
            then.
    """
    check_team(spec.team, spec.target)
    if spec.models is not None:
        require_room(spec.models, model_seats(spec.team), spec.target)
    return carry_on(create_run(spec, store), store=store, **how)


def carry_on(
    run_id: str,
    *,
    store: Store,
    settings: Settings | None = None,
    referee: Evaluator | None = None,
    on_event: OnEvent = lambda event: None,
    prepare: Preparation | None = None,
    inspect: Inspector | None = None,
    profile: Profiler | None = None,
    around: Around = JUST_THE_REFEREE,
) -> RunOutcome:
    """Carry a run to its end, one that has just been put into the store or one that was interrupted.

    Finished evaluations are not repeated. The arguments are those of ``How``.

    Raises:
        RunHeld: another process is at work on it; nothing has begun then.
    """
    at_work = store.lease_of(run_id)
    if at_work is not None:
        raise at_work.refusal()
    where = settings or load_settings()
    spec = store.get_run(run_id).spec
    clear_up()  # after the process that was interrupted, also where nothing is left to be done
    wanted = _looking(around, spec, where, inspect, profile)
    if spec.by_blocks and store.get_run(run_id).state is not RunState.FINISHED:
        raise UserError(
            f"run {run_id} puts a whole model together: carry it on with: kernelwright runs resume {run_id}"
        )
    if referee is None or isinstance(referee, Referee):
        wanted = _closing(wanted, spec, where)
    with _referee(referee, where, spec, wanted) as judge:
        tools = _tools(spec, store, where, judge, on_event)
        tools = replace(tools, can_tune=_can_tune(wanted, spec, referee))
        if spec.may_compile and not around.is_quick:
            tools = replace(tools, print_compiled=partial(print_compiled, spec.task, spec.target))
        return continue_run(run_id, replace(tools, prepare=prepare or preparation(where)))


def put_together(
    run_id: str,
    candidates: Sequence[Candidate],
    apart: ModelTakenApart,
    *,
    store: Store,
    settings: Settings,
    referee: Evaluator | None = None,
    on_event: OnEvent = lambda event: None,
) -> RunOutcome:
    """Carry the run of a whole model to its end: judge the compositions, and the best of them finally.

    Raises:
        RunHeld: another process is at work on it; nothing has begun then.
    """
    spec = store.get_run(run_id).spec
    alone = {way.candidate for way in apart.compositions if way.is_compiled_alone}
    with _referee(referee, settings, spec, JUST_THE_REFEREE) as judge:
        tools = replace(
            _tools(spec, store, settings, judge, on_event),
            assemble=lambda meter, own: Crew(find_team("expert")),
            policy=ComposeOnce(apart),
            pipelines={COMPOSE: Compose(tuple(candidates), apart)},
            accepts=partial(is_delivered, ways=apart.compositions),
            last_resort=tuple(alone),
            print_compiled=lambda: next((one for one in candidates if one.id in alone), None),
            prepare=_prepare_whole,
            has_long_term=False,
        )
        return continue_run(run_id, tools)


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
    on_event: OnEvent = lambda event: None,
) -> RunOutcome:
    """Play a recorded run again: the same answers, measurements and end; nobody is asked or measured.

    Raises:
        UserError: nothing is recorded there, or the run now asks for something or measures what was not
            recorded: the recipe, the roles or their kinds of answer have changed since.
    """
    where = settings or load_settings()
    recorded = load_run(Path(folder))
    judge = compose(None, Around(recording=recorded.recording, is_measured=False))
    tools = _tools(recorded.spec, store, where, judge, on_event, recorded.tape)
    prepared = prepare_as_recorded(recorded.machine)
    can_tune = recorded.recording.has_closings and not target_of(recorded.spec.target).device.is_apart
    return start_run(recorded.spec, replace(tools, prepare=prepared, can_tune=can_tune))


def _prepare_whole(spec: RunSpec, cache_dir: Path) -> tuple[Problem, str | None]:
    """Prepare a whole model: it has a floor, and nobody lowers its graph as one kernel."""
    problem, reason = prepare(spec, cache_dir)
    return replace(problem, captured={}), reason


@contextmanager
def _referee(given: Evaluator | None, where: Settings, spec: RunSpec, around: Around) -> Iterator[Evaluator]:
    """Give the evaluator of a run: the one that was given, or a referee of its own, with all around it."""
    if given is not None or not around.is_measured:
        yield compose(given if around.is_measured else None, around)
        return
    with open_referee(where, spec.policy, device=spec.target.device, is_search=True) as own:
        yield compose(own, around)


def inspector(spec: RunSpec, settings: Settings) -> Inspector:
    """Return what builds a run's candidates for its GPU, confined as the referee's are.

    The GPU is the one that the run's record names, else the one that is here; where neither is known nothing
    is built, and a note says so.
    """
    gpu, look = gpu_of(spec, settings.cache_dir), target_of(spec.target).inspect
    if gpu is None or look is None:
        unknown = AotCheck(note="not built ahead of time: no GPU is known that this run is for")
        return lambda task, candidate: unknown
    limits = make_referee_settings(settings)
    ways = Ways(
        settings.cache_dir / "gpu-builds",
        partial(start_confined, require=settings.require_sandbox),
        lambda: confined_compiler(limits),
        TIMEOUT_S,
    )

    def inspect(task: Task, candidate: Candidate) -> AotCheck:
        source = bind_source(task, task.workloads[0])
        is_training = task.mode is Mode.TRAIN
        return look(candidate.program, gpu, task_source=source, is_training=is_training, ways=ways)

    return inspect


def profiler(spec: RunSpec, settings: Settings) -> Profiler | None:
    """Return what profiles a run's candidates on the GPU that is here; None where that is not the run's.

    Profilers run candidates unconfined, so what models wrote is profiled only where the user wants that.
    """
    profile = target_of(spec.target).profile
    if profile is None or not has_gpu_of(spec, settings.cache_dir):
        return None
    if spec.models is not None and not settings.profile_unconfined:
        return no_profiler("a model wrote it, and profilers run candidates unconfined (--profile-unconfined)")
    if settings.confine_tasks:
        return no_profiler("the task is a stranger's, and profilers run its code unconfined")
    return lambda task, candidate: profile(
        candidate.program,
        bind_source(task, task.workloads[0]),
        mode=task.mode.value,
        is_tf32=task.tolerance.may_round,
    )


def no_profiler(why: str) -> Profiler:
    """Return what looks at nothing and says why."""
    refused = Profiled(note=f"not profiled: {why}")
    return lambda task, candidate: refused


def _looking(
    around: Around, spec: RunSpec, where: Settings, inspect: Inspector | None, profile: Profiler | None
) -> Around:
    """Add who closes, explains or looks at candidates: those for a processor need no look ahead."""
    if not around.is_measured:
        return around
    if spec.models is not None:
        around = _closing(around, spec, where)
        own = partial(explain, device=spec.target.device)
        around = around if around.close is None else replace(around, explain=own)
    if target_of(spec.target).inspect is None:
        return around
    return replace(
        around, inspect=inspect or inspector(spec, where), profile=profile or profiler(spec, where)
    )


def _closing(around: Around, spec: RunSpec, where: Settings) -> Around:
    """Add who times points, where candidates run on a device that is here."""
    if spec.machine.is_elsewhere or not around.is_measured or around.close is not None:
        return around
    if target_of(spec.target).device.is_apart and not has_gpu_of(spec, where.cache_dir):
        return around
    return replace(
        around, close=closer(spec.target, lambda: machine_to_plan_for(spec, where.cache_dir), where)
    )


def _can_tune(around: Around, spec: RunSpec, referee: Evaluator | None) -> bool:
    """Tell whether schedules are tuned; not on a GPU, where that was never seen to work."""
    if target_of(spec.target).device.is_apart:
        return False
    recorded = around.recording is not None and around.is_served and around.recording.has_closings
    return around.close is not None or recorded or is_of_fleet(referee)


def assemble(spec: RunSpec, meter: Meter, tape: Tape, settings: Settings) -> Crew:
    """Return the team of a run; its models, where it has any, are asked through the meter and the tape."""
    if spec.models is None:
        return Crew(find_team(spec.team))
    temperatures = find_recipe(spec.recipe).temperatures
    models = spec.models.with_temperatures(temperatures)
    client = make_client(models, meter, tape, seed=spec.seed)
    team = find_team(
        spec.team,
        client,
        prompt_tokens=models.prompt_tokens(),
        calls=models.calls,
        kernels_per_call=models.kernels_per_call,
        toolbox=toolboxes(spec, models, settings),
    )
    return Crew(team, client.account.by_name)


def _tools(
    spec: RunSpec,
    store: Store,
    where: Settings,
    referee: Evaluator,
    on_event: OnEvent,
    recorded: Tape | None = None,
) -> Tools:
    recipe = find_recipe(spec.recipe)
    return Tools(
        store=store,
        referee=referee,
        assemble=lambda meter, own: assemble(spec, meter, recorded or own, where),
        policy=recipe.make_policy(spec.seed),
        pipelines=recipe.pipelines,
        cache_dir=where.cache_dir,
        has_long_term=recipe.has_long_term,
        on_event=on_event,
    )
