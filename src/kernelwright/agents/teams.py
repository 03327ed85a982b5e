"""The teams by name."""

from kernelwright.agents.expert import expert_team
from kernelwright.agents.roles import Team
from kernelwright.core.errors import UserError
from kernelwright.skills.load import load_skills

TEAMS = ("expert",)


def find_team(name: str) -> Team:
    """Return a fresh team of that name; raises UserError listing the known ones."""
    if name not in TEAMS:
        raise UserError(f"unknown team {name!r}; known: {', '.join(TEAMS)}")
    return expert_team(load_skills())
