"""The referee of the warm process and the tasks that it holds open."""

import os
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from kernelwright.core.evaluation import Evaluation
from kernelwright.core.policy import Policy
from kernelwright.core.roofline import Floor
from kernelwright.core.task import Task
from kernelwright.delivery.program import DELIVERED
from kernelwright.machine.device_lease import Tell
from kernelwright.machine.topology import total_memory
from kernelwright.referee.device import parse_device
from kernelwright.referee.sandbox.choose import require
from kernelwright.referee.sandbox.processes import family_of, own_bytes
from kernelwright.referee.session.referee import Referee, RefereeSession
from kernelwright.referee.settings import RefereeSettings
from kernelwright.remote.sessions import Sessions
from kernelwright.runs.floors import floors_of
from kernelwright.tasks.counted import CountedWork
from kernelwright.warm.records import WarmQuestion

MAX_OPEN = 3
MEMORY_SHARE = 0.25
"""Of the machine's memory: a task is closed when all processes together hold more."""
MOST_USES = 16
"""Evaluations after which a task is opened anew: samples that many candidates have met are drawn again."""
CLOCK_STEP_NS = 20_000_000
"""By so much the times of files may lag behind the clock."""


@dataclass
class _Known:
    """What is kept of an open task."""

    name: str
    policy: Policy
    counting: "Future[CountedWork]"
    opened_ns: int = field(default_factory=time.time_ns)
    uses: int = 0

    def is_as_it_was(self) -> bool:
        """Tell whether the task's code would read what it did when the task was opened.

        False where that is not known. Work is counted while the task is opened, or after it: what was written
        since then may have been read by one of the two only.
        """
        if self.counting.exception() is not None:
            return False
        counted, before_ns = self.counting.result(), self.opened_ns - CLOCK_STEP_NS
        return counted.holds() and all((stamp.time_ns or 0) < before_ns for stamp in counted.files)


class _Opener:
    """A referee that opens tasks under the policy that is asked for."""

    def __init__(self, settings: RefereeSettings) -> None:
        self.referee = Referee(settings)
        self.policy = settings.policy

    def open(self, task: Task) -> RefereeSession:
        """Admit a task."""
        return self.referee.open(task, self.policy)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.referee.close()


class WarmJudge:
    """Judges one kernel after the other. All but ``abandon`` and ``close`` belong to one thread."""

    def __init__(self, cache_dir: Path, device: str) -> None:
        self._settings = RefereeSettings(cache_dir=cache_dir, device=device, delivered=DELIVERED)
        self._sessions: Sessions[RefereeSession] = Sessions(self._start, max_open=MAX_OPEN)
        self._opener: _Opener | None = None
        self._known: dict[str, _Known] = {}
        self._beside = ThreadPoolExecutor(1)
        self.judged = 0

    @property
    def tasks(self) -> tuple[str, ...]:
        """Names of the tasks that are held open."""
        return tuple(self._known[i].name for i in self._sessions.open_tasks if i in self._known)

    def warm_up(self) -> None:
        """Start the referee without waiting until it is ready."""
        self._sessions.evaluator()

    def judge(self, question: WarmQuestion, tell: Tell) -> Evaluation:
        """Return the verdict.

        Raises:
            UserError: the sandbox is weaker than the question requires, or there is no such baseline.
            TaskError, MachineError: as the referee does.
        """
        self._sessions.evaluator()
        assert self._opener is not None
        referee, task, asked = self._opener.referee, question.task, question.evaluation
        referee.tell, self._opener.policy = tell, question.policy
        require(referee.sandbox, question.require_sandbox)
        counting = self._look(referee, task, question.policy)
        with self._sessions.use(task) as session:
            evaluation = session.evaluate(
                asked.candidate,
                final=asked.final,
                floors=partial(self._floors, counting),
                baselines=asked.baselines,
            )
        self.judged += 1
        self._forget_much()
        return evaluation

    def abandon(self) -> None:
        """Have the evaluation that is under way end soon; its verdict is of no account."""
        if self._opener is not None:
            self._opener.referee.abandon()

    def close(self) -> None:
        """End the referee with all its processes."""
        self._sessions.close()
        self._beside.shutdown(wait=False, cancel_futures=True)

    def _start(self) -> _Opener:
        self._opener = _Opener(self._settings)
        self._known.clear()
        return self._opener

    def _look(self, referee: Referee, task: Task, policy: Policy) -> "Future[CountedWork]":
        """Count the task's work where it is not known; close a task that must be opened anew."""
        known = self._known.get(task.id)
        if known is None or known.uses >= MOST_USES or known.policy != policy or not known.is_as_it_was():
            self._forget(task.id)
            known = _Known(task.name, policy, self._beside.submit(referee.count_work, task))
            self._known[task.id] = known
        known.uses += 1
        return known.counting

    def _floors(self, counting: "Future[CountedWork]") -> dict[str, Floor]:
        place = parse_device(self._settings.device)
        return floors_of(counting.result(), place.kind, self._settings.cache_dir, index=place.index)

    def _forget_much(self) -> None:
        """Close the tasks used longest ago while all processes together hold too much memory."""
        limit = MEMORY_SHARE * (total_memory() or 0)
        while self._sessions.open_tasks and sum(map(own_bytes, family_of(os.getpid()))) > limit:
            self._forget(self._sessions.open_tasks[0])
        for task_id in self._known.keys() - set(self._sessions.open_tasks):
            del self._known[task_id]

    def _forget(self, task_id: str) -> None:
        self._known.pop(task_id, None)
        self._sessions.forget(task_id)
