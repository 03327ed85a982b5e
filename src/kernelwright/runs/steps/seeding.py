"""First candidates: the reference as the root of a tree, or a set of seeds."""

from dataclasses import dataclass

from kernelwright.core.errors import LoweringError
from kernelwright.runs.step_context import Desk, verified_first
from kernelwright.runs.view import Selection


@dataclass(frozen=True)
class Root:
    """Evaluates the reference as a candidate (STARK's root)."""

    def run(self, desk: Desk, selection: Selection) -> None:
        """Hand the root in; it becomes the base."""
        root = desk.team.generator.root(desk.problem)
        if desk.submit(root, None).is_verified:
            desk.replace_base(root.id)


@dataclass(frozen=True)
class Seeds:
    """Evaluates a set of seeds; the fastest verified one becomes the base."""

    def run(self, desk: Desk, selection: Selection) -> None:
        """Hand in up to ``selection.count`` new seeds."""
        try:
            seeds = desk.team.generator.seeds(desk.situation(None), selection.count)
        except LoweringError as error:
            desk.note("generator", str(error))
            return
        new = [seed for seed in seeds if not desk.is_known(seed)]
        for seed in new:
            desk.submit(seed, None)
        best = verified_first(desk, [seed.id for seed in new])
        if best is not None and desk.state.base is None:
            desk.replace_base(best)
