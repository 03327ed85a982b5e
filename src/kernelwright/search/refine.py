"""Refine: one chain, each candidate written from the one before and the referee's word on it.

The plain baseline that the papers call iterative refinement, or Reflexion where the model also writes down
what it learned. No settings of theirs are known; all are ours.
"""

from dataclasses import dataclass

from kernelwright.search.view import Attempt, RunView, Selection, stop


@dataclass(frozen=True)
class RefinePolicy:
    """Goes on from the last candidate, good or bad; the best is tracked apart."""

    attempts: int = 24
    """Evaluations, the seed included; ours, as many as ``kernelskill`` is granted."""
    patience: int = 3
    """Steps in a row without a seed after which the search ends; ours."""

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
            return stop("nothing is left to try on any candidate of the chain")
        return Selection(mode="rewrite" if last.is_verified else "repair", base=last.candidate)

    def accepts_as_base(self, base_speedup: float | None, new_speedup: float) -> bool:
        """Return False: the last candidate is the base, faster or not."""
        return False

    def _last(self, view: RunView) -> Attempt | None:
        """Return the end of the chain: the last candidate on which something is left to try."""
        return next((a for a in reversed(view.attempts) if a.candidate not in view.exhausted), None)
