"""The recipes by name."""

from kernelwright.core.errors import UserError
from kernelwright.recipes.kernelskill import KERNELSKILL, NO_LONG_TERM, NO_SHORT_TERM
from kernelwright.recipes.recipe import Recipe

RECIPES: dict[str, Recipe] = {recipe.name: recipe for recipe in (KERNELSKILL, NO_LONG_TERM, NO_SHORT_TERM)}

__all__ = ["RECIPES", "Recipe", "find_recipe"]


def find_recipe(name: str) -> Recipe:
    """Return the recipe of that name; raises UserError listing the known ones."""
    if name not in RECIPES:
        raise UserError(f"unknown recipe {name!r}; known: {', '.join(sorted(RECIPES))}")
    return RECIPES[name]
