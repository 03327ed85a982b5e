"""How a task's graphs are captured: in this process, or in the sandbox where the task is a stranger's."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from kernelwright.agents.problem import Problem
from kernelwright.core.errors import UserError
from kernelwright.core.run import RunSpec
from kernelwright.core.task import Task
from kernelwright.referee.session.confined import confined_capture
from kernelwright.referee.settings import make_referee_settings
from kernelwright.runs.prepare import Preparation, prepare
from kernelwright.settings import Settings
from kernelwright.tasks.capture import Capture, capture_task


@contextlib.contextmanager
def capturing(where: Settings) -> Iterator[Capture]:
    """Yield what captures a task's graphs as the settings say; raises as ``confined_capture``."""
    if not where.confine_tasks:
        yield capture_task
        return
    with confined_capture(make_referee_settings(where)) as capture:
        yield capture


def preparation(where: Settings) -> Preparation:
    """Return how tasks are prepared on this machine as the settings say."""

    def prepared(spec: RunSpec, cache_dir: Path) -> tuple[Problem, str | None]:
        with capturing(where) as capture:
            return prepare(spec, cache_dir, capture)

    return prepared


def require_own(task: Task, where: Settings | None, what: str) -> None:
    """Raise UserError where ``what`` would run a stranger's task in this process."""
    if where is not None and where.confine_tasks:
        raise UserError(
            f"{what}: not with --confine-tasks: it runs the code of {task.name} in this process; leave one "
            "of the two out"
        )
