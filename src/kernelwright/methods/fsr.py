"""CUDA-LLM's Feature Search and Reinforcement: rounds of N candidates, the best of a round leads the next.

Source: CUDA-LLM (arXiv 2506.09092), from its abstract and notes. Published: stages in the order compile,
function, latency; when no candidate of a round passes, the errors are fed back, else the fastest leads on.
Not known: N, D, which failing candidate is shown, whether a faster kernel of an earlier round leads again.
Ours: those, and what happens to a base that has nothing left to try.

docs/recipes/fsr.md maps the method to this code.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from kernelwright.core.budget import Budget
from kernelwright.core.evaluation import Stage
from kernelwright.runs.recipe import Recipe
from kernelwright.runs.steps.rewriting import Rewriting
from kernelwright.runs.steps.seeding import Seeds
from kernelwright.runs.view import Attempt, RunView, Selection, stop
from kernelwright.runs.windows import NodeWindow

STAGES = tuple(Stage)
"""In the order in which a candidate passes them."""


@dataclass(frozen=True)
class FsrPolicy:
    """Beam of one, N wide, D deep."""

    width: int = 4
    """Candidates a round, the paper's N; our choice."""
    depth: int = 6
    """Rounds, the first included, the paper's D; our choice."""
    patience: int = 3
    """First rounds without any candidate after which the search ends; our choice."""

    def select(self, view: RunView) -> Selection:
        """Return the next selection (see SearchPolicy)."""
        if not view.attempts:
            if view.fruitless.get("seed", 0) >= self.patience:
                return stop("no first candidate could be written")
            return Selection(mode="seed", count=self.width)
        if len({attempt.step for attempt in view.attempts}) >= self.depth:
            return stop(f"all {self.depth} rounds used")
        base = self._base(view)
        if base is None:
            return stop("every move that applies to any candidate was tried")
        return Selection(
            mode="rewrite" if base.is_verified else "repair", base=base.candidate, count=self.width
        )

    def accepts_as_base(self, base_speedup: float | None, new_speedup: float) -> bool:
        """Return False: the base is chosen anew from each round."""
        return False

    def _base(self, view: RunView) -> Attempt | None:
        """Return the last round's best; where it has nothing left to try, the best of the run."""
        live = [attempt for attempt in view.attempts if attempt.candidate not in view.exhausted]
        last = view.attempts[-1].step
        return best_of([a for a in live if a.step == last]) or best_of(live)


def best_of(attempts: Sequence[Attempt]) -> Attempt | None:
    """Return the fastest verified attempt, else the failing one that came furthest, the latest on ties."""
    verified = [attempt for attempt in attempts if attempt.is_verified]
    if verified:
        return max(verified, key=lambda a: a.speedup or 0.0)
    return max(reversed(attempts), key=_progress, default=None)


def _progress(attempt: Attempt) -> int:
    return -1 if attempt.stage is None else STAGES.index(attempt.stage)


DIALOGUE = Rewriting(NodeWindow(("children", "siblings", "leaders"), n_leaders=1))
"""The paper feeds the dialogue's history back; how much of it is not known. Ours: what was made of the base,
the others of its own round, and the fastest so far."""

FSR = Recipe(
    name="fsr",
    summary="Rounds of N candidates, staged compile, function, latency; the best of a round leads the next.",
    make_policy=lambda seed: FsrPolicy(),
    pipelines={"seed": Seeds(is_independent=True), "rewrite": DIALOGUE, "repair": DIALOGUE},
    budget=Budget(evaluations=26),
)
"""The budget is ours: four candidates in six rounds and a margin."""

RECIPES = (FSR,)
