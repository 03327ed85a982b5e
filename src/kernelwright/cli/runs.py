"""``kernelwright runs``: what the store holds, and going on with it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from kernelwright import settings
from kernelwright.cli import options
from kernelwright.cli.optimize import deliver
from kernelwright.cli.output import print_json, print_verdict, require_writable, stdout, write_text
from kernelwright.cli.progress import make_progress
from kernelwright.cli.running import (
    find_evaluator,
    find_run,
    open_for_reading,
    open_store,
    play,
    replay,
    resume_command,
    save_recording,
)
from kernelwright.core.errors import UserError
from kernelwright.core.run import RunState
from kernelwright.report.asked import with_models
from kernelwright.report.measures import millis, speedup_over
from kernelwright.report.story import Story, tell
from kernelwright.report.verdict import run_verdict

if TYPE_CHECKING:
    from kernelwright.store.base import RunRecord, Store

app = typer.Typer(
    help="Runs in the store: list, show, resume, record, replay, export, report.", no_args_is_help=True
)
LISTED = ("run_id", "task", "recipe", "state", "created_at", "result")
"""Columns of the list."""
IN_MEMORY = "sqlite://"
INTERRUPTED = "interrupted"
"""A run that has not ended and that no process is at work on: it can be resumed."""
RunId = Annotated[str, typer.Argument(metavar="RUN", help="Id of the run, or how it begins.")]


@app.command("list")
def list_runs(
    experiment: Annotated[
        str | None, typer.Option("--experiment", help="Only runs of this bench or comparison.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Only the newest N.")] = 20,
    store: options.StoreOption = None,
    as_json: options.AsJson = False,
) -> None:
    """List runs, newest first."""
    opened = open_for_reading(store)
    records = list(opened.iter_runs(experiment))[-limit:][::-1]
    rows = []
    for record in records:
        story = tell(stored.event for stored in opened.iter_events(record.run_id))
        rows.append(
            {
                "run_id": record.run_id,
                "task": record.spec.task.name,
                "recipe": record.spec.recipe,
                "experiment": record.spec.experiment,
                "state": standing(opened, record),
                "created_at": f"{record.created_at:%Y-%m-%d %H:%M}",
                "result": result_text(story, record.failure),
            }
        )
    if as_json:
        print_json(rows)
        return
    if not rows:
        stdout().print("no runs yet; start one with: kernelwright optimize FILE")
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for name in LISTED:
        table.add_column(name.removesuffix("_at").replace("_id", ""), no_wrap=name == "run_id")
    for row in rows:
        table.add_row(*(str(row[name]) for name in LISTED))
    stdout().print(table)


def _next(opened: "Store", record: "RunRecord", store: str | None) -> str:
    if standing(opened, record) == RunState.RUNNING:
        return f"it is being carried on: kernelwright runs show {record.run_id}"
    return resume_command(record.run_id, store)


def standing(store: "Store", record: "RunRecord") -> str:
    """Return a run's state as people see it: one that nobody is at work on any more is interrupted."""
    if record.state is RunState.RUNNING and store.lease_of(record.run_id) is None:
        return INTERRUPTED
    return record.state.value


def result_text(story: Story, failure: str | None) -> str:
    """Return a run's result in a few words."""
    if failure is not None:
        return failure
    if story.finished is None:
        best = story.best
        return f"not ended; best {best.speedup}" if best is not None else "not ended"
    if story.finished.winner is None or story.finished.evaluation is None:
        return "nothing faster found"
    speedup = speedup_over(story.finished.evaluation, "eager")
    return f"{speedup} over eager" if speedup is not None else "not verified"


@app.command()
def show(run: RunId, store: options.StoreOption = None, as_json: options.AsJson = False) -> None:
    """Show a run: its verdict and every step."""
    opened = open_for_reading(store)
    record = find_run(opened, run)
    stored = list(opened.iter_events(record.run_id))
    if as_json:
        lease = opened.lease_of(record.run_id)
        print_json({"run": record, "state": standing(opened, record), "lease": lease, "events": stored})
        return
    story = tell(item.event for item in stored)
    stands = standing(opened, record)
    hint = [f"Resume: {resume_command(record.run_id, store)}"] if stands == INTERRUPTED else []
    verdict = with_models(run_verdict(story, record.failure), record.spec.models, story)
    print_verdict(verdict, "", f"Run: {record.run_id} ({stands})", *hint)
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for name in ("step", "mode", "move", "latency", "result"):
        table.add_column(name)
    for step in story.steps:
        results = step.evaluation.results if step.evaluation else ()
        latency = millis(results[0].candidate.median_ms) if results else ""
        shown = str(step.speedup) if step.speedup else f"{step.outcome} {step.explanation}"
        table.add_row(str(step.number), step.mode, step.title, latency, shown)
    stdout().print(table)


@app.command()
def resume(
    run: RunId,
    evaluator: options.EvaluatorOption = None,
    store: options.StoreOption = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Kernel file.", show_default="as it began")
    ] = None,
    report: Annotated[
        Path | None, typer.Option("--report", help="HTML report.", show_default="as it began")
    ] = None,
    require_sandbox: options.RequireSandbox = None,
    as_json: options.AsJson = False,
) -> None:
    """Carry an interrupted run on as it was asked for; finished evaluations are not repeated."""
    opened = open_store(store)
    record = find_run(opened, run)
    name, asked = record.spec.task.name, record.spec.delivery
    judge = find_evaluator(evaluator or asked.evaluator)
    if asked.require_sandbox is not None and require_sandbox is None:
        settings.require_sandbox(asked.require_sandbox)
    kernel_path = require_writable(output or Path(asked.output or f"{name}_fast.py"))
    report_path = require_writable(report or Path(asked.report or f"{name}_report.html"))
    outcome = play(
        opened,
        record.run_id,
        make_progress(name),
        kernel_path=kernel_path,
        report_path=report_path,
        resume_with=resume_command(record.run_id, store),
        as_json=as_json,
        evaluator=judge,
    )
    if asked.record is not None:
        save_recording(opened, record.run_id, Path(asked.record))
    deliver(opened, outcome, kernel_path, report_path, as_json=as_json, open_report=asked.opens_report)


@app.command()
def record(
    run: RunId,
    folder: Annotated[Path, typer.Argument(help="Where to write it.")],
    store: options.StoreOption = None,
    as_json: options.AsJson = False,
) -> None:
    """Write a finished run's answers and measurements into a folder, for replay."""
    opened = open_for_reading(store)
    run_id = find_run(opened, run).run_id
    save_recording(opened, run_id, folder)
    if as_json:
        print_json({"run_id": run_id, "recording": folder})
    else:
        stdout().print(f"Recording: {folder}", soft_wrap=True)


@app.command("replay")
def replay_recorded(
    folder: Annotated[Path, typer.Argument(help="What optimize --record or runs record wrote.")],
    store: Annotated[
        str | None, typer.Option("--store", help="Keep the replayed run there.", show_default="nowhere")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Kernel file.", show_default="FOLDER_fast.py")
    ] = None,
    report: Annotated[
        Path | None, typer.Option("--report", help="HTML report.", show_default="FOLDER_report.html")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Play a recorded run again: no model is asked and nothing is measured."""
    opened = open_store(store or IN_MEMORY)
    name = folder.resolve().name
    outcome = replay(opened, folder, make_progress(name))
    kernel_path, report_path = output or Path(f"{name}_fast.py"), report or Path(f"{name}_report.html")
    deliver(opened, outcome, kernel_path, report_path, as_json=as_json)


@app.command()
def export(
    run: RunId,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Kernel file.", show_default="stdout")
    ] = None,
    store: options.StoreOption = None,
    as_json: options.AsJson = False,
) -> None:
    """Print the winner's source, or write it to a file."""
    opened = open_for_reading(store)
    record = find_run(opened, run)
    finished = tell(stored.event for stored in opened.iter_events(record.run_id)).finished
    if finished is None:
        raise UserError(f"run {record.run_id} has not ended; {_next(opened, record, store)}")
    if finished.winner is None:
        raise UserError(f"run {record.run_id} found nothing faster; there is no kernel to export")
    source = opened.get_candidate(finished.winner, record.run_id).source
    written = write_text(output, source) if output is not None else None
    if as_json:
        print_json({"run_id": record.run_id, "kernel": written, "source": source})
    elif written is None:
        stdout().out(source, end="", highlight=False)
    else:
        stdout().print(f"Kernel: {written}", soft_wrap=True)


@app.command()
def report(
    run: RunId,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="HTML file.", show_default="TASK_report.html")
    ] = None,
    store: options.StoreOption = None,
    as_json: options.AsJson = False,
) -> None:
    """Write a run's HTML report, finished or not."""
    # lazy: Jinja2 is only needed here
    from kernelwright.report.html import render_report

    opened = open_for_reading(store)
    record = find_run(opened, run)
    path = output or Path(f"{record.spec.task.name}_report.html")
    write_text(path, render_report(opened, record.run_id))
    if as_json:
        print_json({"run_id": record.run_id, "report": path})
    else:
        stdout().print(f"Report: {path}", soft_wrap=True)
