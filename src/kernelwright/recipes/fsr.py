"""CUDA-LLM's Feature Search and Reinforcement as a recipe; docs/recipes/fsr.md maps the paper to it."""

from kernelwright.core.budget import Budget
from kernelwright.engine.pipelines.rewriting import Rewrite
from kernelwright.engine.pipelines.seeding import Seeds
from kernelwright.recipes.recipe import Recipe
from kernelwright.search.fsr import FsrPolicy
from kernelwright.search.windows import Window

DIALOGUE = Rewrite(Window(("children", "siblings")))
"""The paper feeds the dialogue's history back; how much of it is not known. Ours: what was made of the base,
and the others of its own round."""

FSR = Recipe(
    name="fsr",
    summary="Rounds of N candidates, staged compile, function, latency; the best of a round leads the next.",
    make_policy=lambda seed: FsrPolicy(),
    pipelines={"seed": Seeds(), "rewrite": DIALOGUE, "repair": DIALOGUE},
    budget=Budget(evaluations=26),
)
"""The budget is ours: four candidates in six rounds and a margin."""
