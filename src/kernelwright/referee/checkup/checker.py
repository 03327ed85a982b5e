"""Examines tasks in processes of their own, check by check."""

import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Self

from kernelwright.core.checkup import NOT_CHECKED, Checkup, Flag, Severity, worst_of
from kernelwright.core.errors import TaskError
from kernelwright.core.task import Literal_, Task, Workload
from kernelwright.referee.session.host_process import HostProcess
from kernelwright.referee.session.input_samples import new_seed
from kernelwright.referee.session.launcher import ChildLate, Launcher
from kernelwright.referee.settings import RefereeSettings

CHECKS = (
    "contract", "finiteness", "repeatability", "triviality", "deadness", "precision", "collapse",
    "redundancy", "algebra", "smallness",
)  # fmt: skip
"""Names in ``checkup/battery.py``, which loads torch and is therefore not imported here."""
CONCLUSIVE = frozenset(("contract", "finiteness", "repeatability"))
"""When one of these checks finds a task unusable, the other checks are skipped."""


class Checker:
    """Examines tasks. Starts the zygote from which the examining processes are forked; a context manager."""

    def __init__(self, settings: RefereeSettings) -> None:
        self._settings = settings
        self._launcher = Launcher(settings)
        self._launcher.start()

    def check(
        self,
        task: Task,
        *,
        sizes: dict[str, Literal_] | None = None,
        on_check: Callable[[str], None] = lambda name: None,
    ) -> Checkup:
        """Examine a task on every workload.

        Args:
            task: What to examine. Runs its reference as the referee would.
            sizes: Globals that were reduced beforehand, for the record.
            on_check: Called with the name of each check when it begins.

        A task that cannot be run gets a single flag that says so. Raises MachineError when a process cannot
        be started.
        """
        started = time.perf_counter()
        flags = [flag for workload in task.workloads for flag in self._flags(task, workload, on_check)]
        return Checkup(
            task=task.name,
            task_id=task.id,
            path=task.path,
            sizes=sizes or {},
            flags=tuple(flags),
            seconds=time.perf_counter() - started,
        )

    def _flags(self, task: Task, workload: Workload, on_check: Callable[[str], None]) -> Iterator[Flag]:
        host = HostProcess(self._launcher, self._settings, task, workload)
        try:
            host.call("open", task=task.model_dump_json(), workload=workload.model_dump_json())
            size = host.call("size")
            if None not in size.values():
                host.check_memory(size["inputs"], size["outputs"], size["state"])
            for name in CHECKS:
                on_check(name)
                reply = host.call("check", name=name, seed=new_seed())
                flags = [Flag.model_validate(flag) for flag in reply["flags"]]
                yield from flags
                if name in CONCLUSIVE and worst_of(flags) is Severity.UNUSABLE:
                    return
        except TaskError as error:
            yield _cannot_run(error, workload)
        finally:
            host.child.kill()

    def close(self) -> None:
        """End every process."""
        self._launcher.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _cannot_run(error: TaskError, workload: Workload) -> Flag:
    is_late = isinstance(error.__cause__, ChildLate)
    return Flag(
        check=NOT_CHECKED if is_late else "cannot-run",
        severity=Severity.DOUBTFUL if is_late else Severity.UNUSABLE,
        says=" ".join(str(error).split()),
        advice="check it at smaller sizes" if is_late else "correct the file, or check it at other sizes",
        workload=workload.name,
    )
