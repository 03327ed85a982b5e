"""Recipes by name, each with what a run and a reader need."""

from pathlib import Path

import pytest

from kernelwright.core.errors import UserError
from kernelwright.methods import find_recipe, recipes
from kernelwright.methods.stark import StarkPolicy
from kernelwright.runs.view import RunView

PAGES = Path(__file__).parents[2] / "docs" / "recipes"


def test_a_recipe_is_found_by_its_name() -> None:
    assert all(find_recipe(name).name == name for name in recipes())


def test_an_unknown_recipe_lists_the_known_ones() -> None:
    with pytest.raises(UserError, match=r"unknown recipe 'magic'; known: best-of-n, .*kernelskill, .*stark"):
        find_recipe("magic")


@pytest.mark.parametrize("name", sorted(recipes()))
def test_a_recipe_can_carry_out_its_first_step_and_grants_a_budget(name: str) -> None:
    recipe = recipes()[name]
    first = recipe.make_policy(0).select(RunView())
    assert first.mode != "stop" and first.mode in recipe.pipelines
    assert recipe.budget.evaluations and recipe.summary.endswith(".")


@pytest.mark.parametrize("name", ["stark", "fsr", "best-of-n", "refine", "kernelskill"])
def test_a_recipe_and_its_ablations_have_one_page_that_names_them(name: str) -> None:
    page = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    for recipe in recipes():
        assert not recipe.startswith(name) or f"`{recipe}`" in page


def test_starks_published_settings_are_in_the_recipe() -> None:
    recipe = recipes()["stark"]
    policy = recipe.make_policy(5)
    assert isinstance(policy, StarkPolicy)
    assert (policy.seed, policy.attempts) == (5, 30) and 0.3 <= policy.epsilon <= 0.4
    assert recipe.temperatures == {"planner": 0.8, "coder": 0.1, "debugger": 0.1}
