"""What runs leave behind for other runs: findings and archived plans."""

from typing import Literal

from pydantic import Field

from kernelwright.core.evidence import FactValue
from kernelwright.core.frozen import Frozen, content_hash
from kernelwright.core.plan import ParamValue, Plan


class Finding(Frozen):
    """One sentence of experience, proposed from a run and admitted only after it has proved itself."""

    text: str
    """What to do where, readable for a person and a prompt."""
    target: str
    skill: str | None = None
    """The skill it is about; None: none of ours."""
    params: dict[str, ParamValue] = Field(default_factory=dict)
    """Values of the skill's parameters that it is about; empty: any."""
    structure: str | None = None
    """``graph.structure`` it was seen on; None: any."""
    bottleneck: str | None = None
    claim: Literal["helps", "does_not_help"] | None = None
    """What it says of ``skill``, as far as measurements decide; None: prose, which only a person admits."""
    taken_from: tuple[str, ...] = ()
    """Ids of the tasks it was drawn from; these never count as proof."""
    state: Literal["proposed", "admitted", "rejected"] = "proposed"
    proof: tuple[str, ...] = ()
    """One line per trial on a task it was not taken from: the task and what was measured."""

    @property
    def id(self) -> str:
        """Content hash of what it says and about what."""
        return content_hash(
            self.text, self.target, self.skill or "", self.structure or "", self.bottleneck or ""
        )


class Passage(Frozen):
    """A part of a document that a user gave to a run: a claim, nothing that was measured here."""

    source: str
    """Where it stands: the document, and the section where there is one."""
    text: str


class ArchivedPlan(Frozen):
    """cuPilot's triple: what a task began with, what it ended with, and the plan that led there."""

    task_id: str
    task_name: str
    target: str
    signature: dict[str, FactValue] = Field(default_factory=dict)
    """Facts of the captured graph that say which tasks are alike, under the names of ``core/evidence.py``."""
    plan: Plan
    initial_source: str
    """Candidate id of the first verified seed."""
    best_source: str
    """Candidate id of the winner."""
    speedup: float
    """Over eager, from the final measurement."""
    run_id: str
