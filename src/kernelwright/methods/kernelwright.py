"""Our own search: KernelSkill's rounds and repairs, always from the fastest candidates.

KernelSkill keeps its base until something is 1.3 times as fast. Where a task has many moves of ten per cent
each, they are then all tried on the same base and never together. Here every improvement is built on, and
where the fastest has nothing left to try, the next ones are gone on from, as in STARK's tree. The schedules
of the fastest, and of seeds near it, are tuned all at once by cheap timings. The referee judges what came of
that, and moves that change more than a schedule.

docs/recipes/kernelwright.md maps the method to this code.
"""

from dataclasses import dataclass

from kernelwright.core.budget import Budget
from kernelwright.methods.kernelskill import PIPELINES, KernelSkillPolicy
from kernelwright.runs.recipe import Recipe
from kernelwright.runs.steps.recalling import Recall
from kernelwright.runs.steps.tuning import TuneSchedules
from kernelwright.runs.view import Attempt, RunView, Selection, stop


@dataclass(frozen=True)
class KernelwrightPolicy(KernelSkillPolicy):
    """All defaults are ours; docs/recipes/kernelwright.md has the comparison they rest on."""

    rounds: int = 30
    patience: int = 8
    n_leaders: int = 3
    """How many of the fastest candidates are gone on from before the search ends."""
    tuning_gain: float = 1.25
    """How many times as fast tuning may make a seed; one that would still be behind is not tuned."""

    def accepts_as_base(self, base_speedup: float | None, new_speedup: float) -> bool:
        """Build on whatever is faster."""
        return base_speedup is None or new_speedup > base_speedup

    def _improve(self, view: RunView, base: str) -> Selection:
        incumbent = view.incumbent
        if incumbent is not None and (incumbent.floor_fraction or 0.0) >= self.floor_stop:
            share = f"{100 * (incumbent.floor_fraction or 0.0):.0f} %"
            return stop(f"the fastest candidate reaches {share} of the speed that the roofline floor allows")
        leaders = view.leaders(self.n_leaders)
        for leader in leaders:
            if leader.candidate in view.tunable and self._may_lead(leader, leaders[0]):
                return Selection(mode="tune", base=leader.candidate)
        if self._rounds_since(view) >= self.patience:
            return stop(f"no improvement in {self.patience} rounds")
        for leader in leaders:
            if leader.candidate not in view.exhausted:
                return Selection(mode="optimize", base=leader.candidate)
        return stop(f"every move that applies to the {self.n_leaders} fastest candidates was tried")

    def _may_lead(self, leader: Attempt, fastest: Attempt) -> bool:
        """Tell whether tuning may make a candidate the fastest; what a move made has its base's schedules."""
        gain = self.tuning_gain if leader.mode == "seed" else 1.0
        return gain * (leader.speedup or 0.0) >= (fastest.speedup or 0.0)


KERNELWRIGHT = Recipe(
    name="kernelwright",
    summary="Seeds and recalled plans, then one skill a round by evidence, on the fastest candidates so far.",
    make_policy=lambda seed: KernelwrightPolicy(),
    pipelines={**PIPELINES, "seed": Recall(), "tune": TuneSchedules()},
    budget=Budget(evaluations=32),
)

RECIPES = (KERNELWRIGHT,)
