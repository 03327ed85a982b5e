"""``kernelwright optimize``: a task file in, a verified faster module and a report out."""

import contextlib
import webbrowser
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import typer

from kernelwright.cli.interruption import deliver_best, keeping, leaving
from kernelwright.cli.options import AsJson, takes
from kernelwright.cli.output import print_json, print_table, print_verdict, say
from kernelwright.core.errors import KernelwrightError, MachineError, StoreError, UserError
from kernelwright.core.events import CandidateEvaluated
from kernelwright.core.request import RunRequest
from kernelwright.core.request_words import shown
from kernelwright.report.asked import with_models
from kernelwright.report.files import require_writable, write_text
from kernelwright.report.measures import floor_fraction, speedup_over
from kernelwright.report.progress import show_run
from kernelwright.report.story import tell as tell_story
from kernelwright.report.verdict import run_verdict

if TYPE_CHECKING:
    from kernelwright.api import Begun
    from kernelwright.runs.loop import RunOutcome
    from kernelwright.store.base import Store


class Places(NamedTuple):
    """Where a run's kernel and report go."""

    kernel: Path
    report: Path


@takes(RunRequest)
def optimize(
    request: RunRequest,
    *,
    as_json: AsJson = False,
) -> None:
    """Search for a faster module that computes the same, and prove it."""
    # lazy: loads torch
    from kernelwright import api

    title = request.task.title
    begun = api.begin(request)
    if begun.is_stored:
        say(f"the store has the answer, run {begun.run_id}; --again measures anew")
    if begun.spec.by_blocks or request.with_backward:
        finish_module(begun, request, as_json=as_json)
    kernel, report = request.output or f"{title}_fast.py", request.report or f"{title}_report.html"
    places = places_for(kernel, report, begun.spec.task.path)
    if begun.spec.machine.is_assumed:
        say(f"{request.evaluator} does not say what its machine is: kernels are planned for one like this")
    outcome = play(begun, places, as_json=as_json, store=request.store)
    deliver(
        begun.store,
        outcome,
        places,
        as_json=as_json,
        open_report=request.open_report,
        is_stored=begun.is_stored,
    )


def finish_module(begun: "Begun", request: RunRequest, *, as_json: bool) -> NoReturn:
    """Optimise a whole model, or a module and its gradients; write its folder and report, exit."""
    # lazy: load torch and Jinja2
    from kernelwright import api
    from kernelwright.delivery.saving import require_ours
    from kernelwright.report.blocks import block_table
    from kernelwright.report.html import render_report

    title, is_whole = request.task.title, begun.spec.by_blocks
    folder = require_ours(Path(request.output or f"{title}_fast"))
    report = require_writable(Path(request.report or f"{title}_report.html"))
    kept = "blocks that have ended are kept" if is_whole else "what was measured is kept"
    with keeping(kept, as_json=as_json, resume_with=request.command_line()):
        if is_whole:
            result = api.finish_by_blocks(begun, progress=True, tell=say)
        else:
            result = api.finish_with_backward(begun, progress=True)
    is_improved = ((result.patched or result.delivery) if is_whole else result.winner) is not None
    saved = result.save(folder) if is_improved else None
    write_text(report, render_report(begun.store, result.run_id))
    note = result.backward.note if result.backward is not None else ""
    if as_json:
        own = {"apart": result.apart, "composition": result.composition} if is_whole else {"backward": note}
        print_json(
            {
                "run_id": result.run_id,
                "task": begun.spec.task.name,
                "improved": is_improved,
                "from_store": result.is_stored,
                "reason": result.reason,
                "folder": saved,
                "report": report,
                "evaluation": result.evaluation,
                **own,
            }
        )
    else:
        story = tell_story(stored.event for stored in begun.store.iter_events(result.run_id))
        if result.apart is not None:
            print_table(block_table(result.apart, result.winner.id if result.winner else None))
        lines = [] if is_whole else [f"Gradients: {note}"]
        lines += [f"{'Model' if is_whole else 'Module'}: {saved} (kernelwright.load)"] if saved else []
        print_verdict(run_verdict(story), "", *lines, f"Report: {report}", f"Run: {result.run_id}")
    _open(report, is_wanted=request.open_report)
    raise typer.Exit(0)


def _open(report: Path, *, is_wanted: bool) -> None:
    """Show a report in a browser where that was asked for."""
    if is_wanted and not webbrowser.open(report.resolve().as_uri()):
        say(f"no browser to open {report} with")


def places_for(kernel: str, report: str, source: str | None = None) -> Places:
    """Return where files go; raises UserError where they cannot be written, or not beside ``source``."""
    places = Places(require_writable(Path(kernel)), require_writable(Path(report)))
    own = {Path(source).resolve()} if source else set()
    if places.kernel.resolve() in own or places.report.resolve() in own | {places.kernel.resolve()}:
        raise UserError(f"{kernel} and {report} must be two files beside the model's; name others")
    return places


def play(begun: "Begun", places: Places, *, as_json: bool, store: str | None) -> "RunOutcome":
    """Carry a run to its end; an interruption writes its best so far and says how to carry on."""
    spec = begun.spec
    again = resume_command(begun.run_id, store)

    def leave() -> NoReturn:
        deliver_best(
            begun.store, begun.run_id, places.kernel, places.report, resume_with=again, as_json=as_json
        )

    progress = show_run(spec.task.name, spec.budget, progress=True)
    with leaving(leave), _resumable(begun, places, again), progress:
        return begun.carry_on(progress.add)


@contextlib.contextmanager
def _resumable(begun: "Begun", places: Places, resume_with: str) -> Iterator[None]:
    """Add to what the machine or the store failed at how the run is carried on once that is mended."""
    try:
        yield
    except (MachineError, StoreError) as error:
        if isinstance(error, MachineError):
            _report_failure(begun, places)
        raise type(error)(f"{error}. Carry on with: {resume_with}") from error


def _report_failure(begun: "Begun", places: Places) -> None:
    """Write the report of a run that had judged something, if possible; what failed is told in any case."""
    events = [stored.event for stored in begun.store.iter_events(begun.run_id)]
    if not any(isinstance(event, CandidateEvaluated) for event in events):
        return
    # lazy: Jinja2 is only needed here
    from kernelwright.report.html import render_report

    with contextlib.suppress(KernelwrightError):
        say(f"Report: {write_text(places.report, render_report(begun.store, begun.run_id))}")


def resume_command(run_id: str, store: str | None) -> str:
    """Return the command line that carries a run on as it was begun."""
    return shown(["kernelwright", "runs", "resume", run_id, *(["--store", store] if store else [])])


def deliver(
    store: "Store",
    outcome: "RunOutcome",
    places: Places,
    *,
    as_json: bool,
    open_report: bool = False,
    is_stored: bool = False,
) -> None:
    """Write what a finished run has to give, say its verdict and exit with its code."""
    # lazy: Jinja2 is only needed here
    from kernelwright.report.html import render_report

    write_text(places.report, render_report(store, outcome.run_id))
    written = None
    if outcome.winner is not None:
        written = write_text(places.kernel, outcome.winner.source)
    if as_json:
        document = outcome_document(store, outcome, written, places.report)
        print_json({**document, "from_store": True} if is_stored else document)
    else:
        story = tell_story(stored.event for stored in store.iter_events(outcome.run_id))
        paths = [f"Kernel: {written}"] if written else []
        if outcome.every_call_failed:
            say("error: every call to the model failed; what the expert seats made is kept")
        verdict = with_models(run_verdict(story), store.get_run(outcome.run_id).spec.models, story)
        print_verdict(verdict, "", *paths, f"Report: {places.report}", f"Run: {outcome.run_id}")
    _open(places.report, is_wanted=open_report)
    raise typer.Exit(exit_code(outcome))


def exit_code(outcome: "RunOutcome") -> int:
    """Return 0 for a verified winner or an unchanged module, 1 when a winner did not hold, 2 when every
    call to a model failed."""
    if outcome.every_call_failed:
        return 2
    if outcome.winner is None:
        return 0
    return 0 if outcome.evaluation is not None and outcome.evaluation.is_verified else 1


def outcome_document(
    store: "Store", outcome: "RunOutcome", kernel: Path | None, report: Path | None
) -> dict[str, Any]:
    """Return a run's outcome as JSON-ready data."""
    spec = store.get_run(outcome.run_id).spec
    evaluation = outcome.evaluation if outcome.winner is not None else None
    document: dict[str, Any] = {
        "run_id": outcome.run_id,
        "task": spec.task.name,
        "verified": exit_code(outcome) == 0,
        "improved": outcome.winner is not None,
        "reason": outcome.reason,
        "spent": outcome.spent,
        "answers": outcome.answers,
        "kernel": kernel,
        "report": report,
        "compiler": tell_story(stored.event for stored in store.iter_events(outcome.run_id)).compiler,
        "floor_fraction": floor_fraction(evaluation) if evaluation else None,
        "evaluation": outcome.evaluation,
    }
    for baseline in dict.fromkeys(("eager", "torch_compile", *spec.baselines)):
        speedup = speedup_over(evaluation, baseline) if evaluation else None
        document[f"speedup_over_{baseline}"] = speedup._asdict() if speedup else None
    return document
