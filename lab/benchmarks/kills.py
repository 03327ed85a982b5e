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

Usage: python -m lab.benchmarks.kills [--kills 100] [--real 20] [--work DIR] [--out benchmarks/results/kills]
"""

import argparse
import datetime
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kernelwright.store.sqlstore import open_store
from lab.benchmarks import RESULTS
from lab.footer import environment, footer
from lab.kills.laboratory import Kill, Laboratory, Outcome, Program, Whole
from lab.kills.processes import adopting_orphans
from lab.trials import row_line, rows_in

KILLS_FILE = "kills.jsonl"
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
        return [sys.executable, "-m", "lab.benchmarks.kills", "--play", str(self.recording)]

    def resume(self, folder: Path, run_id: str) -> list[str]:
        """See Program."""
        return self.begin(folder)


def play(recording: Path) -> None:
    """Begin or carry on the recorded run in the store of the environment."""
    # lazy: loads torch, which only the played run needs
    from kernelwright import api
    from kernelwright.runs.recorded_run import load_run
    from kernelwright.runs.recording import RecordedEvaluator, prepare_as_recorded

    store = open_store(os.environ["KERNELWRIGHT_STORE"])
    recorded = load_run(recording)
    run = next(store.iter_runs(), None)
    run_id = run.run_id if run else store.create_run(recorded.spec)
    judge = RecordedEvaluator(None, recorded.recording)
    api.carry_on(run_id, store=store, referee=judge, prepare=prepare_as_recorded(recorded.machine))


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
    """Read what an earlier command made with this referee."""
    rows = rows_in(file)
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
    lines += ["", footer(about), "", f"Command: `{about['command']}`"]
    return "\n".join(lines) + "\n"


def carry_on(
    laboratory: Laboratory, kills: Sequence[Kill], programs: dict[str, Program], file: Path
) -> list[Outcome]:
    """Make the kills that the file lacks and append each."""
    made = read_outcomes(file)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(row_line(asdict(o)) for o in made.values()), encoding="utf-8")
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
            lines.write(row_line(asdict(outcome)))
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
    parser.add_argument("--out", type=Path, default=RESULTS / "kills")
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
    about: dict[str, Any] = {
        "date": datetime.date.today().isoformat(),
        "environment": environment(),
        "command": shlex.join(["python", "-m", "lab.benchmarks.kills", *sys.argv[1:]]),
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
