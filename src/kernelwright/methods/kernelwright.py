"""Our own search: KernelSkill's rounds and repairs, always from the fastest candidates.

KernelSkill keeps its base until something is 1.3 times as fast. Where a task has many moves of ten per cent
each, they are then all tried on the same base and never together. Here every improvement is built on, and
where the fastest has nothing left to try, the next ones are gone on from, as in STARK's tree.

Where cheap timings can choose schedules, no evaluation is spent on a schedule: whatever tuning may make the
fastest is tuned, and the moves that the referee judges change more than that. A candidate that is far behind
gets only the moves that promise to catch up. The search ends when none is left.

docs/recipes/kernelwright.md maps the method to this code.
"""

from dataclasses import dataclass, replace

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
    """How many times as fast tuning is taken to make a candidate, until this run has seen it do more."""

    def select(self, view: RunView) -> Selection:
        """Return the next selection; among seeds that differ by a schedule alone the tuner chooses.

        Then none is drawn by lot, and a network has one more.
        """
        selection = super().select(view)
        if selection.mode != "seed" or not view.can_tune:
            return selection
        return replace(selection, leaves_schedules=True, count=selection.count + 1)

    def accepts_as_base(self, base_speedup: float | None, new_speedup: float) -> bool:
        """Build on whatever is faster."""
        return base_speedup is None or new_speedup > base_speedup

    def _improve(self, view: RunView, base: str) -> Selection:
        incumbent = view.incumbent
        if incumbent is not None and (incumbent.floor_fraction or 0.0) >= self.floor_stop:
            share = f"{100 * (incumbent.floor_fraction or 0.0):.0f} %"
            return stop(f"the fastest candidate reaches {share} of the speed that the roofline floor allows")
        leaders = self._leaders(view)
        for leader in leaders:
            if leader.candidate in view.tunable and self._behind(view, leader) <= 1.0:
                return Selection(mode="tune", base=leader.candidate)
        if self._rounds_since(view) >= self.patience:
            return stop(f"no improvement in {self.patience} rounds")
        for leader in leaders:
            if leader.candidate not in view.exhausted:
                return self._move_on(view, leader)
        return stop(
            f"no move on the {self.n_leaders} fastest candidates is left that promises to lead to the fastest"
        )

    def _move_on(self, view: RunView, leader: Attempt) -> Selection:
        """Return one more move on a leader: one that its schedules do not cover, and that may catch up."""
        behind = self._behind(view, leader)
        is_covered = leader.candidate in view.settled or leader.candidate in view.tunable
        return Selection(
            mode="optimize",
            base=leader.candidate,
            needed=behind if behind > 1.0 else None,
            leaves_schedules=is_covered,
        )

    def _leaders(self, view: RunView) -> tuple[Attempt, ...]:
        """Return the fastest candidates, but for those that tuning made another one of."""
        tuned = {attempt.base for attempt in view.attempts if attempt.mode == "tune" and attempt.is_verified}
        found = [a for a in view.leaders(len(view.attempts)) if a.candidate not in tuned]
        return tuple(found[: self.n_leaders])

    def _behind(self, view: RunView, leader: Attempt) -> float:
        """Return how many times as fast a candidate must become, besides by tuning, to be the fastest."""
        fastest = view.incumbent
        if fastest is None or not leader.speedup:
            return 1.0
        return (fastest.speedup or 0.0) / (self._gain(view) * leader.speedup)

    def _gain(self, view: RunView) -> float:
        """Return how many times as fast tuning may make a candidate, by what it has done in this run."""
        gains = [self.tuning_gain]
        for attempt in view.attempts:
            before = view.attempt(attempt.base) if attempt.mode == "tune" and attempt.base else None
            if before is not None and before.speedup:
                gains.append((attempt.speedup or 0.0) / before.speedup)
        return max(gains)


KERNELWRIGHT = Recipe(
    name="kernelwright",
    summary="Seeds and recalled plans, then one skill a round by evidence, on the fastest candidates so far.",
    make_policy=lambda seed: KernelwrightPolicy(),
    pipelines={**PIPELINES, "seed": Recall(), "tune": TuneSchedules()},
    budget=Budget(evaluations=32),
)

RECIPES = (KERNELWRIGHT,)
