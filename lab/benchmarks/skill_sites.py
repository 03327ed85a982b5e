"""How well the gate of skills knows the space: what it shows that has a place, and what it misses.

For every task of the suite and three states (library calls, generated code, generated code after sure
algebra) the gate ranks skills by what is known without a run. Counted are the skills shown, five at most;
those of them with a place; the skills that could act by an edit; those of them that the gate ranks. An edit
has a place where applying it gives another program, which is tried; guidance where the graph or the program
has what its file says it acts on. Nothing is timed, so nothing depends on the machine.

Usage: python -m lab.benchmarks.skill_sites [--target cpu/cpp] [--tasks NAME ...]
"""

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from kernelwright.agents.expert.extend import GENERATE, extend
from kernelwright.agents.expert.generator import ExpertGenerator
from kernelwright.agents.expert.plan_lowering import LIBRARY_MOVE, PlanLowering
from kernelwright.agents.expert.static_facts import static_analysis
from kernelwright.agents.llm.guidance import MAX_RANKED
from kernelwright.agents.problem import Problem
from kernelwright.core.errors import CaptureError, LoweringError
from kernelwright.core.machine import ANY_GPU, Machine
from kernelwright.core.plan import Move, Plan
from kernelwright.core.roofline import floor
from kernelwright.core.skill import ANY_KERNEL
from kernelwright.core.target import TargetName
from kernelwright.core.task import Task
from kernelwright.ir.acted_on import places
from kernelwright.ir.plan_lowering import site_params, sites
from kernelwright.skills.load import load_skills
from kernelwright.skills.stats import EmptyLedger
from kernelwright.targets.registry import find_target, target_of
from kernelwright.tasks.capture import capture_task
from kernelwright.tasks.suite import suite_tasks
from kernelwright.tasks.work import count_work
from kernelwright.testing.fake_run import PEAKS

TRIED = 3
"""Places of an edit, and values at each, that are tried until one gives another program."""


@dataclass(frozen=True)
class GateCount:
    """What the gate did in one state of one task."""

    task: str
    state: str
    shown: tuple[str, ...]
    ranked: frozenset[str]
    """All that it recommends, those beyond the ones shown included."""
    by_edit: frozenset[str]
    """Skills whose edit gives another program, whatever the gate says."""
    in_words: frozenset[str]
    """Guidance that has what it acts on."""


def count_task(task: Task, target: TargetName, workshop: PlanLowering) -> Iterator[GateCount]:
    """Yield the counts of a task's states; none where it cannot be captured."""
    accelerator = ANY_GPU if target_of(target).device.is_apart else None
    machine = Machine(cores=2, vector_bytes=64, accelerator=accelerator)
    try:
        captured = {workload.name: capture_task(task, workload) for workload in task.workloads}
    except CaptureError:
        return
    floors = {name: floor(count_work(one), PEAKS) for name, one in captured.items()}
    problem = Problem(task, target, captured, floors, PEAKS, machine)
    algebra = ExpertGenerator(workshop).algebra(problem)
    for state, plan in (
        ("library", Plan(moves=(LIBRARY_MOVE,))),
        ("generated", Plan()),
        ("algebra", algebra),
    ):
        ranked = [r.skill for r in static_analysis(workshop, problem, plan, EmptyLedger()).ranked]
        plans = {one.id: one for one in (plan, extend(plan, Move(skill=GENERATE)))}
        known = workshop.lowerings(problem)
        able = [s for s in workshop.skills.values() if str(target) in s.targets]
        yield GateCount(
            task=task.name,
            state=state,
            shown=tuple(ranked[:MAX_RANKED]),
            ranked=frozenset(ranked),
            by_edit=frozenset(
                s.name
                for s in able
                if s.name in known
                and any(_changes(workshop, problem, p, s.name, known[s.name]) for p in plans.values())
            ),
            in_words=frozenset(
                s.name
                for s in able
                if s.name not in known
                and s.acts_on is not None
                # of any kernel only a measured sign decides, and nothing is measured here
                and s.acts_on != ANY_KERNEL
                and any(places(workshop.carried(problem, p), s.acts_on) for p in plans.values())
            ),
        )


def _changes(workshop: PlanLowering, problem: Problem, plan: Plan, skill: str, lowering: str) -> bool:
    """Tell whether the skill's edit gives another program at one of its first places."""
    base = workshop.carried(problem, plan)
    for site in islice(sites(base, lowering), TRIED):
        for params in islice(site_params(site), TRIED):
            move = Move(skill=skill, region=site.region, params=params)
            try:
                done = workshop.carried(problem, plan.then(move))
            except LoweringError:
                continue
            if done.program != base.program:
                return True
    return False


def table(counts: Iterable[GateCount]) -> list[str]:
    """Return the sums by state, as Markdown."""
    by_state: dict[str, list[GateCount]] = {}
    for count in counts:
        by_state.setdefault(count.state, []).append(count)
        by_state.setdefault("all", []).append(count)
    lines = [
        "| state | tasks | skills shown | with a place | by an edit | that could act by an edit | found |",
        "|---|---|---|---|---|---|---|",
    ]
    for state in sorted(by_state, key=lambda name: name == "all"):
        rows = by_state[state]
        shown, placed, able, found = (sum(column) for column in zip(*map(sums, rows), strict=True))
        edits = sum(len(frozenset(row.shown) & row.by_edit) for row in rows)
        lines.append(
            f"| {state} | {len({row.task for row in rows})} | {shown} | {placed} ({_share(placed, shown)}) "
            f"| {edits} | {able} | {found} ({_share(found, able)}) |"
        )
    return lines


def sums(count: GateCount) -> tuple[int, int, int, int]:
    """Return skills shown, those with a place, skills that could act by an edit, those that are ranked."""
    placed = frozenset(count.shown) & (count.by_edit | count.in_words)
    return len(count.shown), len(placed), len(count.by_edit), len(count.by_edit & count.ranked)


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "none"


def main(argv: Sequence[str] | None = None) -> None:
    """Count and print the table; with ``--each`` a line for each task and state before it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--target", default="cpu/cpp")
    parser.add_argument("--tasks", nargs="*", default=[], help="only those whose names begin so")
    parser.add_argument("--each", action="store_true")
    options = parser.parse_args(argv)
    target = find_target(options.target, to_run=False).name
    workshop, counts = PlanLowering(load_skills()), []
    for task in suite_tasks():
        if not options.tasks or task.name.startswith(tuple(options.tasks)):
            for count in count_task(task, target, workshop):
                counts.append(count)
                if options.each:
                    sys.stdout.write(f"{count.task} {count.state}: {sums(count)} {', '.join(count.shown)}\n")
    sys.stdout.write("\n".join(table(counts)) + "\n")


if __name__ == "__main__":
    main()
