"""The suite's tasks at sizes that an interpreter can run: capture, print, run, compare.

As a command it makes the table "Triton in the interpreter" of docs/results.md:
    python -m tests.targets.triton.suite            every task
    python -m tests.targets.triton.suite NAME...    those whose names contain one of these
    python -m tests.targets.triton.suite --own      tasks with products, all of them taken from the library
"""

import dataclasses
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.targets.triton.interpreted import Interpreter
from tests.targets.triton.judging import Judge

from kernelwright.core.errors import CaptureError
from kernelwright.core.machine import UNKNOWN_MACHINE
from kernelwright.core.task import Literal_, Task, Workload
from kernelwright.ir.edits import FusionOptions
from kernelwright.ir.fusion_edits import own_products
from kernelwright.ir.lower import lower
from kernelwright.ir.program import Call, Program, Region
from kernelwright.referee.session.input_samples import SampleKey
from kernelwright.targets.triton.candidate import render_triton_candidate
from kernelwright.targets.triton.defaults import with_triton_schedules
from kernelwright.targets.triton.schedule import TritonSchedule, decide
from kernelwright.tasks.capture import capture_task
from kernelwright.tasks.suite import suite_tasks

SMALL = {
    "batch_size": 3, "rows": 7, "columns": 11, "inner": 6, "size": 20, "features": 37, "classes": 37,
    "length": 41, "steps": 5, "tokens": 13, "channels": 8, "groups": 4, "depth": 7, "height": 9, "width": 10,
    "vectors": 12, "in_features": 10, "out_features": 24, "hidden": 14, "in_channels": 4, "out_channels": 8,
}  # fmt: skip
"""What a task's globals are rebound to, by name; none is a multiple of a block."""
TINY = SMALL | {
    "batch_size": 1, "rows": 1, "columns": 17, "inner": 1, "size": 3, "features": 5, "classes": 2,
    "length": 9, "steps": 1, "tokens": 3, "channels": 4, "groups": 2, "depth": 5, "height": 5, "width": 7,
    "vectors": 2, "in_features": 3, "out_features": 8, "hidden": 1, "in_channels": 1, "out_channels": 4,
}  # fmt: skip
"""As small as most tasks allow."""
ATTENTION = {"37_CausalAttention": 8, "38_ComposedAttention": 8, "53_TransformerBlock": 16}
"""Features of the tasks that split them among heads."""


@dataclass(frozen=True)
class Row:
    """What came of one task."""

    task: str
    kernels: int = 0
    forms: str = ""
    calls: str = ""
    small: str = "verified"
    tiny: str = "verified"


def small(task: Task, sizes: Mapping[str, int] = SMALL) -> Task:
    """Return the task at other sizes."""
    names = set(re.findall(r"^(\w+) = \d+$", task.source, re.MULTILINE))
    overrides: dict[str, Literal_] = {name: size for name, size in sizes.items() if name in names}
    features = ATTENTION.get(short_name(task))
    if features is not None:
        overrides["features"] = features
    return task.model_copy(update={"workloads": (Workload(name="small", overrides=overrides),)})


def short_name(task: Task) -> str:
    """Return a suite task's name without folder."""
    return task.name.rsplit("/", 1)[-1]


def lowered(task: Task, schedule: TritonSchedule | None = None, *, own: bool = False) -> tuple[str, Program]:
    """Return the candidate's source and its program; ``own``: with all products taken from the library."""
    workload = task.workloads[0]
    captured = capture_task(task, workload)
    nodes = frozenset(node.name for node in own_products(captured)) if own else frozenset()
    program = with_triton_schedules(lower(captured, FusionOptions(own=nodes)), UNKNOWN_MACHINE)
    if schedule is not None:
        steps = tuple(
            dataclasses.replace(s, schedule=schedule) if isinstance(s, Region) else s for s in program.steps
        )
        program = dataclasses.replace(program, steps=steps)
    return render_triton_candidate(task, {workload.name: (captured, program)}, "1. seed"), program


def check(
    interpreter: Interpreter,
    task: Task,
    schedule: TritonSchedule | None = None,
    keys: Sequence[SampleKey] | None = None,
    *,
    own: bool = False,
) -> Program:
    """Run a task's candidate on draws, all that the referee would make unless told, and judge as it does."""
    source, program = lowered(task, schedule, own=own)
    judge = Judge(task)
    for trial in judge.trials(judge.every_key() if keys is None else keys):
        judge.check(trial, interpreter.forward(source, judge.init, trial.state, trial.inputs))
    return program


def row(interpreter: Interpreter, task: Task, *, own: bool = False) -> Row:
    """Print, run and describe one task; what goes wrong is told in the row."""
    name, found = short_name(task), Row(short_name(task))
    try:
        program = check(interpreter, small(task), own=own)
        regions = [s for s in program.steps if isinstance(s, Region)]
        calls = [s.target.split(".")[-2] for s in program.steps if isinstance(s, Call) and not s.is_view]
        found = Row(name, len(regions), ", ".join(decide(r).form for r in regions), ", ".join(calls))
    except Exception as error:  # the table shows every failure, whatever it is
        found = dataclasses.replace(found, small=_told(error))
    try:
        check(interpreter, small(task, TINY), own=own)
    except CaptureError:
        found = dataclasses.replace(found, tiny="too small for the reference")
    except Exception as error:
        found = dataclasses.replace(found, tiny=_told(error))
    return found


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0][:150]}"


def _has_products(task: Task) -> bool:
    return bool(own_products(capture_task(small(task), small(task).workloads[0])))


def main(arguments: list[str]) -> int:
    """Write the table; 1 when a task failed."""
    own, wanted = "--own" in arguments, [a for a in arguments if a != "--own"]
    tasks = [t for t in suite_tasks() if not wanted or any(w in t.name for w in wanted)]
    tasks = [t for t in tasks if not own or _has_products(t)]
    interpreter, n_failed = Interpreter(), 0
    write = sys.stdout.write
    write("| task | kernels | forms at the small sizes | calls of torch | small sizes | tiny sizes |\n")
    write("| --- | ---: | --- | --- | --- | --- |\n")
    for task in tasks:
        r = row(interpreter, task, own=own)
        n_failed += "Error" in r.small + r.tiny
        write(f"| {r.task} | {r.kernels} | {r.forms} | {r.calls} | {r.small} | {r.tiny} |\n")
        sys.stdout.flush()
    interpreter.close()
    return int(n_failed > 0)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
