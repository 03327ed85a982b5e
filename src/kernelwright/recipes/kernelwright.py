"""Our own recipe; docs/recipes/kernelwright.md says what it takes from which system, and why."""

from kernelwright.core.budget import Budget
from kernelwright.engine.pipelines.recalling import Recall
from kernelwright.recipes.kernelskill import PIPELINES
from kernelwright.recipes.recipe import Recipe
from kernelwright.search.kernelwright import KernelwrightPolicy

KERNELWRIGHT = Recipe(
    name="kernelwright",
    summary="Seeds and recalled plans, then one skill a round by evidence, on the fastest candidates so far.",
    make_policy=lambda seed: KernelwrightPolicy(),
    pipelines={**PIPELINES, "seed": Recall()},
    budget=Budget(evaluations=32),
)
