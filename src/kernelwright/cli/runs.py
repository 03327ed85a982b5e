"""``kernelwright runs``: what the store holds, and going on with it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernelwright.cli.optimize import (
    Places,
    deliver,
    finish_module,
    places_for,
    play,
    resume_command,
)
from kernelwright.cli.options import (
    AsJson,
    EvaluatorOption,
    OutputOption,
    ReportOption,
    RequireSandbox,
    StoreOption,
)
from kernelwright.cli.output import print_json, print_table, print_verdict, say, stdout, tell
from kernelwright.cli.stores import newest_ids, open_for_reading, open_store
from kernelwright.core.errors import UserError
from kernelwright.report.asked import with_models
from kernelwright.report.files import write_text
from kernelwright.report.measures import millis
from kernelwright.report.progress import show_run
from kernelwright.report.reproduce import command_line
from kernelwright.report.runlist import INTERRUPTED, list_runs, standing
from kernelwright.report.story import Story
from kernelwright.report.story import tell as tell_story
from kernelwright.report.table import Table
from kernelwright.report.verdict import run_verdict
from kernelwright.store.base import find_run

if TYPE_CHECKING:
    from kernelwright.store.base import RunRecord, Store

app = typer.Typer(
    help="Runs in the store: list, show, resume, record, replay, export, report.", no_args_is_help=True
)
IN_MEMORY = "sqlite://"
RunId = Annotated[
    str,
    typer.Argument(metavar="RUN", help="Id of the run, or how it begins.", autocompletion=newest_ids),
]


@app.command("list")
def list_all(
    experiment: Annotated[
        str | None, typer.Option("--experiment", help="Only runs of this bench or comparison.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Only the newest N.")] = 20,
    store: StoreOption = None,
    as_json: AsJson = False,
) -> None:
    """List runs, newest first."""
    found = list_runs(open_for_reading(store), experiment=experiment, limit=limit)
    if as_json:
        print_json(list(found))
    elif not found:
        tell("no runs yet; start one with: kernelwright optimize FILE")
    else:
        print_table(found.table(), whole=("run", "task"))


@app.command()
def show(run: RunId, store: StoreOption = None, as_json: AsJson = False) -> None:
    """Show a run: its verdict, every step, and the command that starts it again."""
    opened = open_for_reading(store)
    record = find_run(opened, run)
    stored = list(opened.iter_events(record.run_id))
    if as_json:
        print_json(
            {
                "run": record,
                "state": standing(opened, record),
                "lease": opened.lease_of(record.run_id),
                "command": command_line(record.spec),
                "events": stored,
            }
        )
        return
    story = tell_story(item.event for item in stored)
    stands = standing(opened, record)
    hint = [f"Resume: {resume_command(record.run_id, store)}"] if stands == INTERRUPTED else []
    verdict = with_models(run_verdict(story, record.failure), record.spec.models, story)
    again = f"Again: {command_line(record.spec)}"
    judged = [f"Judged on: {', '.join(story.devices)}"] if story.devices else []
    moved = [story.moved] if story.moved else []
    print_verdict(verdict, "", f"Run: {record.run_id} ({stands})", *judged, *moved, *hint, again)
    print_table(_steps(story))


def _steps(story: Story) -> Table:
    rows = []
    where = ("device",) if len(story.devices) > 1 else ()
    for step in story.steps:
        results = step.evaluation.told if step.evaluation else ()
        latency = millis(results[0].candidate.median_ms) if results else ""
        device = (step.evaluation.device if step.evaluation else None) or ""
        shown = str(step.speedup) if step.speedup else f"{step.outcome} {step.explanation}"
        rows.append((str(step.number), step.mode, step.title, latency, *(device for _ in where), shown))
    return Table(("step", "mode", "move", "latency", *where, "result"), rows, is_text=True)


@app.command()
def resume(
    run: RunId,
    evaluator: EvaluatorOption = None,
    store: StoreOption = None,
    output: OutputOption = None,
    report: ReportOption = None,
    require_sandbox: RequireSandbox = None,
    as_json: AsJson = False,
) -> None:
    """Carry an interrupted run on as it was begun; finished evaluations are not repeated."""
    # lazy: loads torch
    from kernelwright import api

    opened = open_store(store)
    begun = api.resume(run, store=opened, evaluator=evaluator, require_sandbox=require_sandbox)
    say(f"carrying on {begun.run_id}: {command_line(begun.spec)}")
    asked = begun.request
    if asked is not None and (asked.with_backward or begun.spec.by_blocks):
        paths = {"output": output or asked.output, "report": report or asked.report}
        finish_module(begun, asked.model_copy(update=paths), as_json=as_json)
    kernel, page = begun.paths
    places = places_for(output or kernel, report or page)
    outcome = play(begun, places, as_json=as_json, store=store)
    is_opened = asked is not None and asked.open_report
    deliver(opened, outcome, places, as_json=as_json, open_report=is_opened)


@app.command()
def record(
    run: RunId,
    folder: Annotated[Path, typer.Argument(help="Where to write it.")],
    store: StoreOption = None,
    as_json: AsJson = False,
) -> None:
    """Write a finished run's answers and measurements into a folder, for replay."""
    # lazy: loads torch
    from kernelwright import api

    opened = open_for_reading(store)
    run_id = find_run(opened, run).run_id
    api.record_run(run_id, folder, store=opened)
    if as_json:
        print_json({"run_id": run_id, "recording": folder})
    else:
        tell(f"Recording: {folder}")


@app.command("replay")
def replay_recorded(
    folder: Annotated[Path, typer.Argument(help="What optimize --record or runs record wrote.")],
    store: Annotated[
        str | None, typer.Option("--store", help="Keep the replayed run there.", show_default="nowhere")
    ] = None,
    output: OutputOption = None,
    report: ReportOption = None,
    as_json: AsJson = False,
) -> None:
    """Play a recorded run again: no model is asked and nothing is measured."""
    # lazy: loads torch
    from kernelwright import api

    opened = open_store(store or IN_MEMORY)
    name = folder.resolve().name
    with show_run(name, progress=True) as progress:
        outcome = api.replay_run(folder, store=opened, on_event=progress.add)
    places = Places(Path(output or f"{name}_fast.py"), Path(report or f"{name}_report.html"))
    deliver(opened, outcome, places, as_json=as_json)


def _next(opened: "Store", record: "RunRecord", store: str | None) -> str:
    if standing(opened, record) == INTERRUPTED:
        return resume_command(record.run_id, store)
    return f"it is being carried on: kernelwright runs show {record.run_id}"


@app.command()
def export(
    run: RunId,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Kernel file.", show_default="stdout")
    ] = None,
    store: StoreOption = None,
    as_json: AsJson = False,
) -> None:
    """Print the winner's source, or write it to a file."""
    opened = open_for_reading(store)
    record = find_run(opened, run)
    finished = tell_story(stored.event for stored in opened.iter_events(record.run_id)).finished
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
        tell(f"Kernel: {written}")


@app.command()
def report(
    run: RunId,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="HTML file.", show_default="TASK_report.html")
    ] = None,
    store: StoreOption = None,
    as_json: AsJson = False,
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
        tell(f"Report: {path}")
