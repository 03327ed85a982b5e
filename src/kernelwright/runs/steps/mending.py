"""Repair of a failing candidate."""

from dataclasses import dataclass

from kernelwright.core.errors import LoweringError, UnusableAnswer
from kernelwright.runs.step_context import NO_WINDOW, Desk
from kernelwright.runs.view import Selection
from kernelwright.runs.windows import Window


@dataclass(frozen=True)
class Repair:
    """Debugger: root cause, smallest change, evaluate."""

    window: Window = NO_WINDOW

    def run(self, desk: Desk, selection: Selection) -> None:
        """Hand in the repaired candidate; without an idea the failing one is given up."""
        failing = str(selection.base)
        state = desk.state
        inherited = state.repairs_tried.get(failing, ())
        try:
            repaired = desk.team.debugger.repair(desk.situation(failing, self.window), inherited)
        except UnusableAnswer as error:
            desk.note("debugger", str(error), candidate=failing)
            return
        except LoweringError:
            repaired = None  # an expert Debugger on a source that was written in words
        if repaired is None or desk.is_known(repaired[0]):
            state.short_term.give_up(failing, "no repair left to try")
            desk.exhaust(failing)
            return
        candidate, move = repaired
        used = (*inherited, move.key)
        state.repairs_tried.update({failing: used, candidate.id: used})
        desk.choose_repair(failing, move)
        desk.submit(candidate, failing)
