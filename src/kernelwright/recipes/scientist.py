"""GPU Kernel Scientist as a recipe; docs/recipes/scientist.md maps the paper to this code."""

from kernelwright.core.budget import Budget
from kernelwright.engine.pipelines.experiments import Experiments
from kernelwright.engine.pipelines.seeding import Seeds
from kernelwright.recipes.recipe import Recipe
from kernelwright.search.scientist import ScientistPolicy

SCIENTIST = Recipe(
    name="scientist",
    summary="A population and its timings; three of five designed experiments a generation.",
    make_policy=lambda seed: ScientistPolicy(),
    pipelines={"seed": Seeds(), "experiment": Experiments()},
    budget=Budget(evaluations=24),
)
"""The budget is ours: three seeds and seven generations; the paper's number of iterations is not known."""
