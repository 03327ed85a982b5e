"""KernelSkill as a recipe; docs/recipes/kernelskill.md maps the paper to this code."""

from dataclasses import replace

from kernelwright.core.budget import Budget
from kernelwright.core.events import StepMode
from kernelwright.engine.pipelines import Pipeline
from kernelwright.engine.pipelines.mending import Repair
from kernelwright.engine.pipelines.one_move import OneMove
from kernelwright.engine.pipelines.seeding import Seeds
from kernelwright.recipes.recipe import Recipe
from kernelwright.search.kernelskill import KernelSkillPolicy

PIPELINES: dict[StepMode, Pipeline] = {"seed": Seeds(), "optimize": OneMove(), "repair": Repair()}

KERNELSKILL = Recipe(
    name="kernelskill",
    summary="Seeds, then one skill a round chosen by evidence, repairing before improving.",
    make_policy=lambda seed: KernelSkillPolicy(),
    pipelines=PIPELINES,
    budget=Budget(evaluations=24),
)
"""The budget is ours: three seeds, fifteen rounds and a margin for the final measurement."""

NO_LONG_TERM = replace(
    KERNELSKILL,
    name="kernelskill-no-long-term",
    summary="Ablation: no skill is recommended; moves are drawn by lot, nothing of other runs is known.",
    has_long_term=False,
)
NO_SHORT_TERM = replace(
    KERNELSKILL,
    name="kernelskill-no-short-term",
    summary="Ablation: without what this run has tried; failures may be repeated.",
    pipelines={**PIPELINES, "optimize": OneMove(has_short_term=False)},
)
