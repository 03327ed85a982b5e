"""Repair of a failing candidate."""

from dataclasses import dataclass
from typing import ClassVar

from kernelwright.core.errors import LoweringError, UnusableAnswer
from kernelwright.runs.step_context import NO_WINDOW, StepContext
from kernelwright.runs.view import Selection
from kernelwright.runs.windows import NodeWindow


@dataclass(frozen=True)
class Mend:
    """Debugger: root cause, smallest change, evaluate."""

    seats: ClassVar[tuple[str, ...]] = ("debugger",)

    window: NodeWindow = NO_WINDOW

    def run(self, context: StepContext, selection: Selection) -> None:
        """Hand in the repaired candidate; without an idea the failing one is given up."""
        failing = str(selection.base)
        state = context.state
        inherited = state.repairs_tried.get(failing, ())
        try:
            repaired = context.team.debugger.repair(context.situation(failing, self.window), inherited)
        except UnusableAnswer as error:
            context.note("debugger", str(error), candidate=failing)
            return
        except LoweringError:
            repaired = None  # an expert Debugger on a source that was written in words
        if repaired is None or context.is_known(repaired[0]):
            state.short_term.give_up(failing, "no repair left to try")
            context.exhaust(failing)
            return
        candidate, move = repaired
        used = (*inherited, move.key)
        state.repairs_tried.update({failing: used, candidate.id: used})
        context.choose_repair(failing, move)
        context.submit(candidate, failing)
