"""Recipes by name."""

import pytest

from kernelwright.core.errors import UserError
from kernelwright.recipes import RECIPES, find_recipe


def test_a_recipe_is_found_by_its_name() -> None:
    assert all(find_recipe(name).name == name for name in RECIPES)


def test_an_unknown_recipe_lists_the_known_ones() -> None:
    with pytest.raises(UserError, match="unknown recipe 'magic'; known: kernelskill"):
        find_recipe("magic")
