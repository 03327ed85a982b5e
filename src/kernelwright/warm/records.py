"""What crosses the warm referee's socket, one JSON document a line in both directions."""

from typing import Literal

from kernelwright.core.frozen import Frozen
from kernelwright.core.options import SandboxTier
from kernelwright.core.policy import Policy
from kernelwright.core.task import Task
from kernelwright.remote.records import EvaluationAnswer, EvaluationRequest

MAX_LINE = 64 << 20
"""Bytes of a line; sources, and floors of many workloads, are far shorter."""


class WarmStart(Frozen):
    """What the process is started with."""

    identity: str
    cache_dir: str
    device: str
    idle_s: float


class WarmQuestion(Frozen):
    """One kernel to be judged."""

    task: Task
    evaluation: EvaluationRequest
    """Its floors are not read: the warm referee makes its own."""
    policy: Policy = Policy()
    require_sandbox: SandboxTier | None = None


class WarmRequest(Frozen):
    """One line from a client."""

    what: Literal["judge", "show", "end"]
    identity: str = ""
    """Of the client; only ``judge`` needs it."""
    idle_s: float | None = None
    """How long the process is to stay from now on when nobody asks; None: as before."""
    question: WarmQuestion | None = None


class WarmState(Frozen):
    """What there is to know of a warm referee."""

    pid: int
    version: str
    started: float
    """Seconds since 1970."""
    idle_s: float
    tasks: tuple[str, ...]
    """Names of the tasks that are held open."""
    judged: int
    running: int
    queued: int


class WarmReply(Frozen):
    """One line to a client."""

    is_other: bool = False
    """The process is of another identity, and judges nothing for this client."""
    said: str = ""
    """What the evaluation waits for."""
    answer: EvaluationAnswer | None = None
    state: WarmState | None = None
