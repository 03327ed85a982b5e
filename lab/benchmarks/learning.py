"""What memory is worth: evaluations to a speedup, cold against warm, on tasks the memory never saw.

The rule of the halves: within each kind (a task's ``CATEGORY``) tasks go to halves A and B alternately in the
order of their numbers; a kind begins with the half that has fewer tasks so far.

1. The recipe is run over half A, one task after the other; ledger and plan archive fill as always, then the
   Librarian looks at them and admits what findings it can.
2. Every task of half B is run warm, with exactly that memory, and cold, with none. Neither learns from other
   tasks of B. The two share their measurements: a candidate that both come to is measured once.
3. The same with the halves exchanged.

Everything is kept in ``--work`` as it happens; the same command carries an interrupted one on. With
``--recording`` measurements that ``compare --record`` made on this machine are taken from there.

Usage: python -m lab.benchmarks.learning [--recipe kernelwright] [--budget-evaluations 16] [--limit N]
"""

import argparse
import datetime
import json
import shlex
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kernelwright.api import playing
from kernelwright.core.budget import Budget
from kernelwright.core.errors import KernelwrightError
from kernelwright.core.request import DEFAULT_RECIPE
from kernelwright.core.run import RunSpec, RunState
from kernelwright.core.task import Task
from kernelwright.machine.probe import probe_machine
from kernelwright.memory.study import learn
from kernelwright.report.played import Played, played_run
from kernelwright.runs.evaluator import Evaluator
from kernelwright.runs.loop import with_memory
from kernelwright.runs.recording import RecordedEvaluator, Recording, open_recording, recording_of
from kernelwright.settings import load_settings
from kernelwright.store.base import RunRecord, Store
from kernelwright.store.sqlstore import open_store
from kernelwright.tasks.kernelbench import task_category
from kernelwright.tasks.suite import suite_tasks
from lab.learning_report import Learned, LearningRow, learned, learning_markdown, learning_row

LEARN, TEST = "learn", "test"
HALVES = ("A", "B")
RULE = (
    "Within each kind, tasks go to halves A and B alternately in the order of their numbers; a kind begins "
    "with the half that has fewer tasks so far."
)


def halves(tasks: Sequence[Task]) -> dict[str, list[Task]]:
    """Split tasks by the rule above."""
    kinds: dict[str | None, list[Task]] = defaultdict(list)
    for task in tasks:
        kinds[task_category(task)].append(task)
    split: dict[str, list[Task]] = {half: [] for half in HALVES}
    for members in kinds.values():
        first = min(HALVES, key=lambda half: len(split[half]))
        for i, task in enumerate(members):
            split[HALVES[(HALVES.index(first) + i) % 2]].append(task)
    order = {task.id: i for i, task in enumerate(tasks)}
    return {half: sorted(members, key=lambda task: order[task.id]) for half, members in split.items()}


class Experiment:
    """One direction: a store in which one half is learned and the other one tested."""

    def __init__(self, store: Store, referee: Evaluator, spec: RunSpec, known: Recording) -> None:
        """Play with ``spec``, whose task and memory are replaced for every run.

        Within one task measurements are shared, those that are known before included.
        """
        self.store, self.spec = store, spec
        for entry in recording_of(store).entries():
            known.add(entry)
        self.evaluator = RecordedEvaluator(referee, known)

    def learn(self, tasks: Sequence[Task]) -> None:
        """Fill the memory, unless testing has begun: then it is closed."""
        if next(self.store.iter_runs(TEST), None) is not None:
            return
        for task in tasks:
            spec = self._spec(task, LEARN)
            self._play(spec, [r for r in self.store.iter_runs(LEARN) if r.spec.task.id == task.id])
        outcomes = [outcome for _, outcome in self.store.iter_outcomes()]
        plans = [plan for _, plan in self.store.iter_plans()]
        for finding in learn(outcomes, plans, tuple(self.store.iter_findings())):
            self.store.add_finding(finding)

    def test(self, tasks: Sequence[Task]) -> Iterator[tuple[Played, Played]]:
        """Yield the cold and the warm run of each task; a task on which one failed is left out."""
        # The very first run is a warm one, so the memory it was given is that of the other half alone.
        for task in tasks:
            warm = self._play(self._warm(task), self._earlier(task, is_cold=False))
            cold = self._play(self._spec(task, TEST, is_cold=True), self._earlier(task, is_cold=True))
            if cold is not None and warm is not None:
                yield cold, warm

    def memory(self) -> str:
        """Say what the tested runs were given."""
        given = self._first_warm()
        if given is None:
            return "no memory yet"
        findings = Counter(finding.state for finding in given.findings)
        return (
            f"{given.ledger_until} outcomes, {given.archive_until} archived plans, "
            f"{findings['admitted']} admitted findings"
        )

    def _warm(self, task: Task) -> RunSpec:
        spec, known = self._spec(task, TEST), self._first_warm()
        if known is None:
            return with_memory(spec, self.store)
        memory = {name: getattr(known, name) for name in ("ledger_until", "archive_until", "findings")}
        return spec.model_copy(update=memory)

    def _first_warm(self) -> RunSpec | None:
        return next((r.spec for r in self.store.iter_runs(TEST) if not r.spec.is_cold), None)

    def _earlier(self, task: Task, *, is_cold: bool) -> list[RunRecord]:
        runs = self.store.iter_runs(TEST)
        return [r for r in runs if r.spec.task.id == task.id and r.spec.is_cold == is_cold]

    def _spec(self, task: Task, experiment: str, *, is_cold: bool = False) -> RunSpec:
        return self.spec.model_copy(update={"task": task, "experiment": experiment, "is_cold": is_cold})

    def _play(self, spec: RunSpec, earlier: Sequence[RunRecord]) -> Played | None:
        """Bring a run to its end, going on with an earlier one; None when it failed, now or before."""
        if earlier:
            run_id = earlier[-1].run_id
        else:
            is_learning = spec.experiment == LEARN
            run_id = self.store.create_run(with_memory(spec, self.store) if is_learning else spec)
        what = f"{spec.experiment} {'cold' if spec.is_cold else 'warm'} {spec.task.name}"
        if self.store.get_run(run_id).state is RunState.RUNNING:
            try:
                playing.carry_on(run_id, store=self.store, referee=self.evaluator)
            except KernelwrightError as error:
                say(f"{what}: failed: {error}")
        record = self.store.get_run(run_id)
        played = played_run(self.store, record, is_timed=False)
        if played is None or record.state is not RunState.FINISHED:
            return None
        say(f"{what}: {played.evaluations} evaluations, best {played.height(played.evaluations):.2f}x")
        return played


def say(text: str) -> None:
    """Tell how far it is."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def main() -> None:
    """Run both directions, write learning.json and learning.md after each."""
    options = _options()
    tasks = {half: members[: options.limit] for half, members in halves(suite_tasks()).items()}
    machine = probe_machine(load_settings().cache_dir)
    budget = Budget(evaluations=options.budget_evaluations)
    first = tasks[HALVES[0]][0]
    spec = RunSpec(
        task=first,
        recipe=options.recipe,
        budget=budget,
        seed=options.seed,
        machine=machine,
        environment=machine.environment(),
    )
    options.work.mkdir(parents=True, exist_ok=True)
    rows: list[LearningRow] = []
    notes: list[str] = []
    known = open_recording(options.recording) if options.recording else Recording()
    with playing.open_referee() as referee:
        for source, target in (("A", "B"), ("B", "A")):
            experiment = Experiment(
                open_store(options.work / f"learned-from-{source}.db"), referee, spec, known
            )
            experiment.learn(tasks[source])
            pairs = experiment.test(tasks[target])
            rows += [learning_row(target, cold, warm, options.budget_evaluations) for cold, warm in pairs]
            notes.append(f"Learned from half {source}: {experiment.memory()}.")
            _write(options, rows, notes)
    sys.stdout.write((options.out / "learning.md").read_text(encoding="utf-8"))


def _write(options: argparse.Namespace, rows: list[LearningRow], notes: list[str]) -> None:
    sums: list[Learned] = [learned("both halves", rows)]
    sums += [learned(f"half {half}", [row for row in rows if row.half == half]) for half in HALVES]
    about: dict[str, Any] = {
        "date": f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC",
        "command": shlex.join(["python", "-m", "lab.benchmarks.learning", *sys.argv[1:]]),
        "environment": probe_machine().environment(),
        "notes": notes,
    }
    options.out.mkdir(parents=True, exist_ok=True)
    title = f"Learning: {options.recipe}, {options.budget_evaluations} evaluations"
    text = learning_markdown(rows, sums, title=title, rule=RULE, **about)
    (options.out / "learning.md").write_text(text, encoding="utf-8")
    document = {
        "title": title,
        **about,
        "rule": RULE,
        "sums": [{**one.model_dump(), "verdict": one.verdict} for one in sums],
        "rows": [row.model_dump() for row in rows],
    }
    (options.out / "learning.json").write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--recipe", default=DEFAULT_RECIPE)
    parser.add_argument("--budget-evaluations", type=int, default=16)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=int, default=None, help="the first N tasks of each half")
    parser.add_argument("--work", type=Path, default=Path("out/learning"), help="where the stores are kept")
    parser.add_argument("--recording", type=Path, help="a file that compare --record wrote, added to")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/learning"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
