"""The answering side of a drop folder, with the real referee: ``kernelwright serve --drop FOLDER``."""

import contextlib
import logging
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import KernelwrightError, TaskError
from kernelwright.core.frozen import Frozen
from kernelwright.core.machine import Machine
from kernelwright.core.roofline import Peaks
from kernelwright.remote.answers import DropRequest, Failed, Refused
from kernelwright.remote.filedrop import make_folders, write_answer, write_machine
from kernelwright.remote.floors import floors_here
from kernelwright.remote.lines import one_line
from kernelwright.remote.plain_files import read_plain
from kernelwright.remote.sessions import Sessions
from kernelwright.remote.targets import target_problem
from kernelwright.runs.evaluator import Session

log = logging.getLogger(__name__)

NAME = re.compile(r"[0-9a-f]{16}")
"""Only such folders of the outbox are requests."""


@dataclass(frozen=True)
class DropService:
    """Answers what lies in a folder, oldest request first, one after the other."""

    folder: Path
    sessions: Sessions[Session]
    peaks: Peaks | None = None
    """Of this machine, to compute floors with; None takes the request's as they are."""
    max_bytes: int = 4_000_000
    """Size of a request's larger file; our choice."""
    device: str = "cpu"
    """Kind of device that candidates are judged on."""
    machine: Machine | None = None
    """This one, told to who asks; None: it is not told."""

    def answer_forever(self, poll_s: float = 1.0, sleep: Callable[[float], None] = time.sleep) -> None:
        """Answer what comes until an exception, such as an interruption, ends it.

        Raises:
            UserError: the folder cannot be made.
            MachineError: an answer or ``machine.json`` cannot be written.
        """
        make_folders(self.folder)
        if self.machine is not None:
            write_machine(self.folder, self.machine)
        while True:
            if not self.answer_waiting():
                sleep(poll_s)

    def answer_waiting(self) -> int:
        """Answer every request that has no answer yet; returns how many."""
        n_answered = 0
        for name in self._waiting():
            write_answer(self.folder, name, self._answer(name).model_dump_json(indent=1) + "\n")
            n_answered += 1
        return n_answered

    def _waiting(self) -> Iterator[str]:
        requests = []
        for path in (self.folder / "outbox").iterdir():
            with contextlib.suppress(FileNotFoundError):  # who asked may take it away
                if NAME.fullmatch(path.name):
                    requests.append((path.lstat().st_mtime, path.name))
        for _, name in sorted(requests):
            if not (self.folder / "inbox" / f"{name}.json").exists():
                yield name

    def _answer(self, name: str) -> Frozen:
        try:
            request = DropRequest.model_validate_json(self._bytes(name, "request.json"))
            source = self._bytes(name, "kernel.py").decode()
        except (OSError, ValidationError, ValueError) as error:
            return Failed(failed=f"outbox/{name} is no request: {' '.join(str(error).split())[:300]}")
        candidate = Candidate(source=source, target=request.target)
        if candidate.id != request.candidate_id:
            return Failed(failed=f"outbox/{name}/kernel.py is not the kernel that request.json speaks of")
        if problem := target_problem(request.target, self.device):
            return Failed(failed=problem)
        if request.task.artifact is not None:
            return Refused(refused="a live module cannot be judged elsewhere")
        return self._judge(request, candidate)

    def _judge(self, request: DropRequest, candidate: Candidate) -> Frozen:
        try:
            return self.sessions.evaluate(
                request.task,
                candidate,
                final=request.final,
                floors=floors_here(request.floors, self.peaks),
                baselines=request.baselines,
            )
        except TaskError as error:
            return Refused(refused=one_line(error))
        except KernelwrightError as error:
            return Failed(failed=one_line(error))
        except Exception as error:  # the border: the service lives on
            log.exception("a request failed through a defect of ours")
            return Failed(failed=one_line(error))

    def _bytes(self, name: str, file: str) -> bytes:
        data = read_plain(self.folder, "outbox", name, file, most=self.max_bytes)
        if len(data) > self.max_bytes:
            raise ValueError(f"{file} has more than {self.max_bytes} bytes")
        return data
