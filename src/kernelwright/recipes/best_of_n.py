"""Independent samples, the plainest baseline; docs/recipes/best-of-n.md says what it stands for."""

from kernelwright.core.budget import Budget
from kernelwright.engine.pipelines.seeding import Seeds
from kernelwright.recipes.recipe import Recipe
from kernelwright.search.best_of_n import BestOfNPolicy

BEST_OF_N = Recipe(
    name="best-of-n",
    summary="Independent samples; nothing is learned from one to the next.",
    make_policy=lambda seed: BestOfNPolicy(),
    pipelines={"seed": Seeds()},
    budget=Budget(evaluations=26),
)
"""The budget is ours: 24 samples and a margin."""
