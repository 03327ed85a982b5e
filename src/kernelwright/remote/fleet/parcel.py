"""A task on its way to a worker: the pickle of a live module is a file of the driver's, so it goes along."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from kernelwright.core.errors import TaskError, UserError
from kernelwright.core.task import Task


@dataclass(frozen=True)
class TaskParcel:
    """A task and what it needs."""

    task: str
    """As JSON, with the driver's paths."""
    pickle: bytes | None = None
    """Of a live module; None: the task is a file's."""

    @classmethod
    def of(cls, task: Task) -> Self:
        """Pack a task; raises TaskError where its pickle cannot be read."""
        text = task.model_dump_json()
        if task.artifact is None:
            return cls(text)
        try:
            return cls(text, Path(task.artifact).read_bytes())
        except OSError as error:
            raise TaskError(f"{task.name}: cannot read {task.artifact} ({error.strerror})") from error

    def unpack(self, folder: Path | None) -> Task:
        """Return the task as this machine can load it. With a module its id is another one than the driver's.

        Args:
            folder: where pickles go; None: none is read here.

        Raises:
            UserError: it is a live module, and none is read here.
            TaskError: the folder cannot be written.
        """
        task = Task.model_validate_json(self.task)
        if self.pickle is None or task.artifact is None:
            return task
        if folder is None:
            raise UserError(
                f"{task.name}: this worker runs strangers' tasks, confined, and a live module cannot be; "
                "write it as a task file"
            )
        # lazy: loads cloudpickle, which drivers do without
        from kernelwright.tasks.pickled import write_pickle

        path = str(write_pickle(task.name, folder, self.pickle))
        source = task.source.replace(repr(task.artifact), repr(path))
        return task.model_copy(update={"source": source, "artifact": path})
