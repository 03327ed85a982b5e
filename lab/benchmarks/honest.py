"""Honest kernels: correct ones of every origin before the real referee, several times; none may be rejected.

Of ours: for every task that mutants are made of, the expert's seeds (library calls, fused, after its
algebra) and one drawn by lot. By hand: the files in ``lab/honest_kernels``. Each run opens new
sessions, so that every draw is new; the settings are those of a search, with the roofline floors, beside
eager.

With ``--device cuda`` (or ``hip``) those that are for a GPU, and of ours those in Triton, are judged there,
and no others. None has been judged on one yet.

Everything is kept in ``--work`` as it happens; the same command carries an interrupted one on.

Usage: python -m lab.benchmarks.honest [--runs 3] [--device cuda] [--only GLOB] [--limit N] [--out FOLDER]
Exit code 1 when one was rejected, 2 when something else went wrong, 130 when interrupted.
"""

import argparse
import datetime
import fnmatch
import json
import math
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernelwright.agents.expert.plan_lowering import PlanLowering
from kernelwright.agents.problem import Problem
from kernelwright.core.budget import Budget
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import KernelwrightError
from kernelwright.core.roofline import Floor
from kernelwright.core.run import RunSpec
from kernelwright.core.target import CPU_CPP, TargetName
from kernelwright.core.task import Task
from kernelwright.referee.device import Device, parse_device
from kernelwright.referee.session.referee import Referee, RefereeSettings
from kernelwright.runs.prepare import floors_on, prepare
from kernelwright.settings import load_settings
from kernelwright.skills.load import load_skills
from kernelwright.targets.gpu.driver_files import find_gpus
from lab.benchmarks import RESULTS
from lab.footer import environment, footer
from lab.honest import PER_TASK, Honest, ours, written_by_hand
from lab.mutants.bases import BASES
from lab.trials import Journal, Trial, by_task, trial_of

FAULT, INTERRUPTED = 2, 130


class Preparing:
    """Problems of tasks, each prepared once."""

    def __init__(self, cache_dir: Path, device: Device) -> None:
        self._cache_dir, self._device = cache_dir, device
        self._found: dict[str, Problem] = {}
        self.target = TargetName(device=device.kind, language="triton") if device.has_driver else CPU_CPP

    def __call__(self, task: Task) -> Problem:
        """Return the task's graph, as for the target."""
        if task.id not in self._found:
            spec = RunSpec(
                task=task, recipe="none", target=self.target, budget=Budget(evaluations=1), environment={}
            )
            self._found[task.id] = prepare(spec, self._cache_dir)[0]
        return self._found[task.id]

    def floors(self, task: Task) -> dict[str, Floor]:
        """Return the task's floors on the device."""
        if self._device.kind == "cpu":
            return dict(self(task).floors)
        return floors_on(task, self._device.kind, self._cache_dir, index=self._device.index)


def gather(preparing: Preparing, per_task: int, only: str, limit: int | None) -> list[Honest]:
    """Return all kernels for the target's device, those for one task together."""
    found = [honest for honest in written_by_hand() if honest.runs_on(preparing.target.device)]
    if per_task:
        workshop = PlanLowering(load_skills())
        for base in BASES:
            found += ours(preparing(base.task), workshop, per_task)
    found = [honest for honest in found if fnmatch.fnmatch(honest.name, only)]
    if limit is None or limit >= len(found):
        return found
    return [found[i * len(found) // limit] for i in range(limit)]


def judge_all(
    kernels: Sequence[Honest],
    runs: int,
    journal: Journal,
    settings: RefereeSettings,
    preparing: Preparing,
    seconds: float = math.inf,
) -> None:
    """Judge what the journal does not know yet; after so many seconds no further task is begun."""
    begin = time.monotonic()
    for run in range(runs):
        left = [honest for honest in kernels if journal.find(honest, run) is None]
        if not left:
            continue
        done = 0
        with Referee(settings) as referee:
            for task, members in by_task(left):
                if time.monotonic() - begin > seconds:
                    return
                floors = preparing.floors(task)
                with referee.open(task) as session:
                    for honest in members:
                        trial = trial_of(
                            honest, run, session.evaluate(Candidate(source=honest.source), floors=floors)
                        )
                        journal.add(trial)
                        done += 1
                        if not trial.is_verified:
                            say(f"REJECTED {honest.name}: {trial.status} ({trial.stage}): {trial.detail}")
                spent = time.monotonic() - begin
                say(f"run {run + 1} of {runs}: {task.name}: {done} of {len(left)}, {spent:.0f} s")


def row(honest: Honest, runs: int, journal: Journal) -> dict[str, Any]:
    """Return one line of the table."""
    trials = [t for run in range(runs) if (t := journal.find(honest, run)) is not None]
    rejected: list[Trial] = [t for t in trials if not t.is_verified]
    return {
        "kernel": honest.name,
        "origin": honest.origin,
        "title": honest.title,
        "task": honest.task.name,
        "runs": len(trials),
        "verified": len(trials) - len(rejected),
        "rejections": [
            t.model_dump(mode="json", include={"run", "status", "stage", "check", "detail"}) for t in rejected
        ],
        "notes": [{"run": t.run, "note": note} for t in trials for note in t.notes],
    }


def render(result: dict[str, Any]) -> str:
    """Return the result as Markdown."""
    rows: list[dict[str, Any]] = result["rows"]
    n_runs = sum(r["runs"] for r in rows)
    n_rejected = sum(len(r["rejections"]) for r in rows)
    lines = [
        "# Honest kernels",
        "",
        f"{len(rows)} kernels, {n_runs} verdicts in {result['runs']} runs: {n_rejected} rejections.",
        "",
        "| origin | kernels | verdicts | rejections |",
        "|---|---:|---:|---:|",
    ]
    for origin, n in Counter(r["origin"] for r in rows).most_common():
        own = [r for r in rows if r["origin"] == origin]
        lines.append(
            f"| {origin} | {n} | {sum(r['runs'] for r in own)} | {sum(len(r['rejections']) for r in own)} |"
        )
    bad = [r for r in rows if r["rejections"]]
    if bad:
        lines += ["", "## Rejections", ""]
    for r in bad:
        for why in r["rejections"]:
            lines.append(
                f"- `{r['kernel']}` (run {why['run'] + 1}): {why['status']}, {why['stage']}: {why['detail']}"
            )
    noted = [(r["kernel"], of["run"] + 1, of["note"]) for r in rows for of in r["notes"]]
    if noted:
        lines += ["", "## What verdicts note", ""]
        lines += [f"- `{kernel}` (run {run}): {note}" for kernel, run, note in noted]
    lines += ["", "## Every kernel", "", "| kernel | origin | what it does | task | verified |"]
    lines.append("|---|---|---|---|---:|")
    for r in rows:
        share = f"{r['verified']} of {r['runs']}"
        lines.append(f"| {r['kernel']} | {r['origin']} | {r['title']} | {r['task']} | {share} |")
    lines += ["", footer(result, result["gpus"]), "", f"Command: `{result['command']}`"]
    return "\n".join(lines) + "\n"


def say(text: str) -> None:
    """Report progress."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def journal_name(device: Device) -> str:
    """Return the file of the verdicts on a kind of device."""
    return "trials.jsonl" if device.kind == "cpu" else f"trials-{device.kind}.jsonl"


def command_of(options: argparse.Namespace, device: Device) -> str:
    """Return the command that makes the table again."""
    where = "" if device.kind == "cpu" else f" --device {options.device}"
    return f"python -m lab.benchmarks.honest --runs {options.runs} --per-task {options.per_task}{where}"


def main() -> int:
    """Judge, print, write."""
    parser = argparse.ArgumentParser(description="Correct kernels before the referee, several times.")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--per-task", type=int, default=PER_TASK, help="kernels of ours for each task")
    parser.add_argument("--device", default="cpu", help="where they are judged: cpu, cuda, cuda:N, hip ...")
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no task after so many")
    parser.add_argument("--only", default="*", help="glob over the kernels' names")
    parser.add_argument("--limit", type=int, help="at most so many, evenly chosen")
    parser.add_argument("--out", type=Path, help="default: benchmarks/results, or honest-DEVICE in it")
    parser.add_argument("--work", type=Path, default=load_settings().data_dir / "benchmarks" / "honest")
    options = parser.parse_args()
    # ninja may live beside the interpreter of an environment that is not activated
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    try:
        device = parse_device(options.device)
    except KernelwrightError as error:
        parser.error(str(error))
    say("writing our own kernels ...")
    is_interrupted = False
    kernels: list[Honest] = []
    journal = Journal(options.work / journal_name(device))
    cache_dir: Path = load_settings().cache_dir if device.has_driver else options.work / "cache"
    try:
        preparing = Preparing(cache_dir, device)
        kernels = gather(preparing, options.per_task, options.only, options.limit)
        settings = RefereeSettings(cache_dir=cache_dir, device=options.device)
        judge_all(kernels, options.runs, journal, settings, preparing, options.seconds)
    except KeyboardInterrupt:
        say("interrupted; what was judged is kept, the same command carries on")
        is_interrupted = True
    except KernelwrightError as error:
        say(f"honest: {error}")
        return FAULT
    if not kernels and not is_interrupted:
        parser.error(f"--only {options.only}: no kernel has such a name")
    rows = [row(honest, options.runs, journal) for honest in kernels]
    result = {
        "date": datetime.date.today().isoformat(),
        "command": command_of(options, device),
        "environment": environment(),
        "device": str(device),
        "gpus": "".join(f"{gpu.name}, driver {gpu.driver}; " for gpu in find_gpus() if device.has_driver),
        "runs": options.runs,
        "left": options.runs * len(rows) - sum(r["runs"] for r in rows),
        "rows": rows,
    }
    results = RESULTS
    out: Path = options.out or (results if device.kind == "cpu" else results / f"honest-{device.kind}")
    out.mkdir(parents=True, exist_ok=True)
    (out / "honest.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    text = render(result)
    (out / "honest.md").write_text(text, encoding="utf-8")
    sys.stdout.write(text)
    if is_interrupted:
        return INTERRUPTED
    return 1 if any(r["rejections"] for r in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
