"""The deterministic team: plans by the gate and the ledger, writes by lowering the plan."""

from kernelwright.agents.expert.aligner import ExpertAligner
from kernelwright.agents.expert.analyst import ExpertAnalyst
from kernelwright.agents.expert.breeder import ExpertBreeder
from kernelwright.agents.expert.coder import ExpertCoder
from kernelwright.agents.expert.debugger import ExpertDebugger
from kernelwright.agents.expert.designer import ExpertDesigner
from kernelwright.agents.expert.generator import ExpertGenerator
from kernelwright.agents.expert.plan_lowering import Workshop
from kernelwright.agents.expert.planner import ExpertPlanner
from kernelwright.agents.expert.selector import ExpertSelector
from kernelwright.agents.roles import Team
from kernelwright.core.skill import Skill


def expert_team(skills: dict[str, Skill]) -> Team:
    """Return the team that needs neither a key nor a network."""
    workshop = Workshop(skills)
    planner, debugger = ExpertPlanner(workshop), ExpertDebugger(workshop)
    return Team(
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
    )
