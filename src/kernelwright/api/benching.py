"""One recipe over many tasks, resumable."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from kernelwright.agents.teams import check_team
from kernelwright.api import playing
from kernelwright.api.earlier import Earlier, conditions_of, join, read_rows, rows_for
from kernelwright.api.experiments import check_place, check_title, failure_of, row_of, title_for
from kernelwright.api.machines import bound_settings, environment_of, further_baselines, parse_target
from kernelwright.api.models import check_models, ready_models
from kernelwright.api.models_apart import finish_by_blocks
from kernelwright.api.starting import Begun, as_whole, may_compile, spec_for
from kernelwright.api.workers import any_machine, open_fleet
from kernelwright.core.errors import UserError
from kernelwright.core.evidence import FactValue
from kernelwright.core.models import ModelSettings
from kernelwright.core.request import BenchRequest
from kernelwright.core.run import RunSpec, RunState
from kernelwright.machine import probe
from kernelwright.methods import find_recipe
from kernelwright.referee.baselines import known_baselines, package_versions
from kernelwright.remote.fleet.fleet import Fleet
from kernelwright.remote.fleet.lanes import FleetJob, Lanes
from kernelwright.remote.fleet.session import FleetEvaluator
from kernelwright.report.benchprogress import RunsProgress, show_runs
from kernelwright.report.judged import shared_facts
from kernelwright.report.reproduce import request_of
from kernelwright.report.results import BenchResult
from kernelwright.report.tables import BenchRow
from kernelwright.runs.evaluator import Evaluator
from kernelwright.runs.evaluators import Around
from kernelwright.runs.loop import create_run
from kernelwright.settings import Settings
from kernelwright.store import sqlstore
from kernelwright.store.base import RunRecord, Store
from kernelwright.tasks.places import BenchTask, collect


@dataclass
class _Bench:
    """A bench at work."""

    request: BenchRequest
    title: str
    settings: Settings
    store: Store
    entries: list[BenchTask]
    earlier: dict[str, RunRecord]
    """By task id."""
    models: ModelSettings | None
    baselines: tuple[str, ...] | None
    elsewhere: list[Earlier[BenchRow]]
    """What other stores and machines measured of these tasks; those are not run."""
    rows: list[BenchRow] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    devices: dict[str, dict[str, FactValue]] = field(default_factory=dict)
    """By device, what the first run that it judged holds for."""

    def result(self) -> BenchResult:
        """Return what there is so far; tasks that were not come to count as left."""
        rows, devices = join(self.elsewhere, self.rows, self.devices)
        begun = {*(row.task for row in rows), *self.left}
        order = {entry.task.name: number for number, entry in enumerate(self.entries)}
        waiting = [entry.task.name for entry in self.entries if entry.task.name not in begun]
        environment = shared_facts(devices) or environment_of(probe.probe_machine())
        return BenchResult(
            title=self.title,
            rows=tuple(sorted(rows, key=lambda row: order[row.task])),
            left=(*self.left, *waiting),
            command=self.request.command_line(),
            environment={**environment, **package_versions(self.baselines or ())},
            is_quick=self.request.quick,
            devices=devices,
            conditions=conditions_of(self.request, self.baselines),
        )

    def show_earlier(self, progress: RunsProgress) -> None:
        """Tell of the rows that are taken over."""
        for row in (row for part in self.elsewhere for row in part.rows):
            progress.finish_one_of(row)

    @property
    def _to_run(self) -> list[BenchTask]:
        taken = {row.task_id for part in self.elsewhere for row in part.rows}
        return [entry for entry in self.entries if entry.task.id not in taken]

    def run_on(self, fleet: Fleet, progress: RunsProgress) -> None:
        """Bring every task to its end, tasks side by side; after ``stop_after`` seconds none is begun."""
        stop_after = self.request.stop_after
        ends = None if stop_after is None else time.monotonic() + stop_after

        def job_of(entry: BenchTask) -> FleetJob:
            record = self.earlier.get(entry.task.id)
            begun = record.spec.machine if record and record.state is not RunState.FAILED else None

            def play(evaluator: FleetEvaluator) -> None:
                row = self._run_one(evaluator, entry, record, None)
                progress.finish_one_of(row)
                self._add(row)

            return FleetJob(entry.task.name, play, begun.is_like if begun else any_machine)

        left = Lanes(fleet).run(
            [job_of(entry) for entry in self._to_run if not self._keep(entry, progress)],
            lambda: ends is None or time.monotonic() <= ends,
        )
        self.left += [job.name for job in left]

    def _keep(self, entry: BenchTask, progress: RunsProgress) -> bool:
        """Take over the row of a run that has finished; no device is needed for it."""
        record = self.earlier.get(entry.task.id)
        if record is None or record.state is not RunState.FINISHED:
            return False
        row = row_of(self.store, record.run_id, entry, None)
        progress.finish_one_of(row)
        self._add(row)
        return True

    def _add(self, row: BenchRow) -> None:
        """Take a row in, and what is known of the device that judged it."""
        self.rows.append(row)
        if row.run_id is not None and row.device not in self.devices:
            self.devices[row.device] = self.store.get_run(row.run_id).spec.environment

    def run_all(self, referee: Evaluator, progress: RunsProgress) -> None:
        """Bring every task to its end; after ``stop_after`` seconds none is begun or carried on."""
        stop_after = self.request.stop_after
        ends = None if stop_after is None else time.monotonic() + stop_after
        for entry in self._to_run:
            record = self.earlier.get(entry.task.id)
            is_finished = record is not None and record.state is RunState.FINISHED
            if ends is not None and time.monotonic() > ends and not is_finished:
                self.left.append(entry.task.name)
                continue
            progress.start(entry.task.name)
            row = self._run_one(referee, entry, record, progress)
            progress.finish(row)
            self._add(row)

    def _run_one(
        self,
        referee: Evaluator,
        entry: BenchTask,
        record: RunRecord | None,
        progress: RunsProgress | None,
    ) -> BenchRow:
        """Play a run; without progress it is one of many side by side."""
        run_id = record.run_id if record and record.state is not RunState.FAILED else None
        if run_id is None:
            spec = spec_for(
                self.request,
                entry.task,
                self.models,
                settings=self.settings,
                experiment=self.title,
                baselines=self.baselines,
                evaluator=referee,
            )
            # side by side, all know what the first did when it began: who ends first is of no account
            first = next(iter(self.store.iter_runs(self.title)), None) if progress is None else None
            spec = self._as_whole(spec, referee)
            run_id = create_run(spec, self.store, first.spec if first is not None else None)
        failure = None
        if record is None or record.state is not RunState.FINISHED:
            is_profiled = self.request.profile and not self.request.quick
            profile = None if is_profiled else playing.no_profiler("this bench takes no profiles")
            spec = self.store.get_run(run_id).spec
            if spec.by_blocks:
                begun = Begun(run_id, spec, self.store, self.settings, referee)
                tell = (lambda line: None) if progress is None else progress.tell
                failure = failure_of(lambda: finish_by_blocks(begun, progress=False, tell=tell))
                return row_of(self.store, run_id, entry, failure)
            failure = failure_of(
                lambda: playing.carry_on(
                    run_id,
                    store=self.store,
                    settings=self.settings,
                    referee=referee,
                    on_event=(lambda event: None) if progress is None else progress.add,
                    profile=profile,
                    around=Around(is_quick=self.request.quick),
                )
            )
        return row_of(self.store, run_id, entry, failure)

    def _as_whole(self, spec: RunSpec, referee: Evaluator) -> RunSpec:
        """Return the spec of a run that delivers what ``optimize`` would; a fleet takes no model apart."""
        if self.request.quick:
            return spec
        asked = request_of(spec).model_copy(update={"confine_tasks": self.request.confine_tasks})
        if self.request.workers is not None:
            return spec.model_copy(update={"may_compile": may_compile(spec)})
        whole = as_whole(spec, asked, settings=self.settings, evaluator=referee)
        return whole.model_copy(update={"request": asked}) if whole.by_blocks else whole


def run_bench(
    request: BenchRequest,
    *,
    title: str | None = None,
    settings: Settings | None = None,
    store: Store | None = None,
    progress: bool | None = None,
    on_result: Callable[[BenchResult], object] = lambda result: None,
) -> BenchResult:
    """Run every task once; a failing task is a row, not an end.

    Args:
        request: what is asked for.
        title: name of the experiment; default: the request's.
        settings: where things are; default: ``load_settings()``.
        store: an open one, in the place of the request's.
        progress: see ``show_runs``.
        on_result: called with what there is at the end, and when the bench is interrupted.

    Raises:
        UserError: something in the request cannot be, or another experiment has this name.
    """
    bench = _begin(request, title or title_for(request), settings, store)
    try:
        with show_runs(len(bench.entries), progress) as shown:
            bench.show_earlier(shown)
            _run(bench, shown)
    except KeyboardInterrupt:
        on_result(bench.result())
        raise
    result = bench.result()
    on_result(result)
    return result


def _run(bench: _Bench, shown: RunsProgress) -> None:
    request, policy = bench.request, bench.request.policy
    if request.workers is not None:
        target = parse_target(request.target, is_elsewhere=True)
        with open_fleet(request.workers, target, bench.settings, policy) as fleet:
            bench.run_on(fleet, shown)
        return
    device = request.target.partition("/")[0]
    with playing.open_referee(bench.settings, policy, device=device, is_search=True) as referee:
        bench.run_all(referee, shown)


def _begin(request: BenchRequest, title: str, settings: Settings | None, store: Store | None) -> _Bench:
    where = bound_settings(
        settings,
        request.require_sandbox,
        confine_tasks=request.confine_tasks,
        profile_unconfined=request.profile_unconfined,
    )
    manifest = None if request.manifest is None else Path(request.manifest)
    entries = collect(
        request.sources, manifest=manifest, groups=request.groups, only=request.only, limit=request.limit
    )
    opened = store or sqlstore.open_store(request.store or where.store)
    earlier = {record.spec.task.id: record for record in opened.iter_runs(title)}
    check_title(title, is_known=bool(earlier), is_resume=request.resume is not None)
    models = check_models(request.models, request.team, request.target)
    device = request.target.partition("/")[0]
    peers = known_baselines(device) if request.peers else ()
    named = further_baselines((*peers, *(request.baselines or ())), request.target)
    baselines = named or (("eager",) if request.quick else None)
    _check_conditions(list(earlier.values()), title, request, baselines)
    find_recipe(request.recipe)
    check_team(request.team, parse_target(request.target, is_elsewhere=request.workers is not None))
    ready = ready_models(models, request.team, [request.recipe], request.budget.usd)
    measured = read_rows(request.earlier, conditions_of(request, baselines))
    elsewhere = rows_for([entry for entry in entries if entry.task.id not in earlier], measured)
    return _Bench(request, title, where, opened, entries, earlier, ready, baselines, elsewhere)


def _check_conditions(
    earlier: list[RunRecord], title: str, request: BenchRequest, baselines: tuple[str, ...] | None
) -> None:
    """Raise UserError rather than mix two experiments under one name."""
    specs = [record.spec for record in earlier]
    for had in sorted({spec.recipe for spec in specs} - {request.recipe}):
        raise UserError(f"experiment {title!r} ran recipe {had!r}; resume it with --recipe {had}")
    check_place(specs, title, request)
    for policy in {spec.policy for spec in specs} - {request.policy}:
        raise UserError(
            f"experiment {title!r} was judged with --library-calls {policy.library_calls} --weights "
            f"{policy.weights.replace('_', '-')} --nonfinite {policy.nonfinite} "
            f"--peak-memory {policy.peak_memory:g}; resume it with these"
        )
    wanted = baselines or RunSpec.model_fields["baselines"].default
    for names in {spec.baselines for spec in specs} - {wanted}:
        raise UserError(
            f"experiment {title!r} compared with {', '.join(names)}; "
            "resume it with the same --baseline, --peers, --quick"
        )
