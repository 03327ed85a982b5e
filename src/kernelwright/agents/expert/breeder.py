"""The expert Breeder: plans from archived plans and from single moves, crossed move by move."""

from kernelwright.agents.expert.workshop import Workshop
from kernelwright.agents.roles import Situation
from kernelwright.core.plan import Plan


class ExpertBreeder:
    """Fills the Breeder's seat (see roles.Breeder)."""

    def __init__(self, workshop: Workshop) -> None:
        self._workshop = workshop

    def populate(self, situation: Situation, count: int) -> tuple[Plan, ...]:
        """Return up to ``count`` different plans."""
        raise NotImplementedError

    def cross(self, situation: Situation, first: Plan, second: Plan) -> Plan | None:
        """Return a plan made of both."""
        raise NotImplementedError
