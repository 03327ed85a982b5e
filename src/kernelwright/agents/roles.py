"""The seats of a team. Recipes and the engine know these protocols, never who sits there."""

from dataclasses import dataclass
from typing import Protocol

from kernelwright.agents.problem import Problem
from kernelwright.core.candidate import Candidate
from kernelwright.core.evaluation import Evaluation
from kernelwright.core.evidence import Diagnosis, Evidence
from kernelwright.core.plan import Move
from kernelwright.core.skill import RankedSkill
from kernelwright.memory.short_term import ShortTermMemory
from kernelwright.skills.stats import LedgerView


@dataclass(frozen=True)
class Analysis:
    """What the Analyst found out about a base."""

    evidence: Evidence
    diagnosis: Diagnosis
    ranked: tuple[RankedSkill, ...]


@dataclass(frozen=True)
class Choice:
    """The Planner's next move and what it passed over because this run knows how it ends."""

    move: Move
    skipped: tuple[str, ...] = ()


class Generator(Protocol):
    """Writes the first candidates."""

    def seeds(self, problem: Problem) -> tuple[Candidate, ...]:
        """Return seeds, correctness first; the engine evaluates all of them."""
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

    def plan(
        self, problem: Problem, base: Candidate, analysis: Analysis, memory: ShortTermMemory
    ) -> Choice | None:
        """Return exactly one move that was not tried on this base; None when none is left."""
        ...


class Coder(Protocol):
    """Turns a base and one more move into source."""

    def write(self, problem: Problem, base: Candidate, move: Move) -> Candidate:
        """Return the new candidate; raises LoweringError when the move cannot be carried out."""
        ...


class Debugger(Protocol):
    """Diagnoses a failing candidate and repairs it with the smallest change."""

    def repair(
        self, problem: Problem, failing: Candidate, evaluation: Evaluation, tried: tuple[str, ...]
    ) -> tuple[Candidate, Move] | None:
        """Return a repaired candidate and what was changed; None when out of ideas.

        ``tried`` holds the keys of the repairs that this chain has used up.
        """
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
