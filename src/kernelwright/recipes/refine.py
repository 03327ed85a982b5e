"""One chain of rewrites, the other plain baseline; docs/recipes/refine.md says what it stands for."""

from kernelwright.core.budget import Budget
from kernelwright.engine.pipelines.rewriting import Rewrite
from kernelwright.engine.pipelines.seeding import Seeds
from kernelwright.recipes.recipe import Recipe
from kernelwright.search.refine import RefinePolicy
from kernelwright.search.windows import Window

FEEDBACK = Rewrite(Window(("children", "leaders"), n_leaders=1))
"""Besides the last candidate: what was made of it already, and the best so far. Ours."""

REFINE = Recipe(
    name="refine",
    summary="One chain: the last candidate is rewritten from its feedback, the best is kept.",
    make_policy=lambda seed: RefinePolicy(),
    pipelines={"seed": Seeds(), "rewrite": FEEDBACK, "repair": FEEDBACK},
    budget=Budget(evaluations=26),
)
"""The budget is ours: 24 attempts and a margin."""
