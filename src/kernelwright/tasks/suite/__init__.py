"""Our own suite: KernelBench-format tasks sized for a machine with two cores."""

from functools import cache
from pathlib import Path

from kernelwright.core.task import Task
from kernelwright.tasks.kernelbench import load_folder


@cache
def suite_tasks() -> tuple[Task, ...]:
    """Return the tasks of the suite in the order of their numbers."""
    return load_folder(Path(__file__).parent)
