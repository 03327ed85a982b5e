"""How a step is carried out: one class per kind of step. Recipes choose among them; policies choose when."""

from typing import Protocol

from kernelwright.runs.step_context import StepContext
from kernelwright.runs.view import Selection


class StepKind(Protocol):
    """Carries out one selection: asks roles, submits candidates."""

    @property
    def seats(self) -> tuple[str, ...]:
        """Seats that are asked, in turn, before there is a kernel to judge (see ``Team.calls``)."""
        ...

    def run(self, context: StepContext, selection: Selection) -> None:
        """Do the step; raises BudgetUsedUp when the budget ends on the way.

        A step that hands in no candidate is fruitless; the policy sees that in its view.
        """
        ...
