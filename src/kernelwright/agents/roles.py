"""The seats of a team. Recipes and the engine know these protocols, never who sits there.

Every role is given a Situation and returns data. What a role cannot do is an answer too: None or an empty
tuple when there is nothing left to do; LoweringError from a Coder when a move cannot be carried out, which
the engine records as a failed move; UnusableAnswer from any role that is a model and gave nothing usable,
which ends the step.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kernelwright.agents.problem import Problem
from kernelwright.core.candidate import Candidate
from kernelwright.core.closing import ClosedParameters
from kernelwright.core.evaluation import Evaluation, Speedup
from kernelwright.core.evidence import Diagnosis, Evidence
from kernelwright.core.learned import ArchivedPlan, Finding, Passage
from kernelwright.core.plan import Move, Plan
from kernelwright.core.skill import RankedSkill
from kernelwright.memory.short_term import ShortTermMemory
from kernelwright.skills.stats import EmptyLedger, LedgerView

ANCHORING = "planner:anchors"
"""The Planner's seat where it marks the spans to change, which no answer of the Coder's can hold."""


@dataclass(frozen=True)
class Analysis:
    """What the Analyst found out about a base."""

    evidence: Evidence
    diagnosis: Diagnosis
    ranked: tuple[RankedSkill, ...]


@dataclass(frozen=True)
class Node:
    """A candidate of the run with its verdict, as another role may see it."""

    candidate: Candidate
    evaluation: Evaluation
    relation: str
    """To the base: ``base``, ``reference``, ``root``, ``child``, ``sibling``, ``nephew``, ``leader``,
    ``other parent`` (of what is to be written), ``member`` (of a population)."""
    closing: ClosedParameters | None = None
    """How what it left open was closed; None where it left nothing open."""
    over_base: Speedup | None = None
    """How many times as fast it is as its base, whose id is the ``baseline``; None: not timed in turn."""


@dataclass(frozen=True)
class Situation:
    """All that a role is told. Which nodes are in the window is the recipe's choice, not the role's."""

    problem: Problem
    base: Node | None = None
    """What to start from or to repair; None before the first seed."""
    analysis: Analysis | None = None
    """Of the base; of a failing one, that of the kernel it was made from. None where that was not analysed
    either, or when the recipe works on timings alone."""
    eager_ms: Mapping[str, float] = field(default_factory=dict)
    """Workload -> latency of the reference as PyTorch runs it."""
    window: tuple[Node, ...] = ()
    run: tuple[Node, ...] = ()
    """Every kernel that this run has evaluated, in order; for what a role may know, not for what it may
    choose."""
    memory: ShortTermMemory = field(default_factory=ShortTermMemory)
    """What this run tried on each base and how it ended."""
    ledger: LedgerView = field(default_factory=EmptyLedger)
    """What was measured of each skill over all runs."""
    findings: tuple[Finding, ...] = ()
    """Admitted ones that fit the task."""
    archive: tuple[ArchivedPlan, ...] = ()
    """Plans of tasks like this one, most alike first."""
    passages: tuple[Passage, ...] = ()
    """Of the user's documents, most fitting first: claims, nothing that was measured."""
    chance: int = 0
    """Differs from step to step and from seed to seed; roles that draw lots start their generator with it."""
    has_short_term: bool = True
    """False in an ablation: ``memory`` is empty whatever was tried, and the Planner draws among its moves."""
    has_long_term: bool = True
    """False in an ablation: no skill is recommended. The expert draws lots among the moves it can make, a
    model is told of no skills."""
    wants_anchors: bool = False
    """True where the Planner marks the spans to change in the base's source (STARK)."""
    timings_only: bool = False
    """True where the recipe has nothing but latencies (GPU Kernel Scientist)."""
    is_tuned: bool = False
    """Cheap timings choose schedules here: nothing that differs by a schedule alone is worth a verdict."""
    needed: float | None = None
    """Times as fast that a move must promise to make the base; None: whatever it promises."""
    evaluations_left: int | None = None
    """Candidates that the budget still allows to evaluate; None: any number."""
    evaluated: frozenset[str] = frozenset()
    """Ids of all candidates that this run has evaluated: to write one of them again is in vain."""
    is_independent: bool = False
    """True where no seed may be told of another (best of N)."""


@dataclass(frozen=True)
class Choice:
    """The Planner's next move and what it passed over because this run knows how it ends."""

    move: Move
    skipped: tuple[str, ...] = ()
    anchored: str | None = None
    """The base's source with the spans to change marked (STARK); None when the plan marks none."""
    source: str | None = None
    """The kernel that carries the move out, where the same answer held both; the Coder then asks nobody."""
    call: str = ""
    """Key of the answer that held the source (see Candidate.call)."""
    further: tuple["Choice", ...] = ()
    """Other moves on the same base, each with its kernel, that the same answer held."""


@dataclass(frozen=True)
class Pick:
    """The Selector's choice (GPU Kernel Scientist)."""

    base: str
    """Candidate id; usually the best over all workloads."""
    reference: str
    """Candidate id of an informative contrast; may equal the base when there is nothing else."""
    why: str


@dataclass(frozen=True)
class Experiment:
    """One of the Designer's proposals, rated by the Designer itself."""

    move: Move
    gain_low: float
    """Least expected gain, as a fraction of the latency: 0.1 is ten per cent."""
    gain_high: float
    innovation: float
    """0 (routine) to 1 (never seen)."""


@dataclass(frozen=True)
class Design:
    """The Designer's answer: avenues only widen the thinking; experiments may be run."""

    avenues: tuple[str, ...]
    experiments: tuple[Experiment, ...]


class Generator(Protocol):
    """Writes the first candidates."""

    def root(self, problem: Problem) -> Candidate:
        """Return the reference as a candidate: what a tree of attempts grows from."""
        ...

    def seeds(self, situation: Situation, count: int) -> tuple[Candidate, ...]:
        """Return up to ``count`` different seeds, correctness first; the engine evaluates all of them."""
        ...


class Analyst(Protocol):
    """Turns measurements into a diagnosis and a ranked list of skills."""

    def analyse(
        self, problem: Problem, base: Candidate, evaluation: Evaluation, ledger: LedgerView
    ) -> Analysis:
        """Return evidence, diagnosis and ranking for a verified base."""
        ...


class Planner(Protocol):
    """Chooses one move."""

    def plan(self, situation: Situation) -> Choice | None:
        """Return exactly one move that was not tried on this base; None when none is left.

        A choice with a kernel may have ``further`` ones.
        """
        ...


class Coder(Protocol):
    """Turns a base and a plan into source."""

    def expect(self, situation: Situation, coming: Sequence[Plan]) -> None:
        """Prepare for what ``translate`` will be asked about this situation, in this order."""
        ...

    def write(self, situation: Situation, choice: Choice) -> Candidate:
        """Return the base with one more move; raises LoweringError when it cannot be carried out."""
        ...

    def translate(self, situation: Situation, plan: Plan) -> Candidate:
        """Return a candidate that carries out a whole plan; raises LoweringError (cuPilot)."""
        ...

    def rewrite(self, situation: Situation, count: int) -> tuple[Candidate, ...]:
        """Return up to ``count`` different improvements, or repairs, of the base, without a plan of
        another role; empty when there is none (FSR, best-of-N, refine)."""
        ...


class Debugger(Protocol):
    """Diagnoses a failing candidate and repairs it with the smallest change."""

    def repair(self, situation: Situation, tried: tuple[str, ...]) -> tuple[Candidate, Move] | None:
        """Return a repaired candidate and what was changed; None when out of ideas.

        ``tried`` holds the keys of the repairs that this chain has used up.
        """
        ...


class Selector(Protocol):
    """Picks what to experiment on from a table of timings."""

    def select(self, situation: Situation) -> Pick | None:
        """Return base and reference among the verified nodes of the window; None when there is none.

        Only a ``member`` may be the base; one that has no experiment left is shown as a ``reference``.
        """
        ...


class Designer(Protocol):
    """Thinks up experiments."""

    def design(self, situation: Situation, avenues: int, experiments: int) -> Design:
        """Return up to that many of each; the base is the Selector's, its reference is in the window."""
        ...


class Breeder(Protocol):
    """Makes plans from plans, without seeing any source (cuPilot)."""

    def recall(self, situation: Situation, count: int) -> tuple[Plan, ...]:
        """Return up to ``count`` different plans that served tasks like this one; none without an archive."""
        ...

    def populate(self, situation: Situation, count: int) -> tuple[Plan, ...]:
        """Return up to ``count`` different plans for a first population, archived ones among them."""
        ...

    def cross(self, situation: Situation, first: Plan, second: Plan) -> Plan | None:
        """Return a plan made of both; None when it can only repeat one of them."""
        ...


class Aligner(Protocol):
    """Says what a source really does, whatever its plan announced (cuPilot)."""

    def align(self, situation: Situation, candidate: Candidate) -> Plan:
        """Return the plan that the source carries out."""
        ...


@dataclass(frozen=True)
class Team:
    """One agent per seat."""

    name: str
    generator: Generator
    analyst: Analyst
    planner: Planner
    coder: Coder
    debugger: Debugger
    selector: Selector
    designer: Designer
    breeder: Breeder
    aligner: Aligner
    calls: Mapping[str, int] = field(default_factory=dict, kw_only=True)
    """Seat, or ``ANCHORING`` -> requests to models that it makes before there is a kernel to judge; none
    where it is not named."""
