"""All schedules of a plan at once, by cheap timings: the referee judges what they come to."""

from dataclasses import dataclass
from typing import ClassVar

from kernelwright.core.errors import LoweringError
from kernelwright.runs.step_context import StepContext
from kernelwright.runs.view import Selection


@dataclass(frozen=True)
class TuneSchedules:
    """Tunes the base's schedules in the place of one evaluation for each value."""

    seats: ClassVar[tuple[str, ...]] = ()

    def run(self, context: StepContext, selection: Selection) -> None:
        """Hand in the base with the schedules that were fastest; nothing where none was told apart."""
        base_id = str(selection.base)
        context.state.tuned.add(base_id)
        closing = context.tuned(context.state.candidates[base_id])
        if closing is None:
            context.note("tuner", "nothing can be timed here, or no time is left for it", candidate=base_id)
            return
        context.note("tuner", closing.headline, candidate=base_id, plan=closing.plan)
        if closing.plan is None or not closing.values:
            return
        try:
            child = context.team.coder.translate(context.situation(base_id, is_analysed=False), closing.plan)
        except LoweringError as error:
            context.note("coder", f"the tuned plan cannot be carried out: {error}", plan=closing.plan)
            return
        evaluation = context.submit(child.model_copy(update={"parents": (base_id,)}), base_id)
        context.state.tuned.add(child.id)
        context.state.settled.add(child.id)
        if evaluation.is_verified:
            context.exhaust(base_id)  # its other moves are the child's, too
