"""The runs of a comparison: which there are, which have ended, and how the others are played."""

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import NamedTuple

from kernelwright.api.earlier import Earlier, join
from kernelwright.api.experiments import check_place, check_title
from kernelwright.api.machines import environment_of
from kernelwright.core.errors import UserError
from kernelwright.core.evidence import FactValue
from kernelwright.core.machine import Machine
from kernelwright.core.models import ModelSettings
from kernelwright.core.request import CompareRequest
from kernelwright.core.run import RunSpec, RunState
from kernelwright.core.target import TargetName
from kernelwright.report.comparison import Conditions
from kernelwright.report.played import Contestant, Played, played_run
from kernelwright.runs.loop import create_run
from kernelwright.settings import Settings
from kernelwright.store.base import RunRecord, Store
from kernelwright.tasks.places import BenchTask

MEMORY_FACT, MEASUREMENTS_FACT = "comparison.memory", "comparison.measurements"
"""Where a run's spec says under which conditions its figures hold."""


class PlannedRun(NamedTuple):
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
    target: TargetName
    conditions: Conditions
    models: dict[str, ModelSettings | None] = field(default_factory=dict)
    """By team."""

    def cells(self, entry: BenchTask) -> Iterator[PlannedRun]:
        """Yield one task's runs, seed by seed with the contestants inmost: cut short anywhere, the
        contestants have had the same."""
        for seed in self.seeds:
            for contestant in self.contestants:
                yield PlannedRun(entry, seed, contestant)

    def label(self, cell: PlannedRun) -> str:
        """Name a run for a reader."""
        seed = f", seed {cell.seed}" if len(self.seeds) > 1 else ""
        return f"{cell.entry.task.name}, {cell.contestant.name_among(self.contestants)}{seed}"


class Roster:
    """A grid over a store: what has been played of it, and what is left."""

    def __init__(
        self,
        store: Store,
        grid: Grid,
        request: CompareRequest,
        settings: Settings,
        elsewhere: Iterable[Earlier[Played]] = (),
    ) -> None:
        self.store, self.grid, self.request, self.settings = store, grid, request, settings
        # The newest run of a cell counts: a failed one may have been played again.
        self._records = {_key(record.spec): record for record in store.iter_runs(grid.title)}
        begun = {task for task, _, _ in self._records}
        self._taken = self._whole_tasks(elsewhere, begun)

    def _whole_tasks(
        self, elsewhere: Iterable[Earlier[Played]], begun: AbstractSet[str]
    ) -> list[Earlier[Played]]:
        """Return what is taken over: tasks that were played whole, so that each has one machine."""
        wanted = {e.task.id: {cell.key for cell in self.grid.cells(e)} for e in self.grid.entries}
        wanted = {task: cells for task, cells in wanted.items() if task not in begun}
        kept: list[Earlier[Played]] = []
        for part in elsewhere:
            ended = {_cell(run): run for run in part.rows if run.is_success}
            whole = [task for task, cells in wanted.items() if cells <= ended.keys()]
            runs = [ended[cell] for task in whole for cell in wanted.pop(task)]
            kept.append(part.with_rows(runs))
        return kept

    def check_earlier(self, *, is_resume: bool) -> None:
        """Raise UserError rather than mix two experiments, or two sets of conditions, under one name."""
        title, records = self.grid.title, list(self._records.values())
        check_title(title, is_known=bool(records), is_resume=is_resume)
        if self.request.replay is None:
            check_place([record.spec for record in records], title, self.request)
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

    def played(self) -> tuple[list[Played], dict[str, dict[str, FactValue]]]:
        """Return the grid's ended runs, in its order, and what the figures of each device hold for."""
        is_timed = self.grid.conditions.is_timed
        cells = [cell for entry in self.grid.entries for cell in self.grid.cells(entry)]
        records = (self.record(cell) for cell in cells)
        runs = (played_run(self.store, record, is_timed=is_timed) for record in records if record is not None)
        here = [run for run in runs if run is not None]
        ended, devices = join(self._taken, here, self._devices(here))
        by_cell = {_cell(run): run for run in ended}
        return [by_cell[cell.key] for cell in cells if cell.key in by_cell], devices

    def _devices(self, played: Iterable[Played]) -> dict[str, dict[str, FactValue]]:
        """Return what the figures of each device that judged some runs hold for, as its first run has it."""
        known = {record.run_id: record.spec.environment for record in self._records.values()}
        found: dict[str, dict[str, FactValue]] = {}
        for run in played:
            facts = known[run.run_id].items()
            plain = {name: v for name, v in facts if name not in (MEMORY_FACT, MEASUREMENTS_FACT)}
            found.setdefault(run.device, plain)
        return found

    def record(self, cell: PlannedRun) -> RunRecord | None:
        """Return a cell's run as the store has it now, None when there is none."""
        known = self._records.get(cell.key)
        return None if known is None else self.store.get_run(known.run_id)

    def start(self, cell: PlannedRun, machine: Machine) -> str:
        """Return the id of the run that plays a cell: the one that was interrupted, or a new one.

        ``machine`` is what a new one's figures hold for.
        """
        known = self.record(cell)
        if known is not None and known.state is not RunState.FAILED:
            return known.run_id
        first = next(iter(self.store.iter_runs(self.grid.title)), None)
        # warm runs all have the memory that the first run of the comparison had
        run_id = create_run(self._spec(cell, machine), self.store, None if first is None else first.spec)
        self._records[cell.key] = self.store.get_run(run_id)
        return run_id

    def machine_of(self, entry: BenchTask) -> Machine | None:
        """Return the machine that a task's runs were begun on; None: none was, or all have failed."""
        records = (self.record(cell) for cell in self.grid.cells(entry))
        kept = (record for record in records if record is not None and record.state is not RunState.FAILED)
        return next((record.spec.machine for record in kept), None)

    def is_finished(self, cell: PlannedRun) -> bool:
        """Tell whether a cell needs no more playing; a failed one is played again."""
        if any(_cell(run) == cell.key for part in self._taken for run in part.rows):
            return True
        known = self.record(cell)
        return known is not None and known.state is RunState.FINISHED

    def _spec(self, cell: PlannedRun, machine: Machine) -> RunSpec:
        conditions, contestant = self.grid.conditions, cell.contestant
        facts: dict[str, FactValue] = {
            MEMORY_FACT: conditions.memory,
            MEASUREMENTS_FACT: conditions.measurements,
        }
        return RunSpec(
            task=cell.entry.task,
            target=self.grid.target,
            recipe=contestant.recipe,
            team=contestant.team,
            models=self.grid.models.get(contestant.team),
            budget=conditions.budget,
            seed=cell.seed,
            experiment=self.grid.title,
            is_cold=conditions.memory == "cold",
            machine=machine,
            environment={**environment_of(machine), **facts},
        )


def _cell(run: Played) -> tuple[str, int, Contestant]:
    return run.task_id, run.seed, run.contestant


def _key(spec: RunSpec) -> tuple[str, int, Contestant]:
    return spec.task.id, spec.seed, Contestant(recipe=spec.recipe, team=spec.team)
