"""What a driver and its workers say to each other; every record travels as JSON."""

from pydantic import Field

from kernelwright.core.closing import ClosedParameters
from kernelwright.core.digest import content_digest
from kernelwright.core.finalists import Alternation
from kernelwright.core.frozen import Frozen, content_hash
from kernelwright.core.machine import Machine
from kernelwright.core.policy import Policy
from kernelwright.core.roofline import Floor
from kernelwright.core.version import __version__
from kernelwright.remote.records import RequestProblem


class WorkerOrder(Frozen):
    """How a worker is to judge."""

    bring: str
    """``MODULE:FUNCTION`` on the worker that takes this order and returns a ``WorkerSetup``."""
    device: str
    """Kind of device, e.g. ``cpu``."""
    policy: Policy = Policy()
    require_sandbox: str | None = None
    confine_tasks: bool = False
    argument: str = ""
    """For ``bring``; the real one needs none."""


class WorkerVersion(Frozen):
    """Which Kernelwright runs on a worker."""

    version: str
    digest: str
    """Hash over the text of its modules."""

    @classmethod
    def here(cls) -> "WorkerVersion":
        """Return what runs in this process."""
        return cls(version=__version__, digest=content_digest())


class Beginning(Frozen):
    """What a worker is, once it is ready to judge."""

    machine: Machine | None = None
    card: str = ""
    """The GPU that the cluster gave it, as the cluster calls it; empty: it has none."""
    problem: RequestProblem | None = None


class Admission(Frozen):
    """What became of a task."""

    baseline_ms: dict[str, float] = Field(default_factory=dict)
    problem: RequestProblem | None = None


class FleetQuestion(Frozen):
    """How a candidate is to be judged; the task and the candidate travel as values of their own."""

    task_id: str
    candidate_id: str
    final: bool = False
    floors: dict[str, Floor] = Field(default_factory=dict)
    """Workload -> floor. Only its ``work`` counts where the worker knows its peaks."""
    baselines: tuple[str, ...] = ("eager",)
    attempt: str = ""
    """Any text: the same question under another one is measured again."""

    @property
    def id(self) -> str:
        """Hash over all of it: a question that is asked again has the same."""
        return content_hash("question", self.model_dump_json())


class AlternationRequest(Frozen):
    """How finalists, which travel as values of their own, are to be timed in turn."""

    limit_s: float | None = None


class AlternationAnswer(Frozen):
    """How they were timed; neither: that cannot be measured there, or not in the time."""

    alternation: Alternation | None = None
    problem: RequestProblem | None = None


class ClosingAnswer(Frozen):
    """What cheap timings made of what a candidate leaves open; neither: nobody times points there."""

    closing: ClosedParameters | None = None
    problem: RequestProblem | None = None
