"""STARK and its ablations as recipes; docs/recipes/stark.md maps the paper to this code."""

from dataclasses import replace

from kernelwright.core.budget import Budget
from kernelwright.core.events import StepMode
from kernelwright.engine.pipelines import Pipeline
from kernelwright.engine.pipelines.mending import Repair
from kernelwright.engine.pipelines.one_move import OneMove
from kernelwright.engine.pipelines.rewriting import Rewrite
from kernelwright.engine.pipelines.seeding import Root
from kernelwright.recipes.recipe import Recipe
from kernelwright.search.stark import FromRootPolicy, StarkPolicy
from kernelwright.search.windows import Window

PLAN_WINDOW = Window(("root", "children", "leaders"), n_leaders=5)
"""Source: the paper, ``W_plan(i) = {i, root} + D(i) + Top-r(C)``; r is not known, 5 is ours."""
CODE_WINDOW = Window(("root", "children", "nephews"))
"""Source: the paper, ``W_code(i) = {i, root} + D(i) + {j : p(j) in S(i)}``."""
DEBUG_WINDOW = Window(("root", "siblings"))
"""Source: the paper, ``W_debug(i) = {i, root} + S(i)``."""

PIPELINES: dict[StepMode, Pipeline] = {
    "root": Root(),
    "optimize": OneMove(plan_window=PLAN_WINDOW, code_window=CODE_WINDOW, wants_anchors=True),
    "repair": Repair(window=DEBUG_WINDOW),
}

STARK = Recipe(
    name="stark",
    summary="A tree grown from the reference: epsilon-greedy, throttled at the root, dead branches pruned.",
    make_policy=lambda seed: StarkPolicy(seed=seed),
    pipelines=PIPELINES,
    budget=Budget(evaluations=32),
    temperatures={"planner": 0.8, "coder": 0.1, "debugger": 0.1},
)
"""Temperatures: the paper. The budget is ours: the root, thirty attempts and a margin."""

NO_SEARCH = replace(
    STARK,
    name="stark-no-search",
    summary="Ablation: every attempt starts from the root, the best of them counts.",
    make_policy=lambda seed: FromRootPolicy(),
    pipelines={**PIPELINES, "optimize": OneMove(wants_anchors=True)},
)
NO_PLAN = replace(
    STARK,
    name="stark-no-plan",
    summary="Ablation: the tree without a plan agent; the Coder decides and writes.",
    make_policy=lambda seed: StarkPolicy(seed=seed, improve="rewrite"),
    pipelines={"root": Root(), "rewrite": Rewrite(CODE_WINDOW), "repair": Repair(window=DEBUG_WINDOW)},
)
