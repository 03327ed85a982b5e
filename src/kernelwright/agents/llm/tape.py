"""Recordings of a run's model traffic, and their replay."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from pydantic import ValidationError

from kernelwright.core.errors import StoreError, UserError
from kernelwright.core.model_call import ModelCall


class Tape(Protocol):
    """Where every request of a run is looked up before it is sent, and recorded once it is answered."""

    def find(self, key: str) -> ModelCall | None:
        """Return the recorded call, None when it must be sent."""
        ...

    def add(self, call: ModelCall) -> None:
        """Record a call; it is durable when this returns."""
        ...


class MemoryTape:
    """A recording that lasts as long as the process."""

    def __init__(self) -> None:
        self._calls: dict[str, ModelCall] = {}

    def find(self, key: str) -> ModelCall | None:
        """Return the recorded call."""
        return self._calls.get(key)

    def add(self, call: ModelCall) -> None:
        """Record a call."""
        self._calls[call.key] = call

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

    def find(self, key: str) -> ModelCall | None:
        """Return the recorded call."""
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

    def calls(self) -> Iterator[ModelCall]:
        """Yield the calls in the order they were made."""
        yield from self._calls.values()


class ReplayOnly:
    """A recording that is all there is: nothing is ever sent, so no key and no server are needed."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape

    def find(self, key: str) -> ModelCall:
        """Return the recorded call; raises UserError when there is none."""
        call = self._tape.find(key)
        if call is None:
            raise UserError(
                "the recording has no answer for this request: recipe, task, seed, settings or prompts "
                "differ from when it was made; record it anew"
            )
        return call

    def add(self, call: ModelCall) -> None:
        """Never called: nothing is sent."""
        raise UserError(f"a replayed run cannot ask {call.model} anything new")
