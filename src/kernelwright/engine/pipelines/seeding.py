"""First candidates: the reference as the root of a tree, or a set of seeds."""

from dataclasses import dataclass

from kernelwright.core.errors import LoweringError
from kernelwright.core.plan import Move
from kernelwright.engine.desk import Desk, verified_first
from kernelwright.search.view import Selection


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
        seeds = desk.team.generator.seeds(desk.situation(None), selection.count)
        new = [seed for seed in seeds if not desk.is_known(seed)]
        for seed in new:
            desk.submit(seed, None)
        best = verified_first(desk, [seed.id for seed in new])
        if best is not None and desk.state.base is None:
            desk.replace_base(best)


@dataclass(frozen=True)
class Rewrite:
    """Evaluates improvements, or repairs, of a base that no plan of another role led to.

    Source: CUDA-LLM's FSR, and the plain baselines best-of-N and refine.
    """

    def run(self, desk: Desk, selection: Selection) -> None:
        """Hand in up to ``selection.count`` rewrites of the base."""
        base_id = str(selection.base)
        situation = desk.situation(base_id)
        try:
            candidates = desk.team.coder.rewrite(situation, selection.count)
        except LoweringError as error:
            desk.fail(base_id, Move(skill="rewrite"), str(error))
            return
        new = [candidate for candidate in candidates if not desk.is_known(candidate)]
        if not new:
            desk.exhaust(base_id)
        for candidate in new:
            desk.submit(candidate, base_id)
