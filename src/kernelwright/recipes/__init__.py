"""The recipes by name."""

from kernelwright.core.errors import UserError
from kernelwright.recipes.best_of_n import BEST_OF_N
from kernelwright.recipes.cupilot import CUPILOT
from kernelwright.recipes.fsr import FSR
from kernelwright.recipes.kernelskill import KERNELSKILL, NO_LONG_TERM, NO_SHORT_TERM
from kernelwright.recipes.kernelwright import KERNELWRIGHT
from kernelwright.recipes.recipe import Recipe
from kernelwright.recipes.refine import REFINE
from kernelwright.recipes.scientist import SCIENTIST
from kernelwright.recipes.stark import NO_PLAN, NO_SEARCH, STARK

_ALL = (
    KERNELWRIGHT,
    *(KERNELSKILL, NO_LONG_TERM, NO_SHORT_TERM),
    *(STARK, NO_SEARCH, NO_PLAN),
    *(SCIENTIST, CUPILOT, FSR, BEST_OF_N, REFINE),
)
RECIPES: dict[str, Recipe] = {recipe.name: recipe for recipe in _ALL}

__all__ = ["RECIPES", "Recipe", "find_recipe"]


def find_recipe(name: str) -> Recipe:
    """Return the recipe of that name; raises UserError listing the known ones."""
    if name not in RECIPES:
        raise UserError(f"unknown recipe {name!r}; known: {', '.join(sorted(RECIPES))}")
    return RECIPES[name]
