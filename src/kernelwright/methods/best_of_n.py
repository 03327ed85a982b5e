"""Best of N: independent samples and nothing else; the baseline that every search has to beat.

No paper of its own; the papers compare with it as ``sampling``. N is ours.

docs/recipes/best-of-n.md maps the method to this code.
"""

from dataclasses import dataclass

from kernelwright.core.budget import Budget
from kernelwright.runs.recipe import Recipe
from kernelwright.runs.steps.seeding import Seeds
from kernelwright.runs.view import RunView, Selection, stop


@dataclass(frozen=True)
class BestOfNPolicy:
    """Asks for seeds until there are N."""

    n: int = 24
    """Samples; ours, the evaluations that ``kernelskill`` is granted."""
    patience: int = 3
    """Steps in a row without a new seed after which the search ends; our choice."""

    def select(self, view: RunView) -> Selection:
        """Return the next selection (see SearchPolicy)."""
        missing = self.n - len(view.attempts)
        if missing <= 0:
            return stop(f"all {self.n} samples used")
        if view.fruitless.get("seed", 0) >= self.patience:
            return stop("no further sample could be written")
        return Selection(mode="seed", count=missing)

    def accepts_as_base(self, base_speedup: float | None, new_speedup: float) -> bool:
        """Return False: no sample leads to another."""
        return False


BEST_OF_N = Recipe(
    name="best-of-n",
    summary="Independent samples; nothing is learned from one to the next.",
    make_policy=lambda seed: BestOfNPolicy(),
    pipelines={"seed": Seeds(is_independent=True)},
    budget=Budget(evaluations=26),
)
"""The budget is ours: 24 samples and a margin."""

RECIPES = (BEST_OF_N,)
