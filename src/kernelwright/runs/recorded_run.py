"""A finished run as a folder: its model answers and measurements, to be replayed offline.

The folder holds ``spec.json``, the answers (``calls.jsonl``) and the measurements (``recording.jsonl``).
"""

from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from kernelwright.agents.llm.tape import FolderTape, ReplayOnly
from kernelwright.core.errors import UserError
from kernelwright.core.run import RunSpec, RunState
from kernelwright.runs.recording import (
    FILE_NAME,
    RecordedMachine,
    Recording,
    open_recording,
    read_recording,
    recording_of_run,
)
from kernelwright.store.base import Store

SPEC_NAME = "spec.json"


@dataclass(frozen=True)
class RecordedRun:
    """Everything a replay needs; it asks no model and measures nothing."""

    spec: RunSpec
    """Cold: a recorded run knew of no other run."""
    tape: ReplayOnly
    recording: Recording
    machine: RecordedMachine


def save_run(store: Store, run_id: str, folder: Path, machine: RecordedMachine) -> None:
    """Write a run into a folder, in place of what was recorded there before.

    Raises:
        UserError: the run has not ended, it knew of other runs, or the folder cannot be written.
    """
    record = store.get_run(run_id)
    if record.state is not RunState.FINISHED:
        raise UserError(f"run {run_id} has not ended: carry it on first, then record it")
    if not record.spec.is_cold and _knew_others(record.spec):
        raise UserError(
            f"run {run_id} knew of other runs, which a recording does not hold: record one that begins cold "
            "(optimize --record), or with a fresh store"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in (FILE_NAME, "calls.jsonl"):
            (folder / name).unlink(missing_ok=True)
        spec = record.spec.model_copy(update={"request": None, "folder": None})
        (folder / SPEC_NAME).write_text(spec.model_dump_json(indent=1) + "\n", encoding="utf-8")
        tape = FolderTape(folder)
        for call in store.iter_model_calls(run_id):
            tape.add(call)
    except OSError as error:
        raise UserError(
            f"cannot write the recording {folder}: {error.strerror}; name another place"
        ) from error
    recording = open_recording(folder / FILE_NAME)
    recording.add(machine)
    for entry in recording_of_run(store, run_id).entries():
        recording.add(entry)


def load_run(folder: Path) -> RecordedRun:
    """Read what ``save_run`` wrote; raises UserError or StoreError when it is missing or damaged."""
    try:
        text = (folder / SPEC_NAME).read_text(encoding="utf-8")
        spec = RunSpec.model_validate_json(text)
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{folder}: no recorded run can be read there; name a folder of --record") from error
    except ValidationError as error:
        raise UserError(f"{folder / SPEC_NAME}: not the spec of a run; record it again") from error
    recording = read_recording(folder)
    if recording.machine is None:
        raise UserError(f"{folder / FILE_NAME}: it says nothing of the machine; record the run again")
    cold = spec.model_copy(update={"is_cold": True})
    return RecordedRun(cold, ReplayOnly(FolderTape(folder)), recording, recording.machine)


def _knew_others(spec: RunSpec) -> bool:
    return bool(spec.ledger_until or spec.archive_until or spec.findings)
