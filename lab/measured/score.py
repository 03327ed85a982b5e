"""How good an order of evaluations is: the score of the auto-tuning community, and evaluations to a share.

The score of a run is the mean, over the evaluations that random search is expected to need until 95 % of the
way from the median to the optimum, of how far the run is ahead of random search, as a share of how far the
optimum is. Random search has 0, who begins at the optimum 1. Source: Willemsen and others, "A methodology for
comparing optimization algorithms for auto-tuning" (2024). Two things are ours: evaluations are counted
instead of seconds, and the score ends with the budget where random search is expected to need more.
"""

import math
import random
from collections.abc import Sequence
from statistics import fmean

import numpy as np

from kernelwright.core.intervals import Interval
from lab.measured.space import Key, MeasuredSpace

CUTOFF = 0.95
"""Share of the way from the median to the optimum at which the score ends."""
RESAMPLES = 1000


def best_so_far(space: MeasuredSpace, order: Sequence[Key], budget: int) -> list[float]:
    """Return the best time after each evaluation, the slowest of the space where nothing ran so far."""
    found, best = [], space.able[-1]
    for key in order[:budget]:
        best = min(best, space.times[key] or best)
        found.append(best)
    return found + [best] * (budget - len(found))


def evaluations_to(space: MeasuredSpace, order: Sequence[Key], above: float, budget: int) -> int | None:
    """Return the evaluations until a time at most ``above`` over the optimum; None: not in the budget."""
    bar = (1 + above) * space.best
    for number, best in enumerate(best_so_far(space, order, budget), 1):
        if best <= bar:
            return number
    return None


def random_best(space: MeasuredSpace, budget: int) -> list[float]:
    """Return the expected best time of random search without repetition, after each evaluation.

    A point that fails counts as the slowest one.
    """
    total = len(space.times)
    times = np.array(space.able + [space.able[-1]] * (total - len(space.able)))
    found, above = [], np.ones(total)
    for number in range(1, min(budget, total) + 1):
        # above[i]: the chance that no draw so far is among the i fastest
        left = total - np.arange(total) - (number - 1)
        above = above * np.maximum(left, 0) / (total - number + 1)
        chances = above - np.append(above[1:], 0.0)
        found.append(float(chances @ times))
    return found + [found[-1]] * (budget - len(found))


def cutoff(space: MeasuredSpace) -> int:
    """Return the evaluations that random search is expected to need for the share."""
    bar = space.best + (1 - CUTOFF) * (space.middle - space.best)
    slower = sum(time > bar for time in space.able)
    return math.ceil(slower / (len(space.able) + 1 - slower))


def score(space: MeasuredSpace, order: Sequence[Key], budget: int) -> float:
    """Return the score of one run; where the budget is below the cutoff, up to the budget."""
    end = min(cutoff(space), budget)
    of_random, own = np.array(random_best(space, end)), np.array(best_so_far(space, order, end))
    return float(np.mean((of_random - own) / (of_random - space.best)))


def bootstrap(rows: Sequence[Sequence[float]]) -> Interval:
    """Return the 95 % interval of the mean over rows of each row's mean, drawing anew within each row.

    A row holds the runs of one space, one for each seed: the interval is over seeds, for these spaces.
    """
    rng = random.Random(0)
    found = sorted(fmean(fmean(rng.choices(row, k=len(row))) for row in rows) for _ in range(RESAMPLES))
    return Interval(found[int(0.025 * RESAMPLES)], found[int(0.975 * RESAMPLES) - 1])
