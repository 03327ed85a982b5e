"""One recipe on one task, and groups of such runs."""

from enum import StrEnum
from typing import Any

from pydantic import Field, model_validator

from kernelwright.core.budget import Budget
from kernelwright.core.evidence import FactValue
from kernelwright.core.frozen import Frozen
from kernelwright.core.learned import Finding, Passage
from kernelwright.core.machine import Machine, machine_of_environment
from kernelwright.core.models import ModelSettings
from kernelwright.core.plan import ParamValue
from kernelwright.core.policy import Policy
from kernelwright.core.request import RunRequest
from kernelwright.core.target import CPU_CPP, TargetName
from kernelwright.core.task import Task


class RunState(StrEnum):
    """Where a run stands."""

    RUNNING = "running"
    """Started and not ended: at work now, or its process was killed."""
    FINISHED = "finished"
    """Ended with a RunFinished event."""
    FAILED = "failed"
    """The task or the machine was at fault; the record's ``failure`` says how."""


class RunSpec(Frozen):
    """Everything needed to start a run, or to carry on with it elsewhere."""

    task: Task
    target: TargetName = CPU_CPP
    recipe: str
    team: str = "expert"
    models: ModelSettings | None = None
    """Settings of the team's models, prices included; None if no model fills a seat."""
    budget: Budget = Budget()
    policy: Policy = Policy()
    """What counts as a candidate's own; the run's referee is opened with it."""
    seed: int = 0
    baselines: tuple[str, ...] = ("eager", "torch_compile")
    experiment: str | None = None
    """Name of the experiment (a bench) it belongs to."""
    ledger_until: int = 0
    """Id of the last outcome in the ledger when the run began. The run knows no later outcomes of other runs,
    so a resumed run ranks skills as the interrupted one did."""
    archive_until: int = 0
    """Id of the last archived plan when the run began."""
    findings: tuple[Finding, ...] = ()
    """The findings that were admitted when the run began."""
    documents: tuple[Passage, ...] = ()
    """What the user gave the run to read."""
    is_cold: bool = False
    """Begin without memory of other runs, whatever the store holds, as fair comparisons need."""
    machine: Machine = Machine()
    """What candidates are planned for and judged on; of an older record, what ``environment`` says of it."""
    environment: dict[str, FactValue] = Field(default_factory=dict)
    """Processor, versions, threads: what the figures hold for, for a reader."""
    request: RunRequest | None = None
    """What the user asked for, without the store's address; None: the run belongs to an
    experiment, and is of one kernel."""
    by_blocks: bool = False
    """The task is a whole model: its blocks have runs of their own, and this one puts it together."""
    may_compile: bool = False
    """Where torch.compile of the module as it is beats all that was found, that is delivered."""
    folder: str | None = None
    """What relative paths in the request are relative to. Recordings leave it and the request out."""

    @model_validator(mode="before")
    @classmethod
    def _read_older(cls, data: Any) -> Any:
        if not isinstance(data, dict) or "machine" in data or not isinstance(data.get("environment"), dict):
            return data
        target = data.get("target", CPU_CPP)
        kind = (
            target.device
            if isinstance(target, TargetName)
            else str(dict(target).get("device", CPU_CPP.device))
        )
        return {**data, "machine": machine_of_environment(data["environment"], kind)}

    @property
    def is_traced(self) -> bool:
        """Whether spans of the run are asked for."""
        return self.models is not None and self.models.instrument

    @property
    def coder(self) -> str:
        """The team in the Coder's seat, which carries moves out: ``expert`` or ``llm``."""
        base, _, swaps = self.team.partition("+")
        seats = dict(swap.replace(" ", "").partition("=")[::2] for swap in swaps.split(","))
        return seats.get("coder", base.strip())


class Outcome(Frozen):
    """The result of one move in the ledger. A repaired move gets the result of its repair chain."""

    skill: str
    target: str
    structure: str
    """``graph.structure`` of the task."""
    bottleneck: str
    """Diagnosis of the base it was tried on."""
    task_id: str
    run_id: str
    move_key: str
    verified: bool
    log_speedup: float | None = None
    """Natural log of base latency over new latency; None when not verified."""
    expected: str = ""
    coder: str = "expert"
    """Which team's Coder carried it out, ``expert`` or ``llm``: a failure may be the code's and not the
    idea's."""
    params: dict[str, ParamValue] = Field(default_factory=dict)
    """Of the move."""
