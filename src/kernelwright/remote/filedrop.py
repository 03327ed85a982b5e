"""The engine's evaluator, where somebody or something else carries files to a platform and back."""

import os
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from pydantic import ValidationError

from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import MachineError, TaskError, UserError
from kernelwright.core.evaluation import Evaluation, Stage, Status
from kernelwright.core.frozen import content_hash
from kernelwright.core.machine import Machine
from kernelwright.core.roofline import Floor
from kernelwright.core.task import Task
from kernelwright.remote.answers import DropRequest, Failed, MalformedAnswer, Refused, read_answer
from kernelwright.remote.plain_files import read_plain, write_plain

MARGIN = 1.25
"""Assumed uncertainty of a ratio of two single latencies, as a factor; ours. Each may be off by 12 %."""
MAX_ANSWER_BYTES = 4_000_000
"""A longer answer is malformed; our choice."""


MACHINE_FILE = "machine.json"
"""Where the folder says on which machine it is answered; whoever answers writes it, or a person does."""


class FileDropEvaluator:
    """Judges candidates through a folder; satisfies the engine's ``Evaluator``.

    Each request becomes ``outbox/ID/kernel.py`` and ``outbox/ID/request.json``, there in one step. The
    answer is expected as ``inbox/ID.json``; docs/serve.md has the forms. ID is a hash of the task, the
    kernel and what is asked, so a resumed run finds its answers and asks nothing twice.
    """

    def __init__(
        self,
        folder: Path,
        timeout_s: float = 24 * 3600.0,
        poll_s: float = 2.0,
        *,
        margin: float = MARGIN,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Make the folders.

        Args:
            folder: Shared with whoever answers.
            timeout_s: For one answer; a day, ours.
            poll_s: Between two looks at the inbox; ours.
            margin: A platform that gives one latency says nothing about its spread. Then the interval of
                a speedup is the ratio divided and multiplied by this, so that "faster" needs more than
                that. Infinity: never significant.
            clock: Monotonic seconds.
            sleep: Waits so many seconds.

        Raises:
            UserError: the folder cannot be made, or a number makes no sense.
        """
        if not (timeout_s >= 0 and poll_s > 0 and margin > 1):
            raise UserError("a drop folder needs timeout_s >= 0, poll_s > 0 and a margin above 1")
        self.folder = folder
        self._timeout_s, self._poll_s, self._margin = timeout_s, poll_s, margin
        self._clock, self._sleep = clock, sleep
        make_folders(folder)

    def machine(self) -> Machine | None:
        """Return the machine that ``machine.json`` tells of, None where there is no such file.

        Raises:
            UserError: the file cannot be read, or is something else.
        """
        path = self.folder / MACHINE_FILE
        try:
            return Machine.model_validate_json(read_plain(self.folder, MACHINE_FILE, most=MAX_ANSWER_BYTES))
        except FileNotFoundError:
            return None
        except (OSError, ValidationError) as error:
            line = " ".join(str(error).split())[:200]
            raise UserError(f"{path}: it tells of no machine ({line}); mend or remove it") from error

    def open(self, task: Task) -> "FileDropSession":
        """Return a session; nothing is written yet, and the task is refused, if so, with its first kernel.

        Raises:
            TaskError: a live module, whose pickle is a file of this machine.
        """
        if task.artifact is not None:
            raise TaskError(f"{task.name}: a live module cannot be judged elsewhere; write it as a task file")
        return FileDropSession(self, task)

    def ask(self, request: DropRequest, source: str) -> Evaluation:
        """Put a request into the outbox unless it is there, and wait for its answer; see ``evaluate``."""
        name = request_name(request)
        if not (self.folder / "outbox" / name).exists() and self._bytes(name) is None:
            write_request(self.folder, name, request, source)
        deadline = self._clock() + self._timeout_s
        malformed: bytes | None = None
        while True:
            data = self._bytes(name)
            answer = None if data is None else self._understand(name, data, request)
            if isinstance(answer, Evaluation):
                return answer
            is_late = self._clock() >= deadline
            # A malformed answer is looked at twice: at first it may be half written.
            if isinstance(answer, MalformedAnswer) and (is_late or data == malformed):
                return _no_verdict(request, Status.REJECTED, _malformed(name, answer.why))
            if is_late:
                return _no_verdict(request, Status.TIMEOUT, _late(name, self._timeout_s))
            malformed = data
            self._sleep(self._poll_s)

    def _understand(self, name: str, data: bytes, request: DropRequest) -> Evaluation | MalformedAnswer:
        answer = self._read(data, request)
        if isinstance(answer, Refused):
            raise TaskError(f"{request.task.name}: {answer.refused}")
        if isinstance(answer, Failed):
            self._set_aside(name)
            raise MachineError(f"{request.task.name}: the platform failed: {answer.failed}; run again")
        return answer

    def _bytes(self, name: str) -> bytes | None:
        try:
            return read_plain(self.folder, "inbox", f"{name}.json", most=MAX_ANSWER_BYTES)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise MachineError(f"inbox/{name}.json cannot be read: {error.strerror}") from error

    def _read(self, data: bytes, request: DropRequest) -> Evaluation | Refused | Failed | MalformedAnswer:
        if len(data) > MAX_ANSWER_BYTES:
            return MalformedAnswer(why=f"it has more than {MAX_ANSWER_BYTES} bytes")
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError:
            return MalformedAnswer(why="it is no UTF-8 text")
        return read_answer(text, request, margin=self._margin)

    def _set_aside(self, name: str) -> None:
        inbox = self.folder / "inbox"
        (inbox / f"{name}.json").replace(inbox / f"{name}.failed")


class FileDropSession:
    """One task whose kernels go through the folder."""

    def __init__(self, evaluator: FileDropEvaluator, task: Task) -> None:
        self.task = task
        self._evaluator = evaluator

    @property
    def baseline_ms(self) -> Mapping[str, float]:
        """Empty: nobody has measured the reference yet. Answers bring their own baselines."""
        return {}

    def evaluate(
        self,
        candidate: Candidate,
        *,
        final: bool = False,
        floors: Mapping[str, Floor] | None = None,
        baselines: tuple[str, ...] = ("eager",),
    ) -> Evaluation:
        """Return the platform's verdict.

        No answer in time is status ``timeout``; an answer that cannot be understood, or is of something
        else, is ``rejected``; the detail names the file. Both are looked at anew when asked again.

        Raises:
            TaskError: the platform refuses the task.
            MachineError: the platform failed, or the folder cannot be used.
        """
        request = DropRequest(
            task=self.task,
            candidate_id=candidate.id,
            target=candidate.target,
            final=final,
            floors=dict(floors or {}),
            baselines=tuple(baselines),
        )
        return self._evaluator.ask(request, candidate.program)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        """Nothing is held open."""


def request_name(request: DropRequest) -> str:
    """Return the request's id, 16 hex digits: the same for the same question."""
    kind = "final" if request.final else "search"
    return content_hash("drop", request.task.id, request.candidate_id, kind, *request.baselines)


def make_folders(folder: Path) -> None:
    """Make outbox and inbox; raises UserError when that fails."""
    try:
        for part in ("outbox", "inbox"):
            (folder / part).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{folder}: no drop folder can be made there ({error.strerror})") from error


def write_request(folder: Path, name: str, request: DropRequest, source: str) -> None:
    """Write a request's files and let them appear together; raises MachineError."""
    draft = folder / "outbox" / f".{name}.{os.getpid()}.tmp"
    try:
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir()
        for file, text in (("kernel.py", source), ("request.json", request.model_dump_json(indent=1) + "\n")):
            write_plain(folder, "outbox", draft.name, file, data=text.encode())
        draft.replace(folder / "outbox" / name)
    except OSError as error:
        shutil.rmtree(draft, ignore_errors=True)
        raise MachineError(f"outbox/{name} cannot be written: {error.strerror}") from error


def write_answer(folder: Path, name: str, text: str) -> None:
    """Write an answer in one step; raises MachineError."""
    _write(folder, "inbox", f"{name}.json", text=text)


def write_machine(folder: Path, machine: Machine) -> None:
    """Say on which machine a folder is answered; raises MachineError."""
    _write(folder, MACHINE_FILE, text=machine.model_dump_json(indent=1) + "\n")


def _write(folder: Path, *parts: str, text: str) -> None:
    try:
        write_plain(folder, *parts, data=text.encode())
    except OSError as error:
        raise MachineError(f"{'/'.join(parts)} cannot be written: {error.strerror}") from error


def _malformed(name: str, why: str) -> str:
    return f"no verdict: inbox/{name}.json is malformed: {why}; mend or remove it"


def _late(name: str, timeout_s: float) -> str:
    return f"no verdict: no inbox/{name}.json within {timeout_s:g} s; a later one counts when asked again"


def _no_verdict(request: DropRequest, status: Status, why: str) -> Evaluation:
    return Evaluation(
        candidate_id=request.candidate_id,
        task_id=request.task.id,
        stage=Stage.GUARD,
        status=status,
        detail=why,
        is_final=request.final,
    )
