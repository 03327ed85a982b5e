"""Recipes on the same tasks under one budget: the runs of a comparison are played here."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from kernelwright.agents.teams import check_team, needs_model
from kernelwright.api import playing
from kernelwright.api.capturing import preparation
from kernelwright.api.earlier import read_runs
from kernelwright.api.experiments import failure_of, row_of, title_for
from kernelwright.api.grid import Grid, PlannedRun, Roster
from kernelwright.api.machines import bound_settings, machine_for, parse_target
from kernelwright.api.models import check_models, ready_models
from kernelwright.api.workers import any_machine, open_fleet
from kernelwright.core.errors import UserError
from kernelwright.core.machine import Machine
from kernelwright.core.models import ModelSettings
from kernelwright.core.request import CompareRequest
from kernelwright.core.run import RunState
from kernelwright.core.target import TargetName
from kernelwright.methods import find_recipe
from kernelwright.referee.version import REFEREE_VERSION
from kernelwright.remote.fleet.fleet import Fleet
from kernelwright.remote.fleet.lanes import FleetJob, Lanes
from kernelwright.remote.fleet.session import FleetEvaluator
from kernelwright.report.benchprogress import show_runs
from kernelwright.report.comparison import Conditions, compare_runs
from kernelwright.report.judged import shared_facts
from kernelwright.report.played import Contestant
from kernelwright.report.results import ComparisonResult
from kernelwright.report.tables import BenchRow
from kernelwright.runs import recording as recordings
from kernelwright.runs.evaluator import Evaluator
from kernelwright.runs.evaluators import JUST_THE_REFEREE, Around
from kernelwright.runs.prepare import Preparation
from kernelwright.runs.recording import RecordedMachine, Recording
from kernelwright.settings import Settings
from kernelwright.store import sqlstore
from kernelwright.store.base import Store
from kernelwright.targets.gpu.peaks import published_gpu, run_gpu
from kernelwright.tasks.places import BenchTask, collect

OnResult = Callable[[ComparisonResult], object]


@dataclass(frozen=True)
class _Judging:
    """Who judges, and how tasks are prepared."""

    evaluator: Evaluator | None
    prepare: Preparation
    machine: Machine
    """What the figures hold for."""
    around: Around = JUST_THE_REFEREE


def run_compare(
    request: CompareRequest,
    *,
    title: str | None = None,
    settings: Settings | None = None,
    store: Store | None = None,
    progress: bool | None = None,
    on_result: OnResult = lambda result: None,
) -> ComparisonResult:
    """Play every recipe, team, task and seed; ended runs are not repeated.

    A failing run is kept as failed and costs no other one. Where measurements are only replayed, a missing
    one ends everything: a table with holes would compare nothing.

    Args:
        request: what is asked for.
        title: name of the experiment; default: the request's.
        settings: where things are; default: ``load_settings()``.
        store: an open one, in the place of the request's.
        progress: see ``show_runs``.
        on_result: called with what there is after every task.

    Raises:
        UserError: something in the request cannot be, another experiment has this name, or a measurement is
            missing from a recording.
    """
    roster = _begin(request, title or title_for(request), settings, store)
    _play_all(roster, progress, lambda: on_result(_result(roster)))
    result = _result(roster)
    on_result(result)
    return result


def _begin(request: CompareRequest, title: str, settings: Settings | None, store: Store | None) -> Roster:
    where = bound_settings(
        settings,
        request.require_sandbox,
        confine_tasks=request.confine_tasks,
        profile_unconfined=request.profile_unconfined,
    )
    asked = _models_by_team(request)
    manifest = None if request.manifest is None else Path(request.manifest)
    entries = collect(
        request.sources, manifest=manifest, groups=request.groups, only=request.only, limit=request.limit
    )
    if request.replay is not None and not Path(request.replay).exists():
        raise UserError(
            f"--replay {request.replay}: no such file or folder; name one that --record wrote, or a store"
        )
    measurements = "replayed" if request.replay else "reused" if request.reuse else "fresh"
    grid = Grid(
        title=title,
        entries=tuple(entries),
        seeds=request.seeds,
        contestants=tuple(Contestant(recipe=r, team=t) for r in request.recipes for t in request.teams),
        target=parse_target(
            request.target, is_elsewhere=request.replay is not None or request.workers is not None
        ),
        conditions=Conditions.model_validate(
            {
                "budget": request.budget,
                "memory": request.memory,
                "measurements": measurements,
                "target": request.target,
                "models": request.models,
                "referee": None if request.replay else REFEREE_VERSION,
            }
        ),
        models={},
    )
    for contestant in grid.contestants:
        find_recipe(contestant.recipe)
        check_team(contestant.team, grid.target)
    opened = store or sqlstore.open_store(request.store or where.store)
    roster = Roster(opened, grid, request, where, read_runs(request.earlier, grid.conditions))
    roster.check_earlier(is_resume=request.resume is not None)
    for team, models in asked.items():
        grid.models[team] = ready_models(models, team, request.recipes, request.budget.usd)
    return roster


def _models_by_team(request: CompareRequest) -> dict[str, ModelSettings | None]:
    """Return the models of each team; they are for the teams that have a seat for one."""
    with_models = [team for team in request.teams if needs_model(team)] or list(request.teams)
    return {
        team: check_models(request.models if team in with_models else None, team, request.target)
        for team in request.teams
    }


def _result(roster: Roster) -> ComparisonResult:
    grid = roster.grid
    played, devices = roster.played()
    return ComparisonResult(
        title=grid.title,
        played=tuple(played),
        comparison=compare_runs(played, grid.contestants, horizon=grid.conditions.budget.evaluations),
        conditions=grid.conditions,
        command=roster.request.command_line(),
        environment=shared_facts(devices),
        devices=devices,
    )


def _play_all(roster: Roster, progress: bool | None, after_task: Callable[[], object]) -> None:
    """Play every run of the grid that has not finished."""
    grid = roster.grid
    left = [[cell for cell in grid.cells(entry) if not roster.is_finished(cell)] for entry in grid.entries]
    if not any(left):
        return
    recording = _recording(roster)
    if roster.request.workers is not None:
        _play_on_fleet(roster, progress, recording, roster.request.workers, after_task)
        return
    with _referee(roster) as referee, show_runs(sum(map(len, left)), progress) as shown:
        judging = _judging(roster, referee, recording)
        for cells in left:
            for cell in cells:
                shown.start(grid.label(cell))
                shown.finish(_play(roster, cell, judging, shown.add))
            if cells:
                after_task()


def _play_on_fleet(
    roster: Roster,
    progress: bool | None,
    recording: Recording | None,
    workers: str,
    after_task: Callable[[], object],
) -> None:
    """Play tasks side by side; all runs of one task on one device, so that every recipe has the same."""
    grid = roster.grid
    left = {
        entry.task.id: [cell for cell in grid.cells(entry) if not roster.is_finished(cell)]
        for entry in grid.entries
    }
    with (
        show_runs(sum(map(len, left.values())), progress) as shown,
        open_fleet(workers, grid.target, roster.settings) as fleet,
    ):
        kind = _kind_recorded(roster, recording, fleet)

        def job_of(entry: BenchTask) -> FleetJob:
            known = [machine for machine in (kind, roster.machine_of(entry)) if machine is not None]

            def play(evaluator: FleetEvaluator) -> None:
                judging = _judging(roster, evaluator, recording)
                for cell in left[entry.task.id]:
                    shown.finish_one_of(_play(roster, cell, judging, lambda event: None))
                after_task()

            return FleetJob(entry.task.name, play, lambda machine: all(map(machine.is_like, known)))

        Lanes(fleet).run([job_of(entry) for entry in grid.entries if left[entry.task.id]])


def _kind_recorded(roster: Roster, recording: Recording | None, fleet: Fleet) -> Machine | None:
    """Return the machine that all must be like where they are recorded together; None: any will do."""
    if recording is None or roster.request.record is None:
        return None
    if recording.machine is not None:
        return recording.machine.machine
    seat = fleet.wait_for(any_machine)
    fleet.release(seat)
    return seat.machine


def _play(roster: Roster, cell: PlannedRun, judging: _Judging, on_event: playing.OnEvent) -> BenchRow:
    run_id = roster.start(cell, judging.machine)

    def play() -> None:
        playing.carry_on(
            run_id,
            store=roster.store,
            settings=roster.settings,
            referee=judging.evaluator,
            on_event=on_event,
            prepare=judging.prepare,
            around=judging.around,
        )

    is_replay = roster.request.replay is not None
    failure = failure_of(play, *((UserError,) if is_replay else ()))
    if failure is not None:
        roster.store.set_state(run_id, RunState.FAILED, failure=failure)
    return row_of(roster.store, run_id, cell.entry, failure, roster.grid.label(cell))


def _referee(roster: Roster) -> AbstractContextManager[Evaluator | None]:
    if roster.request.replay is not None:
        return nullcontext(None)
    return playing.open_referee(roster.settings, device=roster.grid.target.device, is_search=True)


def _recording(roster: Roster) -> Recording | None:
    record, replay = roster.request.record, roster.request.replay
    if replay is not None:
        return _read(Path(replay))
    is_reused = roster.grid.conditions.measurements == "reused"
    known = recordings.recording_of(roster.store, roster.grid.title) if is_reused else None
    return known if record is None else recordings.open_recording(Path(record), known)


def _read(replay: Path) -> Recording:
    """Read a recording, or a store's measurements."""
    if replay.is_dir() or replay.suffix == ".jsonl":
        return recordings.read_recording(replay)
    return recordings.recording_of(sqlstore.open_store(replay, read_only=True))


def _judging(roster: Roster, referee: Evaluator | None, recording: Recording | None) -> _Judging:
    """Bring referee and recording together; the roster is told what machine the figures hold for."""
    if referee is None and recording is not None and recording.machine is not None:
        as_recorded = recordings.prepare_as_recorded(recording.machine)
        machine = recording.machine.machine
        return _Judging(None, as_recorded, machine, Around(recording=recording, is_measured=False))
    here = _machine_here(roster.grid.target, roster.settings, referee)
    if recording is None:
        assert referee is not None
        return _Judging(referee, preparation(roster.settings), here.machine)
    if roster.request.record is not None:
        _check_machine(recording.machine or here, here)
        recording.add(here)
    is_served = roster.grid.conditions.measurements == "reused"
    around = Around(recording=recording, is_served=is_served, is_measured=referee is not None)
    return _Judging(referee, preparation(roster.settings), here.machine, around)


def _machine_here(target: TargetName, settings: Settings, referee: Evaluator | None) -> RecordedMachine:
    """Return the machine that judges as a recording keeps it: with its GPU, where runs are for that."""
    machine = machine_for(target, settings, referee)
    if not machine.is_elsewhere:
        gpu = run_gpu(target.device, settings.cache_dir)  # None where the target is for the processor
    else:
        gpu = published_gpu(machine.accelerator.name) if machine.accelerator is not None else None
    return RecordedMachine(machine=machine, gpu=gpu)


def _check_machine(recorded: RecordedMachine, here: RecordedMachine) -> None:
    there, this = map(_device_of, (recorded, here))
    if there != this:
        raise UserError(
            f"--record: that recording was made on {there!r}, this is {this!r}; record to another file"
        )


def _device_of(recorded: RecordedMachine) -> str | None:
    """Return the model of what candidates were measured on."""
    return recorded.machine.processor if recorded.gpu is None else recorded.gpu.name
