"""Start programs in folders of their own, kill them, carry them on and compare."""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from lab.kills.processes import children_of, command_of, descendants_of, victims
from lab.kills.snapshot import Snapshot, count_events, problems_between, snapshot

GRACE_S = 30.0
"""Processes that are ending may take so long; a busy machine included."""
LIMIT_S = 900.0
"""Anything that is waited for."""
TRIES = 4
"""Earlier and earlier moments until one comes before the run has ended."""


class Program(Protocol):
    """Something that plays one run in a folder: its store is ``runs.db`` there."""

    @property
    def name(self) -> str:
        """What it is called in the result."""
        ...

    def begin(self, folder: Path) -> list[str]:
        """Return the command that starts the run."""
        ...

    def resume(self, folder: Path, run_id: str) -> list[str]:
        """Return the command that carries it on."""
        ...


@dataclass(frozen=True)
class Whole:
    """An uninterrupted run of a program."""

    seconds: float
    end: Snapshot
    litter: tuple[str, ...]
    """Temporary files that it leaves without being killed."""


@dataclass(frozen=True)
class Kill:
    """One kill to be made."""

    program: str
    victim: str
    number: int

    @property
    def key(self) -> str:
        """Identity in the file."""
        return f"{self.program}/{self.victim}/{self.number}"


@dataclass(frozen=True)
class Moment:
    """When a kill comes."""

    after_event: int | None
    """So many events are stored; None: counted from the start of the program."""
    delay_s: float

    def __str__(self) -> str:
        if self.after_event is None:
            return f"{self.delay_s:.2f} s after the start"
        return f"{1e3 * self.delay_s:.1f} ms after event {self.after_event}"


@dataclass(frozen=True)
class Outcome:
    """One kill as it ended."""

    key: str
    program: str
    victim: str
    moment: str
    """When it came, in words."""
    n_events: int | None
    """Events stored by then; None: there was no run yet."""
    n_evaluations: int
    was_running: bool
    problems: tuple[str, ...]
    seconds: float
    left: tuple[str, ...] = ()
    """Processes and temporary files that were left behind."""


class Laboratory:
    """Starts programs in folders of their own, kills them, carries them on and compares."""

    def __init__(self, work: Path) -> None:
        """Work in a folder; what an interrupted command left there is used again."""
        self.work = work.resolve()
        self._others = set(children_of(os.getpid()))

    def run_whole(self, program: Program) -> Whole:
        """Play a run without a kill."""
        folder = self._folder(f"whole-{program.name}")
        begin = time.monotonic()
        running = self._start(program.begin(folder), folder)
        code = self._wait(running)
        seconds = time.monotonic() - begin
        end = snapshot(folder / "runs.db")
        if code not in (0, 1) or not end.is_finished:
            sys.exit(f"the uninterrupted run of {program.name} failed:\n{_last_line(folder)}")
        return Whole(seconds, end, tuple(sorted(os.listdir(folder / "tmp"))))

    def kill_somewhen(self, kill: Kill, program: Program, whole: Whole, *, is_alike: bool) -> Outcome:
        """Kill at a random moment, an earlier one where the run had ended by then."""
        rng = random.Random(kill.key)
        share, is_by_event = rng.random(), rng.random() < 0.5
        for attempt in range(TRIES):
            late = share * 0.6**attempt
            if is_by_event:
                moment = Moment(int(late * (whole.end.n_events + 1)), rng.uniform(0.0, 0.03))
            else:
                moment = Moment(None, late * whole.seconds)
            outcome = self.kill(
                kill, program, moment, whole=whole.end if is_alike else None, litter=whole.litter
            )
            if outcome.was_running:
                break
        return outcome

    def kill(
        self,
        kill: Kill,
        program: Program,
        moment: Moment,
        *,
        whole: Snapshot | None = None,
        litter: Sequence[str] = (),
    ) -> Outcome:
        """Kill a run once, carry it on and compare.

        Args:
            kill: what is hit.
            program: what is run.
            moment: when.
            whole: how the run must end; None: as it likes.
            litter: temporary files that it may leave.
        """
        begin = time.monotonic()
        folder = self._folder(kill.key.replace("/", "-"))
        store = folder / "runs.db"
        running = self._start(program.begin(folder), folder)
        if moment.after_event is not None:
            self._wait_for_event(running, store, moment.after_event)
        with contextlib.suppress(subprocess.TimeoutExpired):
            running.wait(moment.delay_s)
        was_running = running.poll() is None and self._strike(running, kill.victim)
        has_ended = self._wait(running) is not None
        left = self._left_processes()
        before = snapshot(store)
        code = self._carry_on(program, folder, before)
        left += self._left_processes()
        left += [f"file {name}" for name in sorted(set(os.listdir(folder / "tmp")) - set(litter))]
        after = snapshot(store)
        found = problems_between(before, after, whole)
        if not has_ended:
            found.append("the main process hung")
        if code not in (0, 1):
            found.append(f"exit code {code}: {_last_line(folder)}")
        kernel = folder / "task_fast.py"
        if kernel.exists() and kernel.read_text(encoding="utf-8") != after.source:
            found.append("the delivered kernel is not the winner's source")
        if not found and not left:
            shutil.rmtree(folder)
        return Outcome(
            key=kill.key,
            program=kill.program,
            victim=kill.victim,
            moment=str(moment),
            n_events=before.n_events if before.run_id else None,
            n_evaluations=len(before.evaluations),
            was_running=was_running,
            problems=tuple(found),
            seconds=time.monotonic() - begin,
            left=tuple(left),
        )

    def _carry_on(self, program: Program, folder: Path, before: Snapshot) -> int | None:
        if before.run_id is None:  # nothing had been promised yet: it is begun anew
            return self._wait(self._start(program.begin(folder), folder))
        return self._wait(self._start(program.resume(folder, before.run_id), folder))

    def _wait(self, running: subprocess.Popen[bytes]) -> int | None:
        """Return the exit code; None when it had to be killed."""
        try:
            return running.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()
            return None

    def _wait_for_event(self, running: subprocess.Popen[bytes], store: Path, number: int) -> None:
        deadline = time.monotonic() + LIMIT_S
        while running.poll() is None and time.monotonic() < deadline:
            known = count_events(store)
            if known is not None and known >= number:
                return
            time.sleep(0.002)

    def _strike(self, running: subprocess.Popen[bytes], victim: str) -> bool:
        """Kill the victim; tell whether there was one."""
        deadline = time.monotonic() + GRACE_S
        while running.poll() is None and time.monotonic() < deadline:
            pids = victims(running.pid, victim)
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if pids:
                return True
            time.sleep(0.01)
        return False

    def _left_processes(self) -> list[str]:
        """Wait until everything that was started has ended; return and kill what has not."""
        deadline = time.monotonic() + GRACE_S
        while time.monotonic() < deadline:
            self._reap()
            if not set(children_of(os.getpid())) - self._others:
                return []
            time.sleep(0.05)
        left = set(children_of(os.getpid())) - self._others
        names = [f"process {command_of(pid)}" for pid in left]
        for pid in left:
            for below in [*descendants_of(pid), pid]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(below, signal.SIGKILL)
        self._reap()
        return names

    def _reap(self) -> None:
        for pid in set(children_of(os.getpid(), states="Z")) - self._others:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)

    def _folder(self, name: str) -> Path:
        folder = self.work / name
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "tmp").mkdir(parents=True)
        return folder

    def _start(self, command: Sequence[str], folder: Path) -> subprocess.Popen[bytes]:
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path or str(Path.cwd()) for path in sys.path),
            "KERNELWRIGHT_STORE": str(folder / "runs.db"),
            "KERNELWRIGHT_CACHE": str(self.work / "cache"),
            "TMPDIR": str(folder / "tmp"),
        }
        with (folder / "log").open("ab") as log:
            return subprocess.Popen(
                command, cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True
            )


def _last_line(folder: Path) -> str:
    lines = (folder / "log").read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1][:300] if lines else ""
