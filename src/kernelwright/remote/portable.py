"""Which tasks another machine can understand."""

from kernelwright.core.errors import TaskError
from kernelwright.core.task import Task


def require_portable(task: Task) -> None:
    """Raise TaskError for a task that cannot be understood on another machine."""
    if task.artifact is not None:
        raise TaskError(
            f"{task.name}: a live module cannot be judged elsewhere: its pickle is a file of this machine; "
            "write it as a task file"
        )
