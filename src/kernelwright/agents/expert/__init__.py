"""The deterministic team: plans by the gate and the ledger, writes by lowering the plan."""

from collections.abc import Callable
from dataclasses import dataclass

from kernelwright.agents.expert.aligner import ExpertAligner
from kernelwright.agents.expert.analyst import ExpertAnalyst
from kernelwright.agents.expert.breeder import ExpertBreeder
from kernelwright.agents.expert.coder import ExpertCoder
from kernelwright.agents.expert.debugger import ExpertDebugger
from kernelwright.agents.expert.designer import ExpertDesigner
from kernelwright.agents.expert.generator import ExpertGenerator
from kernelwright.agents.expert.plan_lowering import PlanLowering
from kernelwright.agents.expert.planner import ExpertPlanner
from kernelwright.agents.expert.selector import ExpertSelector
from kernelwright.agents.roles import Situation, Team
from kernelwright.core.plan import Move
from kernelwright.core.skill import Skill


@dataclass(frozen=True)
class ExpertTeam(Team):
    """The team, and what its Coder can carry out, for teams that have only that seat of it."""

    moves: Callable[[Situation], list[Move]]


def expert_team(skills: dict[str, Skill]) -> ExpertTeam:
    """Return the team that needs neither a key nor a network."""
    workshop = PlanLowering(skills)
    planner, debugger = ExpertPlanner(workshop), ExpertDebugger(workshop)
    return ExpertTeam(
        name="expert",
        generator=ExpertGenerator(workshop),
        analyst=ExpertAnalyst(workshop),
        planner=planner,
        coder=ExpertCoder(workshop, planner, debugger),
        debugger=debugger,
        selector=ExpertSelector(),
        designer=ExpertDesigner(workshop, planner),
        breeder=ExpertBreeder(workshop, planner),
        aligner=ExpertAligner(),
        moves=planner.moves,
    )
