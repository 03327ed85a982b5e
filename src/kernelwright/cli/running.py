"""Runs started and carried on from the command line: the store, and what an interruption leaves."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer

from kernelwright.cli.output import print_json, stderr
from kernelwright.cli.progress import Progress
from kernelwright.core.errors import UserError
from kernelwright.core.run import RunSpec
from kernelwright.settings import load_settings

if TYPE_CHECKING:
    from kernelwright.runs.evaluator import Evaluator
    from kernelwright.runs.loop import RunOutcome
    from kernelwright.store.base import RunRecord, Store

EXIT_INTERRUPTED = 130


def open_store(where: str | None) -> "Store":
    """Open the store that the user named, or the default one; raises StoreError."""
    # lazy: SQLAlchemy takes a while to load
    from kernelwright.store import sqlstore

    return sqlstore.open_store(where or load_settings().store)


def find_run(store: "Store", prefix: str) -> "RunRecord":
    """Return the run whose id begins so; raises UserError when there is none."""
    record = store.find_run(prefix)
    if record is None:
        raise UserError(f"no run {prefix!r} in this store; list them with: kernelwright runs list")
    return record


def create_run(store: "Store", spec: RunSpec) -> str:
    """Put a run into the store, so that its id is known before anything can interrupt it."""
    # lazy: loads torch
    from kernelwright.runs import loop as run

    return run.create_run(spec, store)


def play(
    store: "Store",
    run_id: str,
    progress: Progress,
    *,
    resume_with: str,
    as_json: bool,
    evaluator: "Evaluator | None" = None,
) -> "RunOutcome":
    """Carry a run to its end; an interruption says how to resume and exits with 130."""
    # lazy: loads torch
    from kernelwright import api

    try:
        with progress:
            return api.resume_run(run_id, store=store, referee=evaluator, on_event=progress.add)
    except KeyboardInterrupt:
        interrupted(resume_with, as_json=as_json)


def replay(store: "Store", folder: Path, progress: Progress) -> "RunOutcome":
    """Play a recorded run again; raises UserError where it asks what was not recorded."""
    # lazy: loads torch
    from kernelwright import api

    with progress:
        return api.replay_run(folder, store=store, on_event=progress.add)


def save_recording(store: "Store", run_id: str, folder: Path) -> None:
    """Write a finished run into a folder for ``runs replay``."""
    # lazy: loads torch
    from kernelwright import api

    api.record_run(run_id, folder, store=store)


def interrupted(resume_with: str, *, as_json: bool) -> NoReturn:
    """Say how to carry on and exit with 130."""
    message = f"interrupted; what was finished is kept. Carry on with: {resume_with}"
    stderr().print(message, soft_wrap=True)
    if as_json:
        print_json({"interrupted": True, "resume_with": resume_with, "exit_code": EXIT_INTERRUPTED})
    raise typer.Exit(EXIT_INTERRUPTED)


def resume_command(run_id: str, store: str | None, evaluator: str | None = None) -> str:
    """Return the command line that carries a run on."""
    more = [*(["--store", store] if store else []), *(["--evaluator", evaluator] if evaluator else [])]
    return shlex.join(["kernelwright", "runs", "resume", run_id, *more])


def find_evaluator(text: str | None) -> "Evaluator | None":
    """Return the evaluator that ``--evaluator`` names, None for the referee here; raises UserError."""
    # lazy: needs what only some installations have
    from kernelwright.remote import open_evaluator

    return None if text is None else open_evaluator(text)
