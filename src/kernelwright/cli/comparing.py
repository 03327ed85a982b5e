"""The runs of a comparison: which there are, which have ended, and how the others are played."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kernelwright.cli.benchprogress import BenchProgress
from kernelwright.cli.benchtasks import BenchTask
from kernelwright.cli.output import stderr, write_trace
from kernelwright.cli.running import create_run
from kernelwright.core.errors import KernelwrightError, StoreError, UserError
from kernelwright.core.evidence import FactValue
from kernelwright.core.machine import Machine
from kernelwright.core.models import ModelSettings
from kernelwright.core.run import RunSpec, RunState
from kernelwright.core.target import TargetName
from kernelwright.report.comparison import Conditions
from kernelwright.report.played import Contestant, Played, played_run
from kernelwright.report.story import tell
from kernelwright.report.tables import BenchRow, row_from_story
from kernelwright.settings import load_settings

if TYPE_CHECKING:
    from kernelwright.runs.evaluator import Evaluator
    from kernelwright.runs.recording import RecordedMachine, Recording
    from kernelwright.store.base import RunRecord, Store

MEMORY_FACT, MEASUREMENTS_FACT = "comparison.memory", "comparison.measurements"
"""Where a run's spec says under which conditions its figures hold."""
LEARNED = ("ledger_until", "archive_until", "findings")
"""Fields of a spec that say what its run knows of others."""


class Cell(NamedTuple):
    """One run of the grid."""

    entry: BenchTask
    seed: int
    contestant: Contestant

    @property
    def key(self) -> tuple[str, int, Contestant]:
        """What makes it the same run."""
        return self.entry.task.id, self.seed, self.contestant


@dataclass(frozen=True)
class Grid:
    """Everything that is compared: tasks x seeds x contestants, under the same conditions."""

    title: str
    entries: tuple[BenchTask, ...]
    seeds: tuple[int, ...]
    contestants: tuple[Contestant, ...]
    target: str
    conditions: Conditions
    models: Mapping[str, ModelSettings | None] = field(default_factory=dict)
    """By team."""

    def cells(self, entry: BenchTask) -> Iterator[Cell]:
        """Yield one task's runs, seed by seed with the contestants inmost: cut short anywhere, the
        contestants have had the same."""
        for seed in self.seeds:
            for contestant in self.contestants:
                yield Cell(entry, seed, contestant)

    def label(self, cell: Cell) -> str:
        """Name a run for a reader."""
        seed = f", seed {cell.seed}" if len(self.seeds) > 1 else ""
        return f"{cell.entry.task.name}, {cell.contestant.name_among(self.contestants)}{seed}"


class Sources(NamedTuple):
    """Where measurements go and come from, besides the referee."""

    record: Path | None = None
    replay: Path | None = None


class Roster:
    """A grid over a store: what has been played of it, and what is left."""

    def __init__(self, store: "Store", grid: Grid, sources: Sources) -> None:
        self.store, self.grid, self.sources = store, grid, sources
        # The newest run of a cell counts: a failed one may have been played again.
        self._records = {_key(record.spec): record for record in store.iter_runs(grid.title)}
        self.machine = Machine()
        """What the figures hold for."""
        self._learned: dict[str, Any] | None = None

    def target(self) -> TargetName:
        """Return what is written for; raises UserError where it is unknown, or is to run on a GPU that is
        not here."""
        # lazy: keeps --help quick
        from kernelwright.targets.registry import find_target

        is_replay = self.sources.replay is not None
        return find_target(self.grid.target, has_device=(lambda kind: True) if is_replay else None).name

    def check_earlier(self, *, is_resume: bool) -> None:
        """Raise UserError rather than mix two experiments, or two sets of conditions, under one name."""
        title, records = self.grid.title, list(self._records.values())
        if records and not is_resume:
            raise UserError(
                f"there is an experiment {title!r} already; add --resume {title}, or name another"
            )
        if is_resume and not records:
            raise UserError(f"there is no experiment {title!r} to resume; start it with --name {title}")
        conditions = self.grid.conditions
        for record in records:
            if record.spec.budget != conditions.budget:
                raise UserError(f"experiment {title!r} has another budget; resume it with the one it has")
            for fact, given in (
                (MEMORY_FACT, conditions.memory),
                (MEASUREMENTS_FACT, conditions.measurements),
            ):
                if record.spec.environment.get(fact) != given:
                    had = record.spec.environment.get(fact, "unknown")
                    what = fact.rpartition(".")[2]
                    raise UserError(
                        f"experiment {title!r} has {what} {had}, not {given}; resume it as it began"
                    )

    def played(self) -> list[Played]:
        """Return the grid's ended runs, in its order."""
        is_timed = self.grid.conditions.is_timed
        cells = (cell for entry in self.grid.entries for cell in self.grid.cells(entry))
        records = (self.record(cell) for cell in cells)
        runs = (played_run(self.store, record, is_timed=is_timed) for record in records if record is not None)
        return [run for run in runs if run is not None]

    def environment(self) -> dict[str, FactValue]:
        """Return what the figures hold for, as the first run has it; empty before there is one."""
        first = next(iter(self._records.values()), None)
        known = first.spec.environment if first is not None else {}
        return {name: value for name, value in known.items() if name not in (MEMORY_FACT, MEASUREMENTS_FACT)}

    def record(self, cell: Cell) -> "RunRecord | None":
        """Return a cell's run as the store has it now, None when there is none."""
        known = self._records.get(cell.key)
        return None if known is None else self.store.get_run(known.run_id)

    def start(self, cell: Cell) -> str:
        """Return the id of the run that plays a cell: the one that was interrupted, or a new one."""
        known = self.record(cell)
        if known is not None and known.state is not RunState.FAILED:
            return known.run_id
        spec = self._spec(cell)
        run_id = create_run(self.store, spec) if spec.is_cold else self.store.create_run(self._warm(spec))
        self._records[cell.key] = self.store.get_run(run_id)
        return run_id

    def is_finished(self, cell: Cell) -> bool:
        """Tell whether a cell needs no more playing; a failed one is played again."""
        known = self.record(cell)
        return known is not None and known.state is RunState.FINISHED

    def _spec(self, cell: Cell) -> RunSpec:
        conditions, contestant = self.grid.conditions, cell.contestant
        facts: dict[str, FactValue] = {
            MEMORY_FACT: conditions.memory,
            MEASUREMENTS_FACT: conditions.measurements,
        }
        return RunSpec(
            task=cell.entry.task,
            target=self.target(),
            recipe=contestant.recipe,
            team=contestant.team,
            models=self.grid.models.get(contestant.team),
            budget=conditions.budget,
            seed=cell.seed,
            experiment=self.grid.title,
            is_cold=conditions.memory == "cold",
            machine=self.machine,
            environment={**self.machine.environment(), **facts},
        )

    def _warm(self, spec: RunSpec) -> RunSpec:
        """Give a spec the memory that the first run of the comparison had."""
        if self._learned is None:
            # lazy: loads torch
            from kernelwright.runs.loop import with_memory

            first = next(iter(self.store.iter_runs(self.grid.title)), None)
            known = first.spec if first is not None else with_memory(spec, self.store)
            self._learned = {name: getattr(known, name) for name in LEARNED}
        return spec.model_copy(update=self._learned)


def _key(spec: RunSpec) -> tuple[str, int, Contestant]:
    return spec.task.id, spec.seed, Contestant(recipe=spec.recipe, team=spec.team)


class Judging(NamedTuple):
    """Who judges, and how tasks are prepared."""

    evaluator: "Evaluator"
    more: dict[str, Any]
    """Further arguments of ``api.resume_run``."""


def play_all(roster: Roster, after_task: Callable[[list[Played]], object]) -> None:
    """Play every run of the grid that has not finished; ``after_task`` is given all ended runs each time.

    A failing run is kept as failed and costs no other one. Where measurements are only replayed, a missing
    one ends everything: a table with holes would compare nothing.

    Raises:
        UserError: a measurement is missing from the recording, or the recording cannot be read.
    """
    grid = roster.grid
    left = [[cell for cell in grid.cells(entry) if not roster.is_finished(cell)] for entry in grid.entries]
    if not any(left):
        return
    _check_names(roster)
    recording = _recording(roster)
    with _referee(roster) as referee, BenchProgress(stderr(), sum(map(len, left))) as progress:
        judging = _judging(roster, referee, recording)
        for cells in left:
            for cell in cells:
                progress.start(grid.label(cell))
                progress.finish(_play(roster, cell, judging, progress))
            if cells:
                after_task(roster.played())


def _check_names(roster: Roster) -> None:
    """Raise UserError for unknown names before the first run is in the store."""
    # lazy: loads torch
    from kernelwright.agents.teams import check_team
    from kernelwright.methods import find_recipe

    target = roster.target()
    for contestant in roster.grid.contestants:
        find_recipe(contestant.recipe)
        check_team(contestant.team, target)


def _play(roster: Roster, cell: Cell, judging: Judging, progress: BenchProgress) -> BenchRow:
    # lazy: loads torch
    from kernelwright import api

    run_id = roster.start(cell)
    failure: str | None = None
    try:
        api.resume_run(
            run_id, store=roster.store, referee=judging.evaluator, on_event=progress.add, **judging.more
        )
    except StoreError:
        raise
    except Exception as error:  # a border: what fails one run must not cost the others
        failure = _describe(error)
        roster.store.set_state(run_id, RunState.FAILED, failure=failure)
        if isinstance(error, UserError) and roster.sources.replay is not None:
            raise
    return row_from_story(
        tell(stored.event for stored in roster.store.iter_events(run_id)),
        task=roster.grid.label(cell),
        task_id=cell.entry.task.id,
        category=cell.entry.category,
        group=cell.entry.group,
        run_id=run_id,
        failure=failure,
    )


def _describe(error: Exception) -> str:
    if isinstance(error, KernelwrightError):
        return " ".join(str(error).split())
    return f"{type(error).__name__}: {error}; traceback in {write_trace(error)}"


def _referee(roster: Roster) -> "AbstractContextManager[Evaluator | None]":
    # lazy: loads torch
    from kernelwright import api

    if roster.sources.replay is not None:
        return nullcontext(None)
    return api.open_referee(device=roster.grid.target.partition("/")[0])


def _recording(roster: Roster) -> "Recording | None":
    # lazy: loads torch
    from kernelwright.runs import recording

    record, replay = roster.sources
    if replay is not None:
        return _read(replay)
    is_reused = roster.grid.conditions.measurements == "reused"
    known = recording.recording_of(roster.store, roster.grid.title) if is_reused else None
    return known if record is None else recording.open_recording(record, known)


def _read(replay: Path) -> "Recording":
    """Read a recording, or a store's measurements."""
    # lazy: loads torch
    from kernelwright.runs.recording import read_recording, recording_of
    from kernelwright.store.sqlstore import open_store

    if not replay.exists():
        raise UserError(
            f"--replay {replay}: no such file or folder; name one that --record wrote, or a store"
        )
    if replay.is_dir() or replay.suffix == ".jsonl":
        return read_recording(replay)
    return recording_of(open_store(replay))


def _judging(roster: Roster, referee: "Evaluator | None", recording: "Recording | None") -> Judging:
    """Bring referee and recording together; the roster is told what machine the figures hold for."""
    # lazy: loads torch
    from kernelwright.runs.recording import RecordedEvaluator, prepare_as_recorded

    if referee is None and recording is not None and recording.machine is not None:
        roster.machine = recording.machine.machine
        prepare = prepare_as_recorded(recording.machine)
        return Judging(RecordedEvaluator(None, recording), {"prepare": prepare})
    here = _machine_here(roster.target())
    roster.machine = here.machine
    if recording is None:
        assert referee is not None
        return Judging(referee, {})
    if roster.sources.record is not None:
        _check_machine(recording.machine or here, here)
        recording.add(here)
    is_served = roster.grid.conditions.measurements == "reused"
    return Judging(RecordedEvaluator(referee, recording, is_served=is_served), {})


def _machine_here(target: TargetName) -> "RecordedMachine":
    """Return this machine as a recording keeps it: with its GPU, where that is what runs are for."""
    # lazy: loads torch
    from kernelwright.runs.machine import machine_of_run
    from kernelwright.runs.recording import RecordedMachine
    from kernelwright.targets.gpu.peaks import run_gpu

    cache_dir = load_settings().cache_dir
    gpu = run_gpu(target.device, cache_dir)  # None where the target is for the processor
    return RecordedMachine(machine=machine_of_run(target, cache_dir), gpu=gpu)


def _check_machine(recorded: "RecordedMachine", here: "RecordedMachine") -> None:
    there, this = map(_device_of, (recorded, here))
    if there != this:
        raise UserError(
            f"--record: that recording was made on {there!r}, this is {this!r}; record to another file"
        )


def _device_of(recorded: "RecordedMachine") -> str | None:
    """Return the model of what candidates were measured on."""
    return recorded.machine.processor if recorded.gpu is None else recorded.gpu.name
