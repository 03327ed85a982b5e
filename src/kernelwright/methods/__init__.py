"""The search methods, one file each: policy, kinds of step, budget. Nothing else knows a method by name.

Every module here defines ``RECIPES``; a package elsewhere adds a method through the entry point group
``kernelwright.methods``, which names a module of the same form. May import core and runs. Begin with
``best_of_n.py``, the simplest.
"""

import pkgutil
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points

from kernelwright.core.errors import UserError
from kernelwright.runs.recipe import Recipe

__all__ = ["Recipe", "find_recipe", "recipes"]

GROUP = "kernelwright.methods"


@cache
def recipes() -> dict[str, Recipe]:
    """Return every recipe by name: those of this package, then those of installed entry points."""
    modules = [import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)]
    modules += [entry.load() for entry in entry_points(group=GROUP)]
    return {recipe.name: recipe for module in modules for recipe in module.RECIPES}


def find_recipe(name: str) -> Recipe:
    """Return the recipe of that name; raises UserError listing the known ones."""
    if name not in recipes():
        raise UserError(f"unknown recipe {name!r}; known: {', '.join(sorted(recipes()))}")
    return recipes()[name]
