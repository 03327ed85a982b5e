"""cuPilot as a recipe; docs/recipes/cupilot.md maps the paper to this code."""

from kernelwright.core.budget import Budget
from kernelwright.engine.pipelines.evolution import Cross, Populate, Revise
from kernelwright.engine.pipelines.seeding import Seeds
from kernelwright.recipes.recipe import Recipe
from kernelwright.search.cupilot import CuPilotPolicy

CUPILOT = Recipe(
    name="cupilot",
    summary="A population of plans, crossed without seeing code, translated, revised and aligned.",
    make_policy=lambda seed: CuPilotPolicy(seed=seed),
    pipelines={"seed": Seeds(), "populate": Populate(), "cross": Cross(), "repair": Revise()},
    budget=Budget(evaluations=40),
)
"""The budget is ours: the vanilla kernel, four epochs of populations of six, and a few revisions."""
