"""Recordings of a run's model traffic, and their replay.

A run that goes on after it was killed finds an answer by its request's content: a changed prompt is asked
anew. A replay of a recorded run does so too, and for what was asked in other words takes the answers in their
order; who is asked for what must be the same. Prompts may be reworded without recording anything again.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from pydantic import ValidationError

from kernelwright.core.errors import StoreError, UserError
from kernelwright.core.model_call import CallOutcome, ModelCall, Question


class Tape(Protocol):
    """Where every request of a run is looked up before it is sent, and recorded once it is answered."""

    def find(self, key: str, question: Question) -> ModelCall | None:
        """Return the recorded call, None when it must be sent."""
        ...

    def add(self, call: ModelCall) -> None:
        """Record a call; it is durable when this returns."""
        ...

    def judge(self, key: str, outcome: CallOutcome, detail: str) -> None:
        """Note with a recorded call why its answer could not be used; an unknown key is nobody's."""
        ...


class MemoryTape:
    """A recording that lasts as long as the process."""

    def __init__(self) -> None:
        self._calls: dict[str, ModelCall] = {}

    def find(self, key: str, question: Question | None = None) -> ModelCall | None:
        """Return the recorded call with that key."""
        return self._calls.get(key)

    def add(self, call: ModelCall) -> None:
        """Record a call."""
        self._calls[call.key] = call

    def judge(self, key: str, outcome: CallOutcome, detail: str) -> None:
        """Note why a call's answer could not be used."""
        if (known := self._calls.get(key)) and (call := known.judged_as(outcome, detail)) != known:
            self._calls[key] = call

    def calls(self) -> Iterator[ModelCall]:
        """Yield the calls in the order they were made."""
        yield from self._calls.values()


class FolderTape:
    """A recording in ``calls.jsonl`` of a folder: one call a line, synced to disk one by one.

    A last line that a killed writer left torn is dropped; any other damage raises StoreError.
    """

    def __init__(self, folder: str | Path) -> None:
        self.path = Path(folder) / "calls.jsonl"
        self._calls: dict[str, ModelCall] = {}
        data = self.path.read_bytes() if self.path.exists() else b""
        whole = data[: data.rfind(b"\n") + 1]
        self._torn_from = len(whole) if len(whole) < len(data) else None
        for number, line in enumerate(whole.splitlines(), start=1):
            self._read(number, line)

    def _read(self, number: int, line: bytes) -> None:
        try:
            call = ModelCall.model_validate_json(line)
        except ValidationError:
            raise StoreError(f"line {number} of {self.path} is damaged: restore it or record anew") from None
        self._calls[call.key] = call

    def find(self, key: str, question: Question | None = None) -> ModelCall | None:
        """Return the recorded call with that key."""
        return self._calls.get(key)

    def add(self, call: ModelCall) -> None:
        """Append a call."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self._torn_from is not None:
            os.truncate(self.path, self._torn_from)
            self._torn_from = None
        with self.path.open("ab") as file:
            file.write(call.model_dump_json().encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self._calls[call.key] = call

    def judge(self, key: str, outcome: CallOutcome, detail: str) -> None:
        """Append the call once more, with why its answer could not be used: of two the later counts."""
        if (known := self._calls.get(key)) and (call := known.judged_as(outcome, detail)) != known:
            self.add(call)

    def calls(self) -> Iterator[ModelCall]:
        """Yield the calls in the order they were made."""
        yield from self._calls.values()


class RecordedCalls(Protocol):
    """The calls of a run that has ended."""

    def calls(self) -> Iterator[ModelCall]:
        """Yield the calls in the order they were made."""
        ...


class ReplayOnly:
    """A recording that is all there is: nothing is ever sent, so no key and no server are needed.

    A request gets its own answer; one that the recording does not know gets the first answer that is left.
    For one replay only.
    """

    def __init__(self, tape: RecordedCalls) -> None:
        self._left = {call.key: call for call in tape.calls()}
        self._n_calls = len(self._left)

    def find(self, key: str, question: Question) -> ModelCall:
        """Return the recorded call; raises UserError when there is none or it asked something else."""
        number = self._n_calls - len(self._left) + 1
        if not self._left:
            raise UserError(
                f"the recording has no answer left: it ends after {self._n_calls} calls, and call "
                f"{number} asks {question}; {_RECORD_ANEW}"
            )
        call = self._left.get(key) or next(iter(self._left.values()))
        asked = _question_of(call, question)
        if asked != question:
            raise UserError(
                f"the recording has no answer for this request: call {number} asks {question}; recorded is "
                f"one that asked {asked}; {_RECORD_ANEW}"
            )
        del self._left[call.key]
        return call

    def add(self, call: ModelCall) -> None:
        """Never called: nothing is sent."""
        raise UserError(f"a replayed run cannot ask {call.model} anything new")

    def judge(self, key: str, outcome: CallOutcome, detail: str) -> None:
        """Do nothing: the recording stays as it is."""


_RECORD_ANEW = "recipe, task, seed, settings or kinds of answer differ from when it was made: record it anew"


def _question_of(call: ModelCall, asked: Question) -> Question:
    """Return what the call asked for; of an older record, as far as it says."""
    return call.question or asked.model_copy(update={"role": call.role, "model": call.model})
