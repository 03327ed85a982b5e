"""First candidates from memory: plans that served tasks like this one."""

from dataclasses import dataclass, field, replace

from kernelwright.core.errors import LoweringError
from kernelwright.runs.step_context import Desk, verified_first
from kernelwright.runs.steps import Pipeline
from kernelwright.runs.steps.evolution import describe_plan, history
from kernelwright.runs.steps.seeding import Seeds
from kernelwright.runs.view import Selection


@dataclass(frozen=True)
class Recall:
    """Seeds, then up to ``count`` archived plans; the fastest of all becomes the base."""

    count: int = 2
    """Ours: what the most alike tasks came to is worth a try or two, not the budget."""
    seeds: Pipeline = field(default_factory=Seeds)

    def run(self, desk: Desk, selection: Selection) -> None:
        """Hand the seeds in, then what is recalled; nothing is without an archive or a verified seed."""
        self.seeds.run(desk, selection)
        base = desk.state.base
        if base is None:
            return
        situation = replace(desk.situation(base, is_analysed=False), window=history(desk))
        if not situation.archive:
            return
        for plan in desk.team.breeder.recall(situation, desk.affordable(self.count)):
            desk.note("breeder", f"recalled: {describe_plan(plan)}", plan=plan)
            try:
                written = desk.team.coder.translate(situation, plan)
            except LoweringError as error:
                desk.note("coder", f"the plan cannot be carried out: {error}", plan=plan)
                continue
            if not desk.is_known(written):
                desk.submit(written, None)
        best = verified_first(desk, list(desk.state.candidates))
        if best is not None and best != base:
            desk.replace_base(best)
