"""The deterministic team: plans by the gate and the ledger, writes by lowering the plan."""

from kernelwright.agents.expert.analyst import ExpertAnalyst
from kernelwright.agents.expert.debugger import ExpertDebugger
from kernelwright.agents.expert.generator import ExpertGenerator
from kernelwright.agents.expert.planner import ExpertPlanner
from kernelwright.agents.expert.workshop import Workshop
from kernelwright.agents.roles import Team
from kernelwright.core.skill import Skill


def expert_team(skills: dict[str, Skill]) -> Team:
    """Return the team that needs neither a key nor a network."""
    workshop = Workshop(skills)
    return Team(
        name="expert",
        generator=ExpertGenerator(workshop),
        analyst=ExpertAnalyst(workshop),
        planner=ExpertPlanner(workshop),
        coder=workshop,
        debugger=ExpertDebugger(workshop),
    )
