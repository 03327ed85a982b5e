"""How fast a model with kernels in its blocks is in this process, beside the model as it was given.

The referee judges one file in the place of a patched model (``printing.py``): that file has neither the
model's own Python between the blocks nor their checks. What these cost shows here, where the model will run.
"""

import time
from collections.abc import Sequence

from torch import nn

from kernelwright.core.evaluation import Speedup
from kernelwright.delivery.making import ExampleCall
from kernelwright.referee.timing.statistics import compare
from kernelwright.whole.profiling import call_once

SECONDS = 5.0
"""After which no round begins once there are the fewest; our choice."""
FEWEST, MOST = 8, 60
"""Rounds; our choice."""
WARM_UP = 2


def timed_in_turn(
    original: nn.Module, patched: nn.Module, calls: Sequence[ExampleCall], *, seconds: float = SECONDS
) -> Speedup:
    """Return the speedup of the patched model over the original, called in turn, without gradients.

    A round is one call of each on every workload; who begins changes with each.

    Raises:
        TaskError: one of them does not run on the examples.
    """
    sides = (original, patched)
    for side in sides * WARM_UP:
        _ms(side, calls)
    times: tuple[list[float], list[float]] = ([], [])
    begun = time.perf_counter()
    while len(times[0]) < FEWEST or (len(times[0]) < MOST and time.perf_counter() - begun < seconds):
        order = (0, 1) if len(times[0]) % 2 == 0 else (1, 0)
        for number in order:
            times[number].append(_ms(sides[number], calls))
    return compare("eager", *times)


def _ms(model: nn.Module, calls: Sequence[ExampleCall]) -> float:
    start = time.perf_counter()
    for call in calls:
        call_once(model, call)
    return 1e3 * (time.perf_counter() - start)
