"""Everything a prompt may draw on: the situation, the skills, and what the role itself adds."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kernelwright.agents.problem import Problem
from kernelwright.agents.roles import Node, Situation
from kernelwright.core.plan import Move, Plan
from kernelwright.core.skill import Skill


@dataclass(frozen=True)
class PromptInput:
    """Input of every section in ``guidance.SECTIONS``."""

    situation: Situation
    skills: Mapping[str, Skill] = field(default_factory=dict)
    plan: Plan = field(default_factory=Plan)
    """What is to be carried out, or to be compared with the source."""
    anchored: str | None = None
    """The base's source with the spans to change marked."""
    menu: Mapping[str, Move] = field(default_factory=dict)
    """Label -> move that may be taken as it is."""
    only_menu: bool = False
    """Nothing else can be carried out, so no other skill is shown."""
    source: str = ""
    """A source that is no base."""
    cause: str = ""
    """The Diagnoser's words, for the Repairer."""
    earlier: tuple[str, ...] = ()
    """Sources that the same question has given already, which the answer is to differ from."""
    reads_skills: bool = False
    """The model may ask for a skill's full text before it answers, so prompts hold the summaries alone."""
    refused: str = ""
    """Why the last answer to this prompt was not used."""

    @property
    def problem(self) -> Problem:
        """The task at hand."""
        return self.situation.problem

    @property
    def base(self) -> Node | None:
        """What is to be changed."""
        return self.situation.base
