"""cuPilot's search with the population as published, which takes hundreds of evaluations."""

from dataclasses import replace

from kernelwright.core.budget import Budget
from kernelwright.methods.cupilot import CUPILOT, CuPilotPolicy

POPULATION = 50
"""Source: cuPilot (arXiv 2512.16465)."""

CUPILOT_PUBLISHED = replace(
    CUPILOT,
    name="cupilot-published",
    summary="cupilot with the published population of 50: hundreds of evaluations.",
    make_policy=lambda seed: CuPilotPolicy(seed=seed, population=POPULATION),
    budget=Budget(evaluations=400),
)
"""The budget is ours: 1 + 50 + 37, three times 37 + 37, and revisions."""

RECIPES = (CUPILOT_PUBLISHED,)
