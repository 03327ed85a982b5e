"""The one referee of a service and the few tasks it holds open."""

import contextlib
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from typing import Generic, Protocol, TypeVar

from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import TaskError
from kernelwright.core.evaluation import Evaluation
from kernelwright.core.roofline import Floor
from kernelwright.core.task import Task
from kernelwright.runs.evaluator import Session

log = logging.getLogger(__name__)
AnySession = TypeVar("AnySession", bound=Session)
Opened = TypeVar("Opened", bound=Session, covariant=True)


class Opens(Protocol[Opened]):
    """An evaluator of which more is known than that its sessions judge."""

    def open(self, task: Task) -> Opened:
        """Admit a task."""
        ...


class Sessions(Generic[AnySession]):
    """Opens tasks on demand and closes the one that was not used for longest.

    An open task holds a process and gigabytes of inputs, hence few. Not safe for use by two threads. After
    anything but a verdict or a task's own fault the referee is thrown away and a new one is started.
    """

    def __init__(
        self, start: Callable[[], AbstractContextManager[Opens[AnySession]]], *, max_open: int = 2
    ) -> None:
        """Start nothing yet; ``start`` returns a fresh referee. Two open tasks: ours."""
        self._start = start
        self._max_open = max_open
        self._open: OrderedDict[str, tuple[AnySession, ExitStack]] = OrderedDict()
        self._referee: Opens[AnySession] | None = None
        self._referee_end = ExitStack()

    def admit(self, task: Task) -> dict[str, float]:
        """Open a task and return its eager latency per workload; raises TaskError, MachineError."""
        with self._watch(task):
            return dict(self._session(task).baseline_ms)

    def evaluate(
        self,
        task: Task,
        candidate: Candidate,
        *,
        final: bool,
        floors: Mapping[str, Floor],
        baselines: tuple[str, ...],
    ) -> Evaluation:
        """Judge a candidate, opening the task first where needed; raises TaskError, MachineError."""
        with self.use(task) as session:
            return session.evaluate(candidate, final=final, floors=floors, baselines=baselines)

    @contextlib.contextmanager
    def use(self, task: Task) -> Iterator[AnySession]:
        """Give the task's session, opening it first where needed; raises TaskError, MachineError."""
        with self._watch(task):
            yield self._session(task)

    def evaluator(self) -> Opens[AnySession]:
        """Return the referee, started where there is none."""
        if self._referee is None:
            self._referee = self._referee_end.enter_context(self._start())
        return self._referee

    def forget(self, task_id: str) -> None:
        """Close a task where it is open."""
        self._close_task(task_id)

    @property
    def open_tasks(self) -> tuple[str, ...]:
        """Ids of the tasks that are held open, the one used last at the end."""
        return tuple(self._open)

    def close(self) -> None:
        """Close every task and end the referee with its processes."""
        try:
            self._close_tasks()
        finally:
            self._open.clear()
            self._referee = None
            self._referee_end.close()

    @contextlib.contextmanager
    def _watch(self, task: Task) -> Iterator[None]:
        try:
            yield
        except TaskError:
            self._close_task(task.id)
            raise
        except BaseException:
            self._close_quietly()
            raise

    def _session(self, task: Task) -> AnySession:
        if task.id in self._open:
            self._open.move_to_end(task.id)
            return self._open[task.id][0]
        while len(self._open) >= self._max_open:
            self._close_task(next(iter(self._open)))
        try:
            session, end = self._open_task(task)
        except TaskError:
            if not self._open:
                raise
            self._close_tasks()  # "too large" may mean: beside the others
            session, end = self._open_task(task)
        self._open[task.id] = session, end
        return session

    def _open_task(self, task: Task) -> tuple[AnySession, ExitStack]:
        end = ExitStack()
        session = self.evaluator().open(task)
        end.enter_context(session)
        return session, end

    def _close_task(self, task_id: str) -> None:
        if task_id in self._open:
            self._open.pop(task_id)[1].close()

    def _close_tasks(self) -> None:
        for task_id in list(self._open):
            self._close_task(task_id)

    def _close_quietly(self) -> None:
        try:
            self.close()
        except Exception:  # the border: what led here is what the caller must see
            log.exception("the referee could not be closed")
