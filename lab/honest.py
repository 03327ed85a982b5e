"""Correct kernels of every origin, which the referee must let pass: those written by hand and those of ours.

Hand-written ones are files in ``corpus/honest``; a file begins with comment lines ``# key: value``: ``title``
(what is special about it), ``origin``, ``task`` (a task of the suite, or a file in ``corpus/honest/tasks``)
and, where others than the task's own are wanted, ``sizes`` (``name=value, ...``); ``target: cuda`` where it
needs a GPU. One more is one more file.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kernelwright.agents.expert.generator import ExpertGenerator
from kernelwright.agents.expert.plan_lowering import PlanLowering
from kernelwright.agents.problem import Problem
from kernelwright.agents.roles import Situation
from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import UserError
from kernelwright.core.plan import Move, Plan
from kernelwright.core.task import Literal_, Task, Workload
from kernelwright.tasks.kernelbench import load_task
from kernelwright.tasks.suite import suite_tasks

FOLDER = Path(__file__).parent / "honest_kernels"
NEEDED = ("title", "origin", "task")
KNOWN = (*NEEDED, "sizes", "target")
TARGETS = ("cpu", "cuda")
GPUS = ("cuda", "hip")
"""Kinds of device that those with the target ``cuda`` run on, and no others do."""
PER_TASK = 4
"""Kernels of ours for each task: the seeds, then one more move at a time, drawn by lot."""


@dataclass(frozen=True)
class Honest:
    """One correct kernel."""

    name: str
    origin: str
    title: str
    task: Task
    source: str
    target: str = "cpu"

    def runs_on(self, kind: str) -> bool:
        """True where it is to be judged on this kind of device."""
        return (self.target == "cuda") == (kind in GPUS)


def written_by_hand(folder: Path = FOLDER) -> tuple[Honest, ...]:
    """Return the files of the corpus, those for one task together; raises UserError naming a bad file."""
    found = [_read(path, folder) for path in sorted(folder.glob("*.py")) if path.name != "__init__.py"]
    return tuple(sorted(found, key=lambda honest: (honest.task.name, honest.task.id, honest.name)))


def ours(problem: Problem, skills: PlanLowering, count: int = PER_TASK) -> Iterator[Honest]:
    """Yield kernels of the expert team for a task: library, fused, after algebra, then by lot."""
    situation = Situation(problem, chance=problem.task.id.encode()[0])
    for seed in ExpertGenerator(skills).seeds(situation, count):
        yield Honest(
            name=f"ours_{problem.task.name}_{seed.id[:6]}",
            origin="ours",
            title=_plan(seed.plan, seed),
            task=problem.task,
            source=seed.source,
            target="cpu" if problem.target.device == "cpu" else "cuda",
        )


def _plan(plan: Plan | None, seed: Candidate) -> str:
    moves: tuple[Move, ...] = () if plan is None else plan.moves
    return ", ".join(move.skill for move in moves) or ("fused" if seed.plan is not None else "as written")


def _read(path: Path, folder: Path) -> Honest:
    source = path.read_text(encoding="utf-8")
    header = _header(path, source)
    target = header.get("target", TARGETS[0])
    if target not in TARGETS:
        raise UserError(f"{path}: unknown target {target!r}; it is {' or '.join(TARGETS)}")
    return Honest(path.stem, header["origin"], header["title"], _task(path, header, folder), source, target)


def _header(path: Path, source: str) -> dict[str, str]:
    header: dict[str, str] = {}
    for line in source.splitlines():
        if not line.startswith("#"):
            break
        key, colon, value = line.lstrip("# ").partition(":")
        if not colon or key not in KNOWN:
            raise UserError(f"{path}: header line {line!r}; write `# key: value` with {', '.join(KNOWN)}")
        header[key] = value.strip()
    missing = [key for key in NEEDED if not header.get(key)]
    if missing:
        raise UserError(f"{path}: its header has no {missing[0]!r}; it needs {', '.join(NEEDED)}")
    return header


def _task(path: Path, header: dict[str, str], folder: Path) -> Task:
    own = folder / "tasks" / f"{header['task']}.py"
    if own.exists():
        task = load_task(own)
    else:
        named = [task for task in suite_tasks() if task.name == header["task"]]
        if not named:
            raise UserError(f"{path}: no task {header['task']!r} in the suite or in {folder / 'tasks'}")
        task = named[0]
    if "sizes" not in header:
        return task
    sizes: dict[str, Literal_] = {}
    for part in header["sizes"].split(","):
        name, _, value = part.partition("=")
        sizes[name.strip()] = ast.literal_eval(value.strip())
    return task.model_copy(update={"workloads": (Workload(overrides=sizes),)})
