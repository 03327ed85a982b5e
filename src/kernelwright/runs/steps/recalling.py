"""First candidates from memory: plans that served tasks like this one."""

from dataclasses import dataclass, field, replace
from typing import ClassVar

from kernelwright.core.errors import LoweringError
from kernelwright.runs.step_context import StepContext, verified_first
from kernelwright.runs.steps import StepKind
from kernelwright.runs.steps.evolution import describe_plan, history
from kernelwright.runs.steps.seeding import Seeds
from kernelwright.runs.view import Selection


@dataclass(frozen=True)
class Recall:
    """Seeds, then up to ``count`` archived plans; the fastest of all becomes the base."""

    seats: ClassVar[tuple[str, ...]] = ("generator",)

    count: int = 2
    """Ours: what the most alike tasks came to is worth a try or two, not the budget."""
    seeds: StepKind = field(default_factory=Seeds)

    def run(self, context: StepContext, selection: Selection) -> None:
        """Hand the seeds in, then what is recalled; nothing is without an archive or a verified seed."""
        self.seeds.run(context, selection)
        base = context.state.base
        if base is None:
            return
        situation = context.situation(base, is_analysed=False)
        if not situation.archive:
            return
        blind = replace(situation, window=history(context))
        for plan in context.team.breeder.recall(blind, context.affordable(self.count)):
            context.note("breeder", f"recalled: {describe_plan(plan)}", plan=plan)
            try:
                written = context.team.coder.translate(context.refreshed(situation), plan)
            except LoweringError as error:
                context.note("coder", f"the plan cannot be carried out: {error}", plan=plan)
                continue
            if not context.is_known(written):
                context.submit(written, None)
        best = verified_first(context, list(context.state.candidates))
        if best is not None and best != base:
            context.replace_base(best)
