"""The engine's evaluator, where the referee is behind ``kernelwright serve``."""

import contextlib
import time
import uuid
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import KernelwrightError, MachineError, TaskError
from kernelwright.core.evaluation import Evaluation
from kernelwright.core.machine import Machine
from kernelwright.core.roofline import Floor
from kernelwright.core.task import Task
from kernelwright.remote.http import Http, refusal, require_url
from kernelwright.remote.portable import require_portable
from kernelwright.remote.records import EvaluationAnswer, EvaluationRequest, JobState, TaskAnswer
from kernelwright.remote.retry import Patience

MAX_RESENDS = 5
"""How often a request that the service has forgotten (a restart) is sent again; our choice."""


class RemoteEvaluator:
    """Judges candidates through a service; satisfies the engine's ``Evaluator``."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        patience: Patience | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Remember where; nothing is sent. Raises UserError when the URL is none."""
        require_url(url)
        self._url, self._token = url, token
        self._patience, self._sleep = patience or Patience(), sleep

    def machine(self) -> Machine | None:
        """Return the machine on which the service judges, None where it does not say.

        Raises:
            UserError: wrong or missing token.
            MachineError: no service there, or one of another version.
        """
        http = Http(self._url, self._token, patience=self._patience, sleep=self._sleep)
        try:
            http.require_service()
            answer = http.send("GET", "/machine")
            if answer.status_code == 404:
                return None
            if answer.status_code != 200:
                raise http.unexpected(answer)
            return http.parse(answer, Machine)
        finally:
            http.close()

    def open(self, task: Task) -> "RemoteSession":
        """Send a task and wait until it is admitted.

        Raises:
            TaskError: the service refuses the task, or it is a live module, whose pickle stays here.
            UserError: wrong or missing token, or the task is too large for the service.
            MachineError: no service there, or it failed.
        """
        require_portable(task)
        http = Http(self._url, self._token, patience=self._patience, sleep=self._sleep)
        try:
            http.require_service()
            return RemoteSession(http, task, self._patience)
        except BaseException:
            http.close()
            raise


class RemoteSession:
    """One admitted task. Use as a context manager; not safe for use by two threads."""

    def __init__(self, http: Http, task: Task, patience: Patience) -> None:
        self.task = task
        self._http, self._patience = http, patience
        self._attempt = uuid.uuid4().hex
        self._baseline_ms = self._admit()

    @property
    def baseline_ms(self) -> Mapping[str, float]:
        """Eager latency per workload on the service's machine, as seen at admission."""
        return self._baseline_ms

    def evaluate(
        self,
        candidate: Candidate,
        *,
        final: bool = False,
        floors: Mapping[str, Floor] | None = None,
        baselines: tuple[str, ...] = ("eager",),
    ) -> Evaluation:
        """Return the service's verdict.

        The same candidate again in this session is the same evaluation, not measured again, as long as the
        service remembers it. A lost connection, or a service that was started anew, goes unnoticed.

        Raises:
            TaskError: the reference failed.
            UserError: wrong token, or the candidate is too large for the service.
            MachineError: the service failed, was lost, or took too long.
        """
        request = EvaluationRequest(
            task_id=self.task.id,
            candidate=candidate,
            final=final,
            floors=dict(floors or {}),
            baselines=tuple(baselines),
            attempt=self._attempt,
        )
        evaluation_id = self._submit(request)
        try:
            answer = self._await(evaluation_id, request)
        except KeyboardInterrupt:
            self._cancel(evaluation_id)
            raise
        return self._verdict(answer, candidate)

    def close(self) -> None:
        """Close the connection; the service keeps the task as long as it sees fit."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        self.close()

    def _admit(self) -> dict[str, float]:
        deadline = time.monotonic() + self._patience.evaluation_s
        while time.monotonic() < deadline:
            answer = self._http.send("POST", "/tasks", self.task)
            if answer.status_code == 422:
                raise TaskError(refusal(answer))
            if answer.status_code not in (200, 202):
                raise self._http.unexpected(answer)
            admitted = self._http.parse(answer, TaskAnswer)
            if admitted.task_id != self.task.id:
                raise MachineError("the service speaks of another task; is it the same version?")
            if admitted.state is JobState.DONE:
                return admitted.baseline_ms
            self._http.rest()
        raise MachineError(f"{self.task.name}: not admitted after {self._patience.evaluation_s:.0f} s")

    def _submit(self, request: EvaluationRequest) -> str:
        for _ in range(MAX_RESENDS):
            answer = self._http.send("POST", "/evaluations", request)
            if answer.status_code == 202:
                return self._http.parse(answer, EvaluationAnswer).id
            if answer.status_code != 404:
                raise self._http.unexpected(answer)
            self._admit()  # a service that was started anew, or has admitted many others since
        raise MachineError(
            "the service forgets the task again and again: too many other tasks are admitted there; try again"
            " when it is quieter"
        )

    def _await(self, evaluation_id: str, request: EvaluationRequest) -> EvaluationAnswer:
        deadline = time.monotonic() + self._patience.evaluation_s
        n_forgotten = 0
        while time.monotonic() < deadline:
            path = f"/evaluations/{evaluation_id}?wait={self._patience.poll_s:g}"
            response = self._http.send("GET", path)
            if response.status_code == 404 and n_forgotten < MAX_RESENDS:
                n_forgotten += 1
                evaluation_id = self._submit(request)
                continue
            if response.status_code != 200:
                raise self._http.unexpected(response)
            answer = self._http.parse(response, EvaluationAnswer)
            if answer.state.is_settled:
                return answer
            self._http.rest()
        self._cancel(evaluation_id)
        raise MachineError(f"no verdict after {self._patience.evaluation_s:.0f} s; the queue is too long")

    def _cancel(self, evaluation_id: str) -> None:
        with contextlib.suppress(KernelwrightError):
            self._http.send("DELETE", f"/evaluations/{evaluation_id}", lost_s=0.0)

    def _verdict(self, answer: EvaluationAnswer, candidate: Candidate) -> Evaluation:
        if answer.problem is not None:
            kind = TaskError if answer.problem.kind == "task" else MachineError
            raise kind(answer.problem.line)
        if answer.state is JobState.CANCELLED:
            raise MachineError(f"evaluation {answer.id} was cancelled at the service")
        evaluation, ours = answer.evaluation, (self.task.id, candidate.id)
        if evaluation is None or (evaluation.task_id, evaluation.candidate_id) != ours:
            raise MachineError(f"evaluation {answer.id} is of something else; is the service of our version?")
        return evaluation
