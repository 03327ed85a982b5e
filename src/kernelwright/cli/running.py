"""Runs started and carried on from the command line: the store, and what an interruption leaves."""

import contextlib
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from kernelwright.cli.interruption import deliver_best
from kernelwright.cli.progress import Progress
from kernelwright.cli.signals import interruptible
from kernelwright.core.errors import MachineError, StoreError, UserError
from kernelwright.core.run import RunSpec
from kernelwright.settings import load_settings

if TYPE_CHECKING:
    from kernelwright.runs.evaluator import Evaluator, EvaluatorElsewhere
    from kernelwright.runs.loop import RunOutcome
    from kernelwright.store.base import RunRecord, Store


def open_store(where: str | None) -> "Store":
    """Open the store that the user named, or the default one; raises StoreError."""
    # lazy: SQLAlchemy takes a while to load
    from kernelwright.store import sqlstore

    return sqlstore.open_store(where or load_settings().store)


def open_for_reading(where: str | None) -> "Store":
    """Open a store to look at it: nothing is written, and nobody is waited for.

    An older store is upgraded first, where it may be written. Where the default store is not there yet, an
    empty one stands for it.

    Raises:
        StoreError: the store that was named is not there, or cannot be read.
    """
    # lazy: SQLAlchemy takes a while to load
    from kernelwright.store import sqlstore, versions

    address = where or load_settings().store
    try:
        return sqlstore.open_store(address, read_only=True)
    except versions.StoreMissing:
        if where is not None:
            raise
        return sqlstore.open_store("sqlite://")
    except versions.StoreOlder as older:
        try:
            sqlstore.open_store(address).close()
        except StoreError:
            raise older from None
        return sqlstore.open_store(address, read_only=True)


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
    kernel_path: Path,
    report_path: Path,
    resume_with: str,
    as_json: bool,
    evaluator: "Evaluator | None" = None,
) -> "RunOutcome":
    """Carry a run to its end; an interruption writes its best so far, says how to resume, exits with 130."""
    # lazy: loads torch
    from kernelwright import api

    with interruptible() as signals, _resumable(resume_with):
        try:
            with progress:
                return api.resume_run(run_id, store=store, referee=evaluator, on_event=progress.add)
        except (KeyboardInterrupt, OSError) as error:
            # A display on a terminal that was closed fails too, and in the interruption's place.
            if not (isinstance(error, KeyboardInterrupt) or signals.has_come):
                raise
            deliver_best(store, run_id, kernel_path, report_path, resume_with=resume_with, as_json=as_json)


@contextlib.contextmanager
def _resumable(resume_with: str) -> Iterator[None]:
    """Add to what the machine or the store failed at how the run is carried on once that is mended."""
    try:
        yield
    except (MachineError, StoreError) as error:
        raise type(error)(f"{error}. Carry on with: {resume_with}") from error


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


def resume_command(run_id: str, store: str | None) -> str:
    """Return the command line that carries a run on; a password in the store's address is not in it."""
    # lazy: SQLAlchemy takes a while to load
    from kernelwright.store.address import store_words

    return " ".join(["kernelwright runs resume", shlex.quote(run_id), *store_words(store)])


def gpu_of_evaluator(evaluator: "EvaluatorElsewhere", target: str) -> str:
    """Return the model of the GPU that an evaluator judges on, empty where it is not known or not wanted.

    Raises:
        MachineError: the service does not answer.
    """
    # lazy: needs what only some installations have
    from kernelwright.remote import gpu_there

    return "" if target.startswith("cpu/") else gpu_there(evaluator)


def find_evaluator(text: str | None) -> "EvaluatorElsewhere | None":
    """Return the evaluator that ``--evaluator`` names, None for the referee here; raises UserError."""
    # lazy: needs what only some installations have
    from kernelwright.remote import open_evaluator

    return None if text is None else open_evaluator(text)
