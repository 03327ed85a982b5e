"""Refine: one chain, each candidate written from the one before and the referee's word on it.

The plain baseline that the papers call iterative refinement, or Reflexion where the model also writes down
what it learned. No settings of theirs are known; all are ours.

docs/recipes/refine.md maps the method to this code.
"""

from dataclasses import dataclass

from kernelwright.core.budget import Budget
from kernelwright.runs.recipe import Recipe
from kernelwright.runs.steps.rewriting import Rewriting
from kernelwright.runs.steps.seeding import Seeds
from kernelwright.runs.view import Attempt, RunView, Selection, stop
from kernelwright.runs.windows import NodeWindow


@dataclass(frozen=True)
class RefinePolicy:
    """Goes on from the last candidate, good or bad; the best is tracked apart."""

    attempts: int = 24
    """Evaluations, the seed included; ours, as many as ``kernelskill`` is granted."""
    patience: int = 3
    """Steps in a row without a seed after which the search ends; our choice."""

    def select(self, view: RunView) -> Selection:
        """Return the next selection (see SearchPolicy)."""
        if len(view.attempts) >= self.attempts:
            return stop(f"all {self.attempts} attempts used")
        if not view.attempts:
            if view.fruitless.get("seed", 0) >= self.patience:
                return stop("no first candidate could be written")
            return Selection(mode="seed")
        last = self._last(view)
        if last is None:
            return stop("every move that applies to a candidate of the chain was tried")
        return Selection(mode="rewrite" if last.is_verified else "repair", base=last.candidate)

    def accepts_as_base(self, base_speedup: float | None, new_speedup: float) -> bool:
        """Return False: the last candidate is the base, faster or not."""
        return False

    def _last(self, view: RunView) -> Attempt | None:
        """Return the end of the chain: the last candidate on which something is left to try."""
        return next((a for a in reversed(view.attempts) if a.candidate not in view.exhausted), None)


FEEDBACK = Rewriting(NodeWindow(("children", "leaders"), n_leaders=1))
"""Besides the last candidate: what was made of it already, and the best so far. Ours."""

REFINE = Recipe(
    name="refine",
    summary="One chain: the last candidate is rewritten from its feedback, the best is kept.",
    make_policy=lambda seed: RefinePolicy(),
    pipelines={"seed": Seeds(), "rewrite": FEEDBACK, "repair": FEEDBACK},
    budget=Budget(evaluations=26),
)
"""The budget is ours: 24 attempts and a margin."""

RECIPES = (REFINE,)
