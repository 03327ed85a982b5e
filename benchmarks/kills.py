"""kill -9 at random moments: does every resumed run end as if nothing had happened?

Two programs are killed. *real* is ``kernelwright optimize`` on a small task, with the referee and all its
processes; *recorded* is the same run with its measurements read from a recording, so that most of its time
is spent where the store is written. A kill comes at a random share of the time that an uninterrupted run
took, or a random few milliseconds after a random event was stored. It hits everything at once (group), the
main process alone (main), the process that the referee's processes are forked from (zygote), or one of those
(child). Then the run is carried on to its end, and everything is compared:

* each evaluation that the store held is still there, unchanged, and none is there twice;
* events are numbered without gaps, the run is finished, the ledger holds every outcome once;
* the delivered kernel is the winner's source;
* a recorded run ends with the evaluations, outcomes and winner of an uninterrupted one;
* no process and no temporary file is left.

Every kill is appended to ``kills.jsonl``; the same command carries on with the missing ones.

Usage: python benchmarks/kills.py [--kills 100] [--real 20] [--work DIR] [--out benchmarks/results/kills]
"""

import argparse
import contextlib
import ctypes
import datetime
import json
import os
import random
import shlex
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from kernelwright.core.events import CandidateEvaluated, RunFinished
from kernelwright.core.run import RunState
from kernelwright.store.sqlstore import open_store

KILLS_FILE = "kills.jsonl"
SET_CHILD_SUBREAPER = 36
GRACE_S = 30.0
"""Processes that are ending may take so long; a busy machine included."""
LIMIT_S = 900.0
"""Anything that is waited for."""
TRIES = 4
"""Earlier and earlier moments until one comes before the run has ended."""
REAL_VICTIMS = ("group", "main", "zygote", "group", "child")

TASK = """
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        return torch.tanh(x) * torch.sigmoid(x)

def get_inputs():
    return [torch.randn(256, 1024)]

def get_init_inputs():
    return []
"""


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
class Real:
    """The program as a user runs it."""

    evaluations: int
    name: str = "real"

    def begin(self, folder: Path) -> list[str]:
        """See Program."""
        (folder / "task.py").write_text(TASK, encoding="utf-8")
        budget = ["--budget-evaluations", str(self.evaluations)]
        return [sys.executable, "-m", "kernelwright", "optimize", "task.py", *budget, "--json"]

    def resume(self, folder: Path, run_id: str) -> list[str]:
        """See Program."""
        return [sys.executable, "-m", "kernelwright", "runs", "resume", run_id, "--json"]


@dataclass(frozen=True)
class Recorded:
    """The same run with measurements from a recording."""

    recording: Path
    name: str = "recorded"

    def begin(self, folder: Path) -> list[str]:
        """See Program."""
        return [sys.executable, str(Path(__file__).resolve()), "--play", str(self.recording)]

    def resume(self, folder: Path, run_id: str) -> list[str]:
        """See Program."""
        return self.begin(folder)


def play(recording: Path) -> None:
    """Begin or carry on the recorded run in the store of the environment."""
    # lazy: loads torch, which only the played run needs
    from kernelwright import api
    from kernelwright.engine.recorded_run import load_run
    from kernelwright.engine.recording import RecordedEvaluator, prepare_as_recorded

    store = open_store(os.environ["KERNELWRIGHT_STORE"])
    recorded = load_run(recording)
    run = next(store.iter_runs(), None)
    run_id = run.run_id if run else store.create_run(recorded.spec)
    judge = RecordedEvaluator(None, recorded.recording)
    api.resume_run(run_id, store=store, referee=judge, prepare=prepare_as_recorded(recorded.machine))


@dataclass(frozen=True)
class Snapshot:
    """What a store holds of its one run."""

    run_id: str | None = None
    is_finished: bool = False
    evaluations: tuple[tuple[str, bool, str], ...] = ()
    """Candidate, is_final, the whole evaluation as JSON; in order."""
    outcomes: tuple[str, ...] = ()
    """As JSON, without the run's id."""
    plans: tuple[str, ...] = ()
    """Winners in the plan archive."""
    winner: str | None = None
    source: str | None = None
    """The winner's."""
    has_gaps: bool = False
    n_events: int = 0


def snapshot(path: Path) -> Snapshot:
    """Read the store; empty where there is no run yet."""
    if count_events(path) is None:
        return Snapshot()
    store = open_store(path)
    with contextlib.closing(store):
        run = next(store.iter_runs(), None)
        if run is None:
            return Snapshot()
        stored = list(store.iter_events(run.run_id))
        events = [item.event for item in stored]
        closing = next((event for event in events if isinstance(event, RunFinished)), None)
        winner = closing.winner if closing else None
        return Snapshot(
            run_id=run.run_id,
            is_finished=run.state is RunState.FINISHED and closing is not None,
            evaluations=tuple(
                (e.candidate, e.evaluation.is_final, e.evaluation.model_dump_json())
                for e in events
                if isinstance(e, CandidateEvaluated)
            ),
            outcomes=tuple(o.model_dump_json(exclude={"run_id"}) for _, o in store.iter_outcomes()),
            plans=tuple(plan.best_source for _, plan in store.iter_plans()),
            winner=winner,
            source=store.get_candidate(winner).source if winner else None,
            has_gaps=[item.seq for item in stored] != list(range(1, len(stored) + 1)),
            n_events=len(stored),
        )


def count_events(path: Path) -> int | None:
    """Return how many events are stored; None while there is no run."""
    if not path.exists():
        return None
    try:
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=1.0)) as database:
            (runs,) = database.execute("select count(*) from runs").fetchone()
            (events,) = database.execute("select count(*) from events").fetchone()
    except sqlite3.OperationalError:
        return None  # the tables are being made
    return int(events) if runs else None


def problems_between(before: Snapshot, after: Snapshot, whole: Snapshot | None) -> list[str]:
    """Return what a kill has spoiled; ``whole`` is an uninterrupted run that must have ended alike."""
    found = []
    if not after.is_finished:
        found.append("the run is not finished")
    if before.run_id is not None and before.run_id != after.run_id:
        found.append("it is another run")
    lost = [item[:2] for item in before.evaluations if item not in after.evaluations]
    if lost:
        found.append(f"lost or changed: {lost}")
    counted = Counter(item[:2] for item in after.evaluations)
    found += [f"evaluated {count} times: {key}" for key, count in counted.items() if count > 1]
    found += [f"{n} times in the ledger" for n in Counter(after.outcomes).values() if n > 1]
    if after.has_gaps:
        found.append("events are not numbered 1, 2, 3")
    if len(after.plans) > 1:
        found.append("more than one plan in the archive")
    if whole is not None:
        for name in ("evaluations", "outcomes", "plans", "winner"):
            if getattr(after, name) != getattr(whole, name):
                found.append(f"other {name} than those of an uninterrupted run")
    return found


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


@contextlib.contextmanager
def adopting_orphans() -> Iterator[None]:
    """Have every orphan of what is started here become a child of this process, so that none is missed."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        prctl(SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def children_of(pid: int, states: str = "RSDTtIW") -> list[int]:
    """Return the pids of a process's children in some states: those that have not ended."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
                if int(fields[1]) == pid and fields[0] in states:
                    found.append(int(entry.name))
    return found


def descendants_of(pid: int) -> Iterator[int]:
    """Yield the pids of everything below a process."""
    for child in children_of(pid):
        yield child
        yield from descendants_of(child)


def command_of(pid: int) -> str:
    """Return a process's command line."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8").replace("\0", " ").strip()
    except OSError:
        return ""


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
            pids = _victims(running.pid, victim)
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
            "KERNELWRIGHT_STORE": str(folder / "runs.db"),
            "KERNELWRIGHT_CACHE": str(self.work / "cache"),
            "TMPDIR": str(folder / "tmp"),
        }
        with (folder / "log").open("ab") as log:
            return subprocess.Popen(
                command, cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True
            )


def _victims(main: int, victim: str) -> list[int]:
    if victim == "main":
        return [main]
    below = list(descendants_of(main))
    if victim == "group":
        return [main, *below]
    zygotes = [pid for pid in below if "referee.zygote" in command_of(pid)]
    if victim == "zygote":
        return zygotes[:1]
    forked = [pid for pid in below if zygotes and pid != zygotes[0] and pid in descendants_of(zygotes[0])]
    return forked[-1:]


def _last_line(folder: Path) -> str:
    lines = (folder / "log").read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1][:300] if lines else ""


def plan(kills: int, real: int) -> list[Kill]:
    """Return the kills; the real ones are spread evenly among the others."""
    every = max(kills // real, 1) if real else kills + 1
    planned, n_real = [], 0
    for number in range(kills):
        if n_real < real and number % every == every - 1:
            planned.append(Kill("real", REAL_VICTIMS[n_real % len(REAL_VICTIMS)], number))
            n_real += 1
        else:
            planned.append(Kill("recorded", "group", number))
    return planned


def read_outcomes(file: Path) -> dict[str, Outcome]:
    """Read what an earlier command made; a last line cut short is left out."""
    if not file.exists():
        return {}
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").split("\n")[:-1]]
    return {row["key"]: Outcome(**row | {n: tuple(row[n]) for n in ("problems", "left")}) for row in rows}


def render(outcomes: Sequence[Outcome], about: dict[str, Any]) -> str:
    """Return the result as Markdown."""
    lines = ["# Killed and carried on", ""]
    heads = ["kills", "without a run", "between evaluations", "after the last", "spoiled", "left behind"]
    lines += [f"| program | hit | {' | '.join(heads)} |", "|---|---|" + len(heads) * "---:|"]
    most = {o.program: max(x.n_evaluations for x in outcomes if x.program == o.program) for o in outcomes}
    for program, victim in dict.fromkeys((o.program, o.victim) for o in outcomes):
        mine = [o for o in outcomes if (o.program, o.victim) == (program, victim) and o.was_running]
        early = sum(o.n_events is None for o in mine)
        late = sum(o.n_evaluations == most[program] and o.n_events is not None for o in mine)
        spoiled, left = sum(bool(o.problems) for o in mine), sum(bool(o.left) for o in mine)
        lines.append(
            f"| {program} | {victim} | {len(mine)} | {early} | {len(mine) - early - late} | {late} "
            f"| {spoiled} | {left} |"
        )
    missed = sum(not o.was_running for o in outcomes)
    lines += ["", f"{missed} came after the run had ended and are not counted."]
    for o in outcomes:
        if o.problems or o.left:
            lines.append(f"- {o.key}, {o.moment}: {'; '.join([*o.problems, *o.left])}")
    lines += ["", f"{about['date']}. Command: `{about['command']}`"]
    return "\n".join(lines) + "\n"


def carry_on(
    laboratory: Laboratory, kills: Sequence[Kill], programs: dict[str, Program], file: Path
) -> list[Outcome]:
    """Make the kills that the file lacks and append each."""
    made = read_outcomes(file)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(asdict(o)) + "\n" for o in made.values()), encoding="utf-8")
    wholes: dict[str, Whole] = {}
    for n, kill in enumerate(kills, 1):
        if kill.key in made:
            continue
        program = programs[kill.program]
        if kill.program not in wholes:
            wholes[kill.program] = laboratory.run_whole(program)
        is_alike = kill.program == "recorded"
        outcome = laboratory.kill_somewhen(kill, program, wholes[kill.program], is_alike=is_alike)
        made[kill.key] = outcome
        with file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(asdict(outcome)) + "\n")
        said = "; ".join([*outcome.problems, *outcome.left]) or "carried on"
        sys.stderr.write(f"{n}/{len(kills)} {kill.key}, {outcome.moment}: {said} ({outcome.seconds:.1f} s)\n")
    return [made[kill.key] for kill in kills]


def record(laboratory: Laboratory, evaluations: int) -> Path:
    """Record the run that is played again; an earlier command's recording is used again."""
    folder = laboratory.work / "recorded"
    if not (folder / "spec.json").exists():
        place = laboratory.work / "recording"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        command = [*Real(evaluations).begin(place), "--record", str(folder)]
        environment = {
            **os.environ,
            "KERNELWRIGHT_STORE": str(place / "runs.db"),
            "KERNELWRIGHT_CACHE": str(laboratory.work / "cache"),
        }
        done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True)
        if done.returncode not in (0, 1):
            sys.exit(f"the run could not be recorded:\n{done.stderr}")
    return folder


def main() -> int:
    """Kill, print, write; exit code 1 when something was spoiled or left behind."""
    parser = argparse.ArgumentParser(description="kill -9 at random moments, and resume.")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--real", type=int, default=20, help="how many of them with the real referee")
    parser.add_argument("--work", type=Path, help="default: a folder beside the results")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "kills")
    parser.add_argument("--play", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.play is not None:
        play(options.play)
        return 0
    laboratory = Laboratory(options.work or options.out / "work")
    kills = plan(options.kills, options.real)
    programs: dict[str, Program] = {"real": Real(2)}
    if any(kill.program == "recorded" for kill in kills):
        programs["recorded"] = Recorded(record(laboratory, 6))
    with adopting_orphans():
        outcomes = carry_on(laboratory, kills, programs, options.out / KILLS_FILE)
    about = {
        "date": datetime.date.today().isoformat(),
        "command": shlex.join(["python", "benchmarks/kills.py", *sys.argv[1:]]),
    }
    document = about | {"kills": [asdict(outcome) for outcome in outcomes]}
    (options.out / "kills.json").write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    text = render(outcomes, about)
    (options.out / "kills.md").write_text(text, encoding="utf-8")
    sys.stdout.write(text)
    counted = [outcome for outcome in outcomes if outcome.was_running]
    return 1 if any(o.problems or o.left for o in counted) or not counted else 0


if __name__ == "__main__":
    sys.exit(main())
