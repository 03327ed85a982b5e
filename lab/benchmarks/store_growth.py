"""How the answers of a store slow down as it grows: runs are written through its API, then questions timed.

    python -m lab.benchmarks.store_growth --runs 100 1000 10000 --candidates 100
    python -m lab.benchmarks.store_growth --store postgresql://USER:PASSWORD@HOST:PORT/EMPTY_DATABASE

The runs are made up; what is written per run is what a run of so many candidates leaves behind.
"""

import argparse
import datetime
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from kernelwright.api.recalling import recall
from kernelwright.api.stored import stored_answer
from kernelwright.core.budget import Spent
from kernelwright.core.candidate import Candidate
from kernelwright.core.events import (
    CandidateEvaluated,
    CandidateWritten,
    Event,
    IncumbentImproved,
    RunFinished,
    StepStarted,
)
from kernelwright.core.evidence import Evidence, FactValue
from kernelwright.core.learned import ArchivedPlan
from kernelwright.core.machine import Machine
from kernelwright.core.plan import Move, Plan
from kernelwright.core.run import Outcome, RunSpec, RunState
from kernelwright.core.target import CPU_CPP
from kernelwright.core.task import Task
from kernelwright.machine.probe import probe_machine
from kernelwright.memory.archive import StoredPlans
from kernelwright.memory.ledger import Ledger
from kernelwright.referee.version import REFEREE_VERSION
from kernelwright.report import svg
from kernelwright.report.runlist import list_runs
from kernelwright.skills.diagnosis import diagnose
from kernelwright.skills.load import load_skills
from kernelwright.skills.ranking import rank
from kernelwright.store.address import parse_address
from kernelwright.store.base import Store
from kernelwright.store.sqlstore import open_store
from lab.sample_run import KERNEL, verified

OUT = Path("build") / "store-growth"
STRUCTURES = ("pointwise", "reduction", "scan", "matmul", "convolution", "attention")
BOTTLENECKS = ("extra_traffic", "memory_bandwidth", "compute", "overhead", "library")
TASKS, SEEDS = 60, 10**6
LIMIT_MS = 200.0
"""What an answer may take, however large the store."""
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760.0, 420.0, 64.0, 190.0, 40.0, 52.0
COLOURS = ("#2f6fb0", "#c0392f", "#12855b", "#b07a1e", "#7a4fa3", "#1b8a9a", "#5c6678", "#a0437a")

Question = Callable[[Store], object]


class Writer:
    """Writes made-up runs; the same numbers give the same runs."""

    def __init__(self, store: Store, n_candidates: int) -> None:
        self._store, self._n = store, n_candidates
        self._skills = sorted(load_skills())
        self._sample = verified(Candidate(source=KERNEL), 2.0).model_copy(update={"referee": REFEREE_VERSION})

    def write(self, number: int) -> None:
        """Write one whole run."""
        rng = random.Random(number)
        spec = spec_of(number)
        run_id = self._store.create_run(spec)
        made = [self._candidate(number, i, rng) for i in range(self._n)]
        self._store.add_candidates(run_id, made)
        self._store.append_events(run_id, list(self._events(made)))
        if number % 50 == 0:
            return  # interrupted
        final = self._sample.model_copy(update={"candidate_id": made[-1].id, "is_final": True})
        finished = RunFinished(reason="done", winner=made[-1].id, evaluation=final, spent=Spent())
        outcomes = [self._outcome(run_id, spec, candidate, rng) for candidate in made]
        self._store.close_run(run_id, finished, outcomes, self._plan(run_id, spec, made, rng))
        self._store.set_state(run_id, RunState.FINISHED)

    def _candidate(self, number: int, i: int, rng: random.Random) -> Candidate:
        moves = tuple(Move(skill=skill, params={"by": i}) for skill in rng.sample(self._skills, 3))
        source = f"{KERNEL}\nRUN, CANDIDATE = {number}, {i}\n"
        return Candidate(source=source, plan=Plan(moves=moves)).known_as(f"{number:08x}{i:08x}")

    def _events(self, made: Sequence[Candidate]) -> Iterator[Event]:
        for step, candidate in enumerate(made, 1):
            evaluation = self._sample.model_copy(update={"candidate_id": candidate.id})
            yield StepStarted(step=step, mode="optimize", base=None)
            yield CandidateWritten(step=step, candidate=candidate.id)
            yield CandidateEvaluated(step=step, candidate=candidate.id, evaluation=evaluation)
        yield IncumbentImproved(step=len(made), candidate=made[-1].id, speedup=2.0)

    def _outcome(self, run_id: str, spec: RunSpec, candidate: Candidate, rng: random.Random) -> Outcome:
        is_good = rng.random() < 0.7
        return Outcome(
            skill=candidate.plan.moves[0].skill,
            target=str(CPU_CPP),
            structure=rng.choice(STRUCTURES),
            bottleneck=rng.choice(BOTTLENECKS),
            task_id=spec.task.id,
            run_id=run_id,
            move_key=candidate.id,
            verified=is_good,
            log_speedup=rng.gauss(0.1, 0.3) if is_good else None,
            expected="run.latency_ms down x1.5",
        )

    def _plan(
        self, run_id: str, spec: RunSpec, made: Sequence[Candidate], rng: random.Random
    ) -> ArchivedPlan:
        kind = int(spec.task.name.partition("-")[2])
        return ArchivedPlan(
            task_id=spec.task.id,
            task_name=spec.task.name,
            target=str(CPU_CPP),
            signature={"graph.structure": STRUCTURES[kind % 6], "task.flops": 1000.0 * (kind + 1)},
            plan=made[-1].plan,
            initial_source=made[0].id,
            best_source=made[-1].id,
            speedup=1.0 + rng.random(),
            run_id=run_id,
        )


def spec_of(number: int) -> RunSpec:
    """Return what the run with this number is asked."""
    kind = number % TASKS
    return RunSpec(
        task=Task(name=f"task-{kind}", source=f"class Model: ...  # {kind}"),
        recipe="kernelskill",
        seed=number // TASKS % SEEDS,
        machine=Machine(processor=f"processor {number % 4}", cores=2),
    )


def questions(last: int) -> dict[str, Question]:
    """Return what is asked of a store whose newest run has this number."""
    evidence = Evidence(facts={"run.floor_fraction": 0.3, "task.bound_by": "memory"})
    diagnosis, skills = diagnose(evidence), load_skills()
    likeness: dict[str, FactValue] = {"graph.structure": "scan", "task.flops": 3000.0}
    known, unknown = spec_of(last - 1), spec_of(last - 1).model_copy(update={"recipe": "other"})
    return {
        "runs list": lambda store: list_runs(store, limit=20),
        "ranking": lambda store: rank(
            skills, evidence, diagnosis, str(CPU_CPP), Ledger.of_tallies(store.tallies())
        ),
        "memory look-up": lambda store: recall(store, target=CPU_CPP),
        "plans alike": lambda store: StoredPlans(store).alike(likeness, str(CPU_CPP), 8),
        "stored answer": lambda store: stored_answer(store, known),
        "no stored answer": lambda store: stored_answer(store, unknown),
        **_pages(),
    }


def _pages() -> dict[str, Question]:
    try:
        from kernelwright.dashboard.app import overview
        from kernelwright.dashboard.changes import SHOWN_RUNS
    except ModuleNotFoundError as error:
        sys.stderr.write(f"without the dashboard: {error}\n")
        return {}
    return {
        "dashboard: start page": overview,
        "dashboard: anything new": lambda store: store.run_marks(SHOWN_RUNS),
    }


def time_questions(where: str, last: int, rounds: int) -> dict[str, float]:
    """Return the median milliseconds of each question, asked of a store that is opened for it."""
    found = {}
    for name, ask in questions(last).items():
        store = open_store(where, read_only=True)
        times = []
        for _ in range(rounds):
            begin = time.perf_counter()
            ask(store)
            times.append((time.perf_counter() - begin) * 1e3)
        found[name] = statistics.median(times)
        store.close()
    return found


def measure(where: str, steps: Sequence[int], n_candidates: int, rounds: int) -> list[dict[str, Any]]:
    """Write up to each number of runs in turn, and time the questions there."""
    rows: list[dict[str, Any]] = []
    store = open_store(where)
    writer, written = Writer(store, n_candidates), 0
    for n in steps:
        begin = time.perf_counter()
        for number in range(written + 1, n + 1):
            writer.write(number)
        seconds = time.perf_counter() - begin
        ms = time_questions(where, n, rounds)
        rows.append({"runs": n, "candidates": n * n_candidates, "writing_s": seconds, "ms": ms})
        sys.stderr.write(f"{n} runs written, {seconds:.0f} s for the last {n - written}\n")
        written = n
    store.close()
    return rows


def draw(rows: Sequence[dict[str, Any]]) -> str:
    """Return the growth of every answer as a standalone picture, both axes logarithmic."""
    times = [ms for row in rows for ms in row["ms"].values()]
    x = svg.Scale(rows[0]["runs"] * 0.9, rows[-1]["runs"] * 1.1, LEFT, WIDTH - RIGHT, log=True)
    y = svg.Scale(min(times) * 0.7, max(LIMIT_MS, *times) * 1.4, HEIGHT - BOTTOM, TOP, log=True)
    parts = [svg.element("style", _style())]
    for tick in y.ticks(6):
        parts += [svg.line(LEFT, y(tick), WIDTH - RIGHT, y(tick), "grid")]
        parts += [svg.label(LEFT - 6, y(tick) + 4, f"{tick:g} ms", "axis", "end")]
    for row in rows:
        parts.append(svg.label(x(row["runs"]), HEIGHT - BOTTOM + 18, f"{row['runs']}", "axis", "middle"))
    parts.append(svg.label((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, "runs in the store", "axis", "middle"))
    parts.append(svg.line(LEFT, y(LIMIT_MS), WIDTH - RIGHT, y(LIMIT_MS), "limit"))
    for i, name in enumerate(rows[0]["ms"]):
        points = [(x(row["runs"]), y(row["ms"][name])) for row in rows]
        dots = [svg.element("circle", cx=px, cy=py, r=3.0, class_=f"dot d{i}") for px, py in points]
        parts += [svg.path(points, f"line l{i}"), *dots]
        parts.append(svg.element("circle", cx=WIDTH - RIGHT + 16, cy=TOP + 20 * i, r=4.0, class_=f"dot d{i}"))
        parts.append(svg.label(WIDTH - RIGHT + 26, TOP + 4 + 20 * i, name))
    return svg.picture(
        WIDTH, HEIGHT, *parts, name="growth", description="Time of a store's answers by its size"
    )


def _style() -> str:
    own = (f".l{i} {{ stroke: {c}; }} .d{i} {{ fill: {c}; }}" for i, c in enumerate(COLOURS))
    return (
        "svg { background: #fff; font-family: system-ui, sans-serif; } text { font-size: 11px; } "
        ".axis { fill: #5c6678; } .grid { stroke: #e1e5ec; } "
        ".limit { stroke: #c0392f; stroke-dasharray: 5 4; } "
        f".line {{ stroke-width: 1.8; }} {' '.join(own)}"
    )


def render(result: dict[str, Any]) -> str:
    """Return the result as Markdown."""
    rows = result["rows"]
    lines = [
        "# How a store's answers grow",
        "",
        f"`{result['command']}`, {result['date']}, {result['store']}",
        "",
    ]
    lines += ["| ms, median | " + " | ".join(f"{row['runs']} runs" for row in rows) + " |"]
    lines += ["|---|" + "---:|" * len(rows)]
    lines.append("| candidates | " + " | ".join(str(row["candidates"]) for row in rows) + " |")
    for name in rows[0]["ms"]:
        lines.append(f"| {name} | " + " | ".join(f"{row['ms'][name]:.3g}" for row in rows) + " |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write, measure, print, draw."""
    parser = argparse.ArgumentParser(description="Times a store's answers as it grows.")
    parser.add_argument("--runs", type=int, nargs="+", default=[100, 1000, 10000], help="sizes, growing")
    parser.add_argument(
        "--candidates", type=int, default=10, help="per run; 100 makes a million of 10000 runs"
    )
    parser.add_argument("--rounds", type=int, default=5, help="times that each question is asked")
    parser.add_argument("--store", help="an empty store; default: a file that is deleted again")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="store-growth-") as folder:
        where = options.store or str(Path(folder) / "grown.db")
        rows = measure(where, sorted(options.runs), options.candidates, options.rounds)
    sizes = " ".join(map(str, sorted(options.runs)))
    result = {
        "date": datetime.date.today().isoformat(),
        "command": f"python -m lab.benchmarks.store_growth --runs {sizes} --candidates {options.candidates}"
        + (" --store ADDRESS" if options.store else ""),
        "store": parse_address(options.store).get_backend_name() if options.store else "sqlite",
        "environment": probe_machine().environment(),
        "rows": rows,
    }
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "store_growth.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    (options.out / "store_growth.svg").write_text(draw(rows), encoding="utf-8")
    text = render(result)
    (options.out / "store_growth.md").write_text(text, encoding="utf-8")
    sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
