"""The events of a run. The store keeps them; the CLI and the report read them."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from kernelwright.core.blocks import BlockShare, Composition
from kernelwright.core.budget import Spent
from kernelwright.core.closing import ClosedParameters
from kernelwright.core.evaluation import Evaluation, Speedup
from kernelwright.core.evidence import Diagnosis, Evidence
from kernelwright.core.finalists import Alternation
from kernelwright.core.frozen import Frozen
from kernelwright.core.plan import Move, Plan
from kernelwright.core.roofline import Floor
from kernelwright.core.skill import RankedSkill

StepMode: TypeAlias = str
"""Names a kind of step; a recipe says which names it uses and how each is carried out.

In use: ``root`` evaluates the reference, ``seed`` writes seed candidates, ``populate`` fills a population,
``optimize`` makes one move, ``rewrite`` improves without a plan, ``cross`` crosses two plans, ``experiment``
runs designed experiments, ``tune`` times many schedules of one plan, ``repair`` repairs a failing base,
``compose`` puts a whole model together,
``final`` measures the winner again."""


class RunStarted(Frozen):
    kind: Literal["run_started"] = "run_started"
    recipe: str
    team: str


class TaskPrepared(Frozen):
    """The reference ran, was captured, and has a floor (one per workload, in order)."""

    kind: Literal["task_prepared"] = "task_prepared"
    floors: tuple[Floor | None, ...]
    capture_error: str | None = None
    baselines_ms: dict[str, float] = Field(default_factory=dict)
    algebra_gain: float | None = None
    """Arithmetic of the graph over what rewrites leave of it; None: not captured, or not asked for."""


class LoweringGaveUp(Frozen):
    """The compiler generated nothing for a workload, so all of it runs through torch.

    Emitted once for each workload and reason: at step 0 about the module itself, before any move, later about
    a candidate and its moves.
    """

    kind: Literal["lowering_gave_up"] = "lowering_gave_up"
    step: int
    workload: str
    reason: str
    candidate: str | None = None


class StepStarted(Frozen):
    kind: Literal["step_started"] = "step_started"
    step: int
    mode: StepMode
    base: str | None
    """Candidate id the step starts from."""
    reference: str | None = None
    """Second parent; None when there is none."""


class Diagnosed(Frozen):
    kind: Literal["diagnosed"] = "diagnosed"
    step: int
    evidence: Evidence
    diagnosis: Diagnosis
    ranked: tuple[RankedSkill, ...]


class MoveChosen(Frozen):
    kind: Literal["move_chosen"] = "move_chosen"
    step: int
    base: str
    move: Move
    skipped: tuple[str, ...] = ()
    """Moves ranked higher but already tried on this base, with how they ended."""


class MoveFailed(Frozen):
    """The plan could not be carried out; no evaluation was spent."""

    kind: Literal["move_failed"] = "move_failed"
    step: int
    base: str
    move: Move
    reason: str


class Noted(Frozen):
    """A statement of a role that is no move: a pick, a design, a crossed or an aligned plan."""

    kind: Literal["noted"] = "noted"
    step: int
    role: str
    text: str
    candidate: str | None = None
    plan: Plan | None = None


class ParametersClosed(Frozen):
    """What a candidate left open was closed; it is the closed candidate that is handed in."""

    kind: Literal["parameters_closed"] = "parameters_closed"
    step: int
    candidate: str
    """Id of the closed candidate."""
    closing: ClosedParameters


class CandidateWritten(Frozen):
    kind: Literal["candidate_written"] = "candidate_written"
    step: int
    candidate: str


class CandidateEvaluated(Frozen):
    kind: Literal["candidate_evaluated"] = "candidate_evaluated"
    step: int
    candidate: str
    evaluation: Evaluation


class ComparedWithBase(Frozen):
    """A candidate was timed in turn with its base, since their intervals over eager overlap."""

    kind: Literal["compared_with_base"] = "compared_with_base"
    step: int
    candidate: str
    base: str
    alternation: Alternation

    @property
    def speedup(self) -> Speedup | None:
        """How many times as fast the candidate is as its base; None where one of the two failed."""
        return self.alternation.speedup(self.candidate, self.base)


class BaseReplaced(Frozen):
    kind: Literal["base_replaced"] = "base_replaced"
    step: int
    candidate: str
    speedup: float


class IncumbentImproved(Frozen):
    kind: Literal["incumbent_improved"] = "incumbent_improved"
    step: int
    candidate: str
    speedup: float


class FinalistsTimed(Frozen):
    """The fastest of the search were timed in turn with each other, before the final measurement."""

    kind: Literal["finalists_timed"] = "finalists_timed"
    step: int
    alternation: Alternation
    chosen: str
    """Id of the candidate that is measured finally."""
    reason: str
    """Why it and no other, with every ratio and its interval."""


class ModelProfiled(Frozen):
    """Where a whole model's time goes, and which blocks have ended. The last one holds.

    A run that is carried on shares its budget by it, and goes on with the first block that has not ended.
    """

    kind: Literal["model_profiled"] = "model_profiled"
    total_ms: float
    """Of one call of the model, in the process that asked."""
    blocks: tuple[BlockShare, ...]
    """The kind that takes most time first."""


class ModelTakenApart(Frozen):
    """The blocks of a whole model were optimised, and the model was put together in some ways."""

    kind: Literal["model_taken_apart"] = "model_taken_apart"
    before_ms: float
    """Of one call of the model as it was given, by a profile in the process that asked."""
    after_ms: float | None
    """The same with all kernels; None: there is none, or they are for another machine."""
    blocks: tuple[BlockShare, ...]
    """The kind that takes most time first; none: torch.compile of the module beat its kernels."""
    compositions: tuple[Composition, ...]
    """What the referee is asked to judge."""
    note: str = ""
    """Why the model could not be put together; empty where it could."""


class RunFinished(Frozen):
    """``winner`` is None when nothing faster was found: the module stays as it is."""

    kind: Literal["run_finished"] = "run_finished"
    reason: str
    winner: str | None
    evaluation: Evaluation | None
    """The winner's final evaluation in fresh processes."""
    spent: Spent
    answers: dict[str, int] = Field(default_factory=dict)
    """How the model's answers ended, by outcome; empty where no model was asked."""


class RunInterrupted(Frozen):
    """The process was interrupted; the run can be resumed, which does not repeat this event."""

    kind: Literal["run_interrupted"] = "run_interrupted"
    best: str | None
    """The fastest candidate so far that is verified and faster than eager; None if there is none."""


Event = Annotated[
    RunStarted
    | TaskPrepared
    | LoweringGaveUp
    | StepStarted
    | Diagnosed
    | MoveChosen
    | MoveFailed
    | Noted
    | ParametersClosed
    | CandidateWritten
    | CandidateEvaluated
    | ComparedWithBase
    | BaseReplaced
    | IncumbentImproved
    | FinalistsTimed
    | ModelProfiled
    | ModelTakenApart
    | RunFinished
    | RunInterrupted,
    Field(discriminator="kind"),
]
"""One thing that happened, discriminated by ``kind``."""
