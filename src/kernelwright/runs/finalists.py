"""Which of the fastest candidates of a search is measured finally, and in which order the others follow."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kernelwright.core.evaluation import Evaluation, Speedup
from kernelwright.core.finalists import Alternation
from kernelwright.core.plan import Plan

TORCH_COMPILE = "torch_compile"
MOST = 3
"""Candidates that are timed in turn with each other, and measured finally, until one holds; our choice."""


@dataclass(frozen=True)
class FinalChoice:
    """The order in which finalists are measured, and why."""

    order: tuple[str, ...]
    reason: str


def contenders(ranking: Sequence[str], evaluations: Mapping[str, Evaluation]) -> tuple[str, ...]:
    """Return those of the fastest that may be as fast as the first, by the intervals of the search."""
    first, *others = ranking[:MOST]
    least = _interval(evaluations[first])[0]
    return (first, *(other for other in others if _interval(evaluations[other])[1] >= least))


def _interval(evaluation: Evaluation) -> tuple[float, float]:
    return evaluation.speedup_interval() or (0.0, math.inf)


def rules_out_the_next(final: Evaluation) -> bool:
    """Say whether no other finalist needs a final, given one of the first that is not delivered.

    What comes next is no faster. But where only ordinary processes speak against the first, they may not
    speak against the next.
    """
    kept = final.model_copy(update={"ordinary": None}).geomean_speedup()
    return final.is_verified and (final.ordinary is None or kept is None or kept <= 1)


def is_behind_compiler(final: Evaluation | None, *, is_won: bool) -> bool | None:
    """Say whether torch.compile is faster than what a run is about to deliver; None: it may be.

    Args:
        final: the last final verdict; None: there was none.
        is_won: its candidate is to be delivered, else the module as it is.
    """
    if final is None or not final.is_verified:
        return None
    over_eager, over_compiled = final.geomean_speedup(), final.geomean_speedup(TORCH_COMPILE)
    if over_eager is None or over_compiled is None:
        return False
    if is_won:
        found = [result.speedup(TORCH_COMPILE) for result in final.told]
        return any(speedup is not None and speedup.verdict == "slower" for speedup in found)
    if over_eager <= over_compiled:
        return False
    low, high = final.speedup_interval(), final.speedup_interval(TORCH_COMPILE)
    return True if low is not None and high is not None and low[0] > high[1] else None


def choose(timed: Alternation, plans: Mapping[str, Plan], found: Sequence[str]) -> FinalChoice:
    """Choose the fastest; of those that cannot be told apart from it, the simplest, then the earliest.

    The fewer moves a plan has, the simpler it is.

    Args:
        timed: how the finalists did in turn with each other.
        plans: what each of them carries out.
        found: candidates in the order in which the search found them.
    """
    first = timed.order[0]
    alike = [name for name in timed.order if _is_alike(timed.lead_over(name))]
    chosen = min(alike, key=lambda name: (len(plans[name].moves), found.index(name)))
    others = (name for name in timed.order if name != chosen)
    return FinalChoice((chosen, *others), _reason(timed, first, chosen))


def _is_alike(lead: Speedup | None) -> bool:
    return lead is None or lead.verdict == "no_significant_change"


def _reason(timed: Alternation, first: str, chosen: str) -> str:
    parts = []
    for lead in timed.leads:
        ratio = f"{lead.ratio:.2f}x [{lead.low:.2f}, {lead.high:.2f}]"
        if _is_alike(lead):
            parts.append(f"no difference to {lead.baseline[:8]} could be told ({ratio})")
        else:
            parts.append(f"{ratio} as fast as {lead.baseline[:8]}")
    parts += [f"{name[:8]} failed ({why})" for name, why in timed.left_out]
    text = f"timed in turn with each other, {first[:8]} was the fastest: {'; '.join(parts)}"
    if chosen == first:
        return text
    return f"{text}. {chosen[:8]} is chosen: it is the simpler one, or was found earlier"
