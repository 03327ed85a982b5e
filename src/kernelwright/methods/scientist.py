"""GPU Kernel Scientist's search: a growing population, and a generation of experiments at a time.

Source: GPU Kernel Scientist (arXiv 2506.20807), which leaves what to work on to its Selector; all that is
left for a policy is when to seed, how many experiments a generation runs, and when to stop. Published: the
three experiments. Unknown, hence ours: the number of generations and every stop.

docs/recipes/scientist.md maps the method to this code.
"""

from dataclasses import dataclass

from kernelwright.core.budget import Budget
from kernelwright.runs.recipe import Recipe
from kernelwright.runs.steps.experiments import Experiments
from kernelwright.runs.steps.seeding import Seeds
from kernelwright.runs.view import RunView, Selection, stop


@dataclass(frozen=True)
class ScientistPolicy:
    """Naive kernels, then generations of experiments."""

    seeds: int = 3
    """Naive kernels asked for at first; ours: the paper starts from given ones."""
    seed_steps: int = 3
    """Times seeds are asked for until one is verified; our choice."""
    experiments: int = 3
    """Run in a generation. Source: the paper."""
    generations: int | None = None
    """None: until the budget is used up. The paper's number is not known."""
    patience: int = 6
    """Generations in a row without a new kernel after which the search stops; our choice."""

    def select(self, view: RunView) -> Selection:
        """Return the next selection (see SearchPolicy); base and reference are the Selector's to pick."""
        members = {a.candidate for a in view.attempts if a.is_verified}
        if not members:
            return self._seed(view)
        if members <= view.exhausted:
            return stop("no experiment is left on any verified member of the population")
        if view.fruitless.get("experiment", 0) >= self.patience:
            return stop(f"{self.patience} generations in a row gave no new kernel")
        done = len({a.step for a in view.attempts if a.mode == "experiment"})
        if self.generations is not None and done >= self.generations:
            return stop(f"all {self.generations} generations done")
        return Selection(mode="experiment", count=self.experiments)

    def accepts_as_base(self, base_speedup: float | None, new_speedup: float) -> bool:
        """Say yes to a faster one; the Selector is free to pick another."""
        return base_speedup is None or new_speedup > base_speedup

    def _seed(self, view: RunView) -> Selection:
        asked = len({a.step for a in view.attempts if a.mode == "seed"}) + view.fruitless.get("seed", 0)
        if asked >= self.seed_steps:
            return stop("no seed could be verified")
        return Selection(mode="seed", count=self.seeds)


SCIENTIST = Recipe(
    name="scientist",
    summary="A population and its timings; three of five designed experiments a generation.",
    make_policy=lambda seed: ScientistPolicy(),
    pipelines={"seed": Seeds(), "experiment": Experiments()},
    budget=Budget(evaluations=24),
)
"""The budget is ours: three seeds and seven generations; the paper's number of iterations is not known."""

RECIPES = (SCIENTIST,)
