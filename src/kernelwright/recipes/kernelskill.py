"""KernelSkill as a recipe; docs/recipes/kernelskill.md maps the paper to this code."""

from kernelwright.core.budget import Budget
from kernelwright.recipes.recipe import Recipe
from kernelwright.search.kernelskill import KernelSkillPolicy

KERNELSKILL = Recipe(
    name="kernelskill",
    summary="Seeds, then one skill a round chosen by evidence, repairing before improving.",
    policy=KernelSkillPolicy(),
    budget=Budget(evaluations=24),
)
"""The budget is ours: three seeds, fifteen rounds and a margin for the final measurement."""
