"""First candidates: the reference as the root of a tree, or a set of seeds."""

from dataclasses import dataclass, replace
from typing import ClassVar

from kernelwright.core.errors import LoweringError
from kernelwright.runs.step_context import StepContext, verified_first
from kernelwright.runs.view import Selection


@dataclass(frozen=True)
class Root:
    """Evaluates the reference as a candidate (STARK's root)."""

    seats: ClassVar[tuple[str, ...]] = ()

    def run(self, context: StepContext, selection: Selection) -> None:
        """Hand the root in; it becomes the base."""
        root = context.team.generator.root(context.problem)
        if context.submit(root, None).is_verified:
            context.replace_base(root.id)


@dataclass(frozen=True)
class Seeds:
    """Evaluates a set of seeds; the fastest verified one becomes the base."""

    seats: ClassVar[tuple[str, ...]] = ("generator",)

    is_independent: bool = False
    """No seed is told of another, nor of what the run has measured."""

    def run(self, context: StepContext, selection: Selection) -> None:
        """Hand in up to ``selection.count`` new seeds."""
        try:
            situation = replace(context.situation(None), is_tuned=selection.leaves_schedules)
            if self.is_independent:
                situation = replace(situation, run=(), is_independent=True)
            seeds = context.team.generator.seeds(situation, selection.count)
        except LoweringError as error:
            context.note("generator", str(error))
            return
        new = [seed for seed in seeds if not context.is_known(seed)]
        for seed in new:
            context.submit(seed, None)
        best = verified_first(context, [seed.id for seed in new])
        if best is not None and context.state.base is None:
            context.replace_base(best)
