"""What crosses the wire, in both directions; docs/serve.md shows it as JSON."""

from enum import StrEnum
from typing import Literal

from pydantic import Field

from kernelwright.core.candidate import Candidate
from kernelwright.core.evaluation import Evaluation
from kernelwright.core.frozen import Frozen, content_hash
from kernelwright.core.roofline import Floor


class JobState(StrEnum):
    """How far a request has come; the last three are for good."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    """We, the machine or the task failed, never the candidate: that would be a status."""
    CANCELLED = "cancelled"

    @property
    def is_settled(self) -> bool:
        """True when it will not change any more."""
        return self in (JobState.DONE, JobState.FAILED, JobState.CANCELLED)


class RequestProblem(Frozen):
    """Why something failed, in one line."""

    kind: Literal["task", "machine", "user"]
    """``task``: the reference is at fault, another attempt will fail too; ``user``: what was asked for is."""
    line: str


class EvaluationRequest(Frozen):
    """Body of ``POST /evaluations``."""

    task_id: str
    candidate: Candidate
    final: bool = False
    floors: dict[str, Floor] = Field(default_factory=dict)
    """Workload -> floor. Only its ``work`` counts: the service takes its own machine's peaks."""
    baselines: tuple[str, ...] = ("eager",)
    attempt: str = Field(default="", max_length=100)
    """Any text: the same content under another one is measured again."""

    def id_for(self, client: str) -> str:
        """Return the evaluation's id: the same for the same content from the same client."""
        floors = (f"{name}={floor.model_dump_json()}" for name, floor in sorted(self.floors.items()))
        kind = "final" if self.final else "search"
        parts = (client, self.task_id, self.candidate.id, kind, self.attempt)
        return content_hash("evaluation", *parts, str(len(self.floors)), *floors, *self.baselines)


class EvaluationAnswer(Frozen):
    """Body of every answer about one evaluation."""

    id: str
    state: JobState
    ahead: int | None = None
    """Requests to be carried out before this one; None when it is not waiting."""
    evaluation: Evaluation | None = None
    """Present exactly when the state is ``done``."""
    problem: RequestProblem | None = None
    """Present exactly when the state is ``failed``."""


class TaskAnswer(Frozen):
    """Body of the answer to ``POST /tasks``."""

    task_id: str
    state: JobState
    """``done``: admitted. ``queued`` or ``running``: send the same task again to wait on."""
    baseline_ms: dict[str, float] = Field(default_factory=dict)
    """Workload -> eager latency as seen at admission; empty before the state is ``done``."""


class Health(Frozen):
    """Body of the answer to ``GET /health``."""

    service: Literal["kernelwright"] = "kernelwright"
    version: str
    queued: int
    """Requests that wait."""
    running: int
    """Requests being carried out: 0 or 1, since timings must not overlap."""
    gpu: str = ""
    """Model of the GPU that candidates are judged on, by our tables, else by its driver; empty: unknown."""


class Refusal(Frozen):
    """Body of every answer with an HTTP status of 400 and above."""

    error: str
    """One line: what, and what to do next."""
