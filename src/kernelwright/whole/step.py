"""The one step of a run that puts a whole model together, and the policy that takes it."""

from dataclasses import dataclass
from typing import ClassVar

from kernelwright.core.candidate import Candidate
from kernelwright.core.events import ModelTakenApart
from kernelwright.runs.step_context import StepContext
from kernelwright.runs.view import RunView, Selection, stop

COMPOSE = "compose"


@dataclass(frozen=True)
class Compose:
    """Hands in every way to put the model together."""

    candidates: tuple[Candidate, ...]
    apart: ModelTakenApart
    seats: ClassVar[tuple[str, ...]] = ()

    def run(self, context: StepContext, selection: Selection) -> None:
        """Record where the time goes, and have the compositions judged."""
        context.emit(self.apart)
        for candidate in self.candidates:
            if not context.is_known(candidate):
                context.submit(candidate, None)


class ComposeOnce:
    """Composes, then stops."""

    def __init__(self, apart: ModelTakenApart) -> None:
        self._apart = apart
        self._is_done = False

    def select(self, view: RunView) -> Selection:
        """Return the one step, then the end."""
        if not self._is_done:
            self._is_done = True
            return Selection(mode=COMPOSE, count=max(len(self._apart.compositions), 1))
        if not self._apart.compositions:
            return stop(self._apart.note or "no block became faster")
        return stop("every way to put it together was judged")

    def accepts_as_base(self, base_speedup: float | None, new_speedup: float) -> bool:
        """Say no: nothing is made from a composition."""
        return False
