"""The expert Designer: the untried moves on the base, rated by rank and by what the ledger measured."""

from kernelwright.agents.expert.planner import ExpertPlanner
from kernelwright.agents.roles import Design, Situation


class ExpertDesigner:
    """Fills the Designer's seat (see roles.Designer)."""

    def __init__(self, planner: ExpertPlanner) -> None:
        self._planner = planner

    def design(self, situation: Situation, avenues: int, experiments: int) -> Design:
        """Return up to that many avenues and rated experiments."""
        raise NotImplementedError
