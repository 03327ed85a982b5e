"""KernelSkill's search: repair first, one move a round, a base that moves only for a real gain.

Source: KernelSkill (arXiv 2603.10085) and its published code: 15 rounds, base replaced at >= 1.3x or
>= +0.3 speedup, best tracked apart. Ours: the cap on repair chains (the published code has none and an
unrepairable kernel eats the rest of the run), the stops near the floor and
for want of progress, and carrying on from the incumbent when the base has no move left.

docs/recipes/kernelskill.md maps the method to this code.
"""

from dataclasses import dataclass, replace

from kernelwright.core.budget import Budget
from kernelwright.core.events import StepMode
from kernelwright.runs.recipe import Recipe
from kernelwright.runs.steps import StepKind
from kernelwright.runs.steps.mending import Mend
from kernelwright.runs.steps.one_move import OneMove
from kernelwright.runs.steps.seeding import Seeds
from kernelwright.runs.view import RunView, Selection, stop
from kernelwright.runs.windows import FASTEST


@dataclass(frozen=True)
class KernelSkillPolicy:
    """Star around a base with hysteresis."""

    rounds: int = 15
    """Evaluations after the seeds. Source: the paper's setting."""
    seeds: int = 3
    """The paper asks for a set; its size is ours."""
    replace_ratio: float = 1.3
    """Source: published code."""
    replace_gain: float = 0.3
    """Source: published code; in units of speedup over eager."""
    chain_cap: int = 3
    """Repairs per failing idea; our choice."""
    floor_stop: float = 0.9
    """Floor over latency at which no gain worth the effort is left; our choice."""
    patience: int = 6
    """Rounds in a row without a new incumbent after which the search stops; our choice."""

    def select(self, view: RunView) -> Selection:
        """Return the next selection (see SearchPolicy)."""
        if not view.attempts:
            if view.fruitless.get("seed", 0) >= self.chain_cap:
                return stop("no seed could be written")
            return Selection(mode="seed", count=self.seeds)
        if sum(a.mode != "seed" for a in view.attempts) >= self.rounds:
            return stop(f"all {self.rounds} rounds used")
        failing = self._failing(view)
        if failing is not None:
            return Selection(mode="repair", base=failing)
        if view.base is None:
            return stop("no seed could be verified or repaired")
        return self._improve(view, view.base)

    def accepts_as_base(self, base_speedup: float | None, new_speedup: float) -> bool:
        """Apply the published hysteresis."""
        if base_speedup is None:
            return True
        ratio_met = new_speedup >= self.replace_ratio * base_speedup
        return ratio_met or new_speedup - base_speedup >= self.replace_gain

    def _rounds_since(self, view: RunView) -> int:
        """Return the rounds made since the incumbent was found."""
        incumbent = view.incumbent
        found = -1 if incumbent is None else view.attempts.index(incumbent)
        return sum(a.mode != "seed" for a in view.attempts[found + 1 :])

    def _failing(self, view: RunView) -> str | None:
        chain = view.open_chain
        seeds_only = all(a.mode == "seed" for a in chain)
        if not chain or (seeds_only and view.base is not None):
            return None  # a failed seed beside a verified one is not worth a round
        last = chain[-1].candidate
        repairs = sum(a.mode == "repair" for a in chain) + view.fruitless.get("repair", 0)
        return None if repairs >= self.chain_cap or last in view.exhausted else last

    def _improve(self, view: RunView, base: str) -> Selection:
        incumbent = view.incumbent
        if incumbent is not None and (incumbent.floor_fraction or 0.0) >= self.floor_stop:
            share = f"{100 * (incumbent.floor_fraction or 0.0):.0f} %"
            return stop(f"the fastest candidate reaches {share} of the speed that the roofline floor allows")
        if self._rounds_since(view) >= self.patience:
            return stop(f"no improvement in {self.patience} rounds")
        if base not in view.exhausted:
            return Selection(mode="optimize", base=base)
        if incumbent is not None and incumbent.candidate not in view.exhausted:
            return Selection(mode="optimize", base=incumbent.candidate)
        return stop("every move that applies to the fastest candidate was tried")


ROUND = OneMove(FASTEST, FASTEST)
PIPELINES: dict[StepMode, StepKind] = {"seed": Seeds(), "optimize": ROUND, "repair": Mend(FASTEST)}

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
    pipelines={**PIPELINES, "optimize": replace(ROUND, has_short_term=False)},
)

RECIPES = (
    KERNELSKILL,
    NO_LONG_TERM,
    NO_SHORT_TERM,
)
