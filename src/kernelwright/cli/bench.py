"""``kernelwright bench``: one recipe over many tasks, resumable, with tables and a picture."""

import shlex
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer
from rich.table import Table

from kernelwright.cli import modeloptions, options
from kernelwright.cli.benchprogress import BenchProgress
from kernelwright.cli.benchtasks import BenchTask, collect
from kernelwright.cli.experiments import make_folder, resume_command
from kernelwright.cli.output import json_text, print_json, stderr, stdout, write_text, write_trace
from kernelwright.cli.quick import Quick
from kernelwright.cli.running import create_run, interrupted, open_store
from kernelwright.core.errors import KernelwrightError, StoreError, UserError
from kernelwright.core.evidence import FactValue
from kernelwright.core.models import ModelSettings
from kernelwright.core.policy import LibraryCalls, Policy
from kernelwright.core.run import DEFAULT_RECIPE, RunSpec, RunState
from kernelwright.report import markdown
from kernelwright.report.benchpicture import bench_picture
from kernelwright.report.story import tell
from kernelwright.report.tables import BenchRow, Summary, row_from_story, summaries

if TYPE_CHECKING:
    from kernelwright.runs.evaluator import Evaluator
    from kernelwright.runs.inspecting import Profiler
    from kernelwright.store.base import RunRecord, Store


class RunOptions(NamedTuple):
    """How every task of a bench is run."""

    recipe: str
    team: str
    target: str
    evaluations: int | None
    seconds: float | None
    seed: int
    models: ModelSettings | None = None
    calls: int | None = None
    tokens: int | None = None
    usd: float | None = None
    library_calls: LibraryCalls = LibraryCalls.ALLOWED
    baselines: tuple[str, ...] | None = None


def bench(
    sources: Annotated[
        list[str] | None,
        typer.Argument(metavar="[suite | FOLDER | FILE...]", help="Tasks; default: our own suite."),
    ] = None,
    recipe: options.RecipeOption = DEFAULT_RECIPE,
    team: options.TeamOption = "expert",
    target: options.TargetOption = "cpu/cpp",
    budget_evaluations: options.BudgetEvaluations = None,
    budget_seconds: options.BudgetSeconds = None,
    budget_calls: modeloptions.BudgetCalls = None,
    budget_tokens: modeloptions.BudgetTokens = None,
    budget_usd: modeloptions.BudgetUsd = None,
    model: modeloptions.ModelOption = None,
    base_url: modeloptions.BaseUrl = None,
    role_model: modeloptions.RoleModels = None,
    temperature: modeloptions.Temperature = None,
    max_output_tokens: modeloptions.MaxOutputTokens = None,
    context_tokens: modeloptions.ContextTokens = None,
    price: modeloptions.Prices = None,
    seed: options.SeedOption = 0,
    tasks: Annotated[
        Path | None,
        typer.Option("--tasks", help="YAML list of {path, overrides, group}; give the folder as argument."),
    ] = None,
    group: Annotated[
        list[str] | None, typer.Option("--group", help="Only this group of --tasks; may be repeated.")
    ] = None,
    only: Annotated[str | None, typer.Option("--only", help="Glob over task names.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="The first N tasks.")] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="Name of the experiment.", show_default="bench-DATE-TIME")
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option("--resume", metavar="NAME", help="Go on; finished tasks are skipped."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder for the results.", show_default="./NAME")
    ] = None,
    stop_after: Annotated[
        float | None,
        typer.Option(
            "--stop-after",
            metavar="SECONDS",
            min=1.0,
            help="Begin no further task then; go on with --resume.",
        ),
    ] = None,
    store: options.StoreOption = None,
    library_calls: options.LibraryCallsOption = LibraryCalls.ALLOWED,
    baseline: options.BaselineOption = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="Deliver by the search's own verdict: no final measurement in fresh processes, no "
            "profile, compared with eager and what --baseline names.",
        ),
    ] = False,
    no_profile: Annotated[
        bool, typer.Option("--no-profile", help="On a GPU: profile no candidate during the search.")
    ] = False,
    require_sandbox: options.RequireSandbox = None,
    as_json: options.AsJson = False,
) -> None:
    """Run every task once and write results.json, results.md and results.svg."""
    if name and resume and name != resume:
        raise UserError("--name and --resume name different experiments; give one of them")
    if group and tasks is None:
        raise UserError("--group picks from a manifest; give one with --tasks")
    title = resume or name or f"bench-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    folder = make_folder(out or Path(title))
    entries = collect(sources or [], manifest=tasks, groups=group or [], only=only, limit=limit)
    opened = open_store(store)
    earlier = {record.spec.task.id: record for record in opened.iter_runs(title)}
    _check_earlier(list(earlier.values()), title, recipe, is_resume=resume is not None)
    models = modeloptions.make_models(
        team,
        model=model,
        base_url=base_url,
        role_models=role_model,
        temperature=temperature,
        max_output_tokens=max_output_tokens,
        context_tokens=context_tokens,
        price=price,
        target=target,
    )
    baselines = options.further_baselines(baseline, target)
    how = RunOptions(
        recipe,
        team,
        target,
        budget_evaluations,
        budget_seconds,
        seed,
        modeloptions.checked(models, team=team, recipes=[recipe], usd=budget_usd),
        budget_calls,
        budget_tokens,
        budget_usd,
        library_calls,
        baselines or (("eager",) if quick else None),
    )
    _check_policy(list(earlier.values()), title, library_calls)
    _check_baselines(list(earlier.values()), title, how.baselines)
    rows: list[BenchRow] = []
    try:
        left = run_all(
            opened, entries, earlier, how, title, rows, stop_after,
            is_quick=quick, is_profiled=not (quick or no_profile),
        )  # fmt: skip
    except KeyboardInterrupt:
        left = [entry.task.name for entry in entries[len(rows) :]]
        write_results(title, rows, left, folder, is_quick=quick)
        interrupted(resume_command(title), as_json=as_json)
    finish(title, rows, left, folder, as_json=as_json, is_quick=quick)


def _check_earlier(earlier: "list[RunRecord]", title: str, recipe: str, *, is_resume: bool) -> None:
    """Raise UserError rather than mix two experiments under one name."""
    if earlier and not is_resume:
        raise UserError(f"there is an experiment {title!r} already; add --resume {title}, or name another")
    if is_resume and not earlier:
        raise UserError(f"there is no experiment {title!r} to resume; start it with --name {title}")
    others = sorted({record.spec.recipe for record in earlier} - {recipe})
    if others:
        raise UserError(f"experiment {title!r} ran recipe {others[0]!r}; resume it with --recipe {others[0]}")


def _check_policy(earlier: "list[RunRecord]", title: str, library_calls: LibraryCalls) -> None:
    for had in {record.spec.policy.library_calls for record in earlier} - {library_calls}:
        raise UserError(f"experiment {title!r} was judged with --library-calls {had}; resume it with that")


def _check_baselines(earlier: "list[RunRecord]", title: str, baselines: tuple[str, ...] | None) -> None:
    wanted = baselines or RunSpec.model_fields["baselines"].default
    for had in {record.spec.baselines for record in earlier} - {wanted}:
        words = ", ".join(had)
        raise UserError(
            f"experiment {title!r} compared with {words}; resume it with the same --baseline, --quick"
        )


def run_all(
    store: "Store",
    entries: list[BenchTask],
    earlier: "dict[str, RunRecord]",
    how: RunOptions,
    title: str,
    rows: list[BenchRow],
    stop_after: float | None = None,
    *,
    is_quick: bool = False,
    is_profiled: bool = True,
) -> list[str]:
    """Bring every task to its end and add its row; a failing task is a row, not an end.

    After ``stop_after`` seconds no task is begun or carried on; returns the names of those.
    """
    # lazy: loads torch
    from kernelwright.api import open_referee

    left: list[str] = []
    ends = None if stop_after is None else time.monotonic() + stop_after
    policy = Policy(library_calls=how.library_calls)
    device = how.target.partition("/")[0]
    profile = None if is_profiled else _no_profile()
    with (
        open_referee(policy=policy, device=device) as referee,
        BenchProgress(stderr(), len(entries)) as progress,
    ):
        for entry in entries:
            record = earlier.get(entry.task.id)
            is_finished = record is not None and record.state is RunState.FINISHED
            if ends is not None and time.monotonic() > ends and not is_finished:
                left.append(entry.task.name)
                continue
            progress.start(entry.task.name)
            judge = Quick(referee) if is_quick else referee
            row = _run_one(store, judge, entry, record, how, title, progress, profile)
            progress.finish(row)
            rows.append(row)
    return left


def _run_one(
    store: "Store",
    referee: "Evaluator",
    entry: BenchTask,
    record: "RunRecord | None",
    how: RunOptions,
    title: str,
    progress: BenchProgress,
    profile: "Profiler | None",
) -> BenchRow:
    # lazy: loads torch
    from kernelwright import api

    run_id = record.run_id if record and record.state is not RunState.FAILED else None
    if run_id is None:
        run_id = create_run(store, options.make_spec(entry.task, **how._asdict(), experiment=title))
    failure: str | None = None
    if record is None or record.state is not RunState.FINISHED:
        try:
            api.resume_run(run_id, store=store, referee=referee, on_event=progress.add, profile=profile)
        except StoreError:
            raise
        except KernelwrightError as error:
            failure = " ".join(str(error).split())
        except Exception as error:  # a border too: a defect on one task must not cost the others
            failure = f"{type(error).__name__}: {error}; traceback in {write_trace(error)}"
    return row_from_story(
        tell(stored.event for stored in store.iter_events(run_id)),
        task=entry.task.name,
        task_id=entry.task.id,
        category=entry.category,
        group=entry.group,
        run_id=run_id,
        failure=failure,
    )


def _no_profile() -> "Profiler":
    """Return what looks at nothing."""
    # lazy: keeps --help quick
    from kernelwright.targets.gpu.profilers.profile import Profiled

    refused = Profiled(note="not profiled: this bench takes no profiles")
    return lambda task, candidate: refused


def finish(
    title: str, rows: list[BenchRow], left: list[str], folder: Path, *, as_json: bool, is_quick: bool = False
) -> None:
    """Write the results, print them, and exit with 1 unless every task that was begun succeeded."""
    document, written = write_results(title, rows, left, folder, is_quick=is_quick)
    if as_json:
        print_json({**document, "files": written})
    else:
        _show(rows, summaries(rows))
        if left:
            more = f"{len(left)} tasks were not begun; go on with: {resume_command(title)}"
            stdout().print(more, soft_wrap=True)
        stdout().print(f"\nResults: {', '.join(map(str, written))}", soft_wrap=True)
    raise typer.Exit(0 if all(row.is_success for row in rows) else 1)


def write_results(
    title: str, rows: list[BenchRow], left: list[str], folder: Path, *, is_quick: bool = False
) -> tuple[dict[str, object], list[Path]]:
    """Write the three files and return the document and where they are; ``left``: tasks without a row."""
    # lazy: probes the machine
    from kernelwright.machine.probe import probe_machine

    sums = summaries(rows)
    facts = probe_machine().environment()
    date = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    command = shlex.join(["kernelwright", *sys.argv[1:]])
    document: dict[str, object] = {
        "name": title,
        "date": date,
        "command": command,
        "environment": facts,
        "is_quick": is_quick,
        "summaries": sums,
        "rows": rows,
        "left": left,
    }
    return document, _write(folder, document, rows, sums, facts)


def _write(
    folder: Path,
    document: dict[str, object],
    rows: list[BenchRow],
    sums: list[Summary],
    facts: dict[str, FactValue],
) -> list[Path]:
    title, date, command = (str(document[key]) for key in ("name", "date", "command"))
    text = markdown.bench_markdown(
        title,
        rows,
        sums,
        date=date,
        command=command,
        environment=facts,
        picture="results.svg",
        is_quick=bool(document["is_quick"]),
    )
    data = json_text(document)
    return [
        write_text(folder / "results.json", data),
        write_text(folder / "results.md", text),
        write_text(folder / "results.svg", bench_picture(title, rows) + "\n"),
    ]


def _show(rows: list[BenchRow], sums: list[Summary]) -> None:
    console = stdout()
    for header, lines in (
        (markdown.TASK_HEADER, [markdown.row_cells(row) for row in rows]),
        (markdown.SUMMARY_HEADER, [markdown.summary_cells(summary) for summary in sums]),
    ):
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
        for i, column in enumerate(header):
            table.add_column(column, justify="left" if i == 0 else "right")
        for line in lines:
            table.add_row(*line)
        console.print(table)
        console.print()
    for row in rows:
        if not row.is_success:
            console.print(f"failed: {row.task}: {row.detail}", soft_wrap=True)
