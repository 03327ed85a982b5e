"""Weights of which one element becomes another while calls go on, and what calls after that must return.

Between two series of calls there is a pause, in which whoever keeps what it computed from weights may look
whether they have changed. So one element of one parameter, or two that trade places, also change in the
middle of timed series. No process is told and nothing waits. Calls that are fed after the writing certainly
see it, calls that have ended before saw nothing of it, and the few in between are not compared. Then the
weights are put back.
"""

import contextlib
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from kernelwright.referee.session.call_queue import Bytes
from kernelwright.referee.session.calls import Writes
from kernelwright.referee.session.input_samples import ONE_ELEMENT, InputSample, WeightState
from kernelwright.referee.session.live_weights import LiveWeights, view_of
from kernelwright.referee.worker.layouts import Slot

MOVED = "moved"
"""Name of such weights."""
SOON = 4
"""Mostly outputs of so many calls after the writing are compared: later on, something else may make a
candidate look at its weights again."""
Index = tuple[int, ...]
Element = tuple[Index, Bytes, Bytes]
"""Place in a parameter, bytes before and bytes after."""


@dataclass(frozen=True)
class LiveMove:
    """Writes into the weights of one process that belong to one series of calls."""

    writes: Writes
    back: Writes
    is_known: Callable[[int], bool]
    """Is it known what the call at this position of the series returns after the writing?"""

    def put_back(self) -> None:
        """Write what was there before."""
        for to, value in self.back:
            to[:] = value

    def choose(self, places: Sequence[int], unsure: range, count: int) -> list[int]:
        """Choose calls of the series that are compared, most of them from the first after the writing."""
        before = [at for at in places if at < unsure.start]
        after = [at for at in places if at >= unsure.stop and self.is_known(at)]
        first = random.sample(after[:1], min(random.randrange(2), len(after)))
        wanted = max(count - 1, 1) - len(first)
        soon = [at for at in after[:SOON] if at not in first]
        chosen = first + random.sample(soon, min(wanted, len(soon)))
        rest = [at for at in (*before, *after) if at not in chosen]
        return chosen + random.sample(rest, min(count - len(chosen), len(rest)))


@dataclass(frozen=True)
class MovedWeights:
    """One change of one parameter, and what is known of the outputs after it."""

    base: WeightState
    name: str
    slot: Slot
    elements: tuple[Element, ...]
    samples: dict[int, InputSample] = field(default_factory=dict)
    """Samples on the weights after the change, by the identity of the memory of their inputs."""

    def after(self, draw: InputSample) -> InputSample | None:
        """Return the sample with the same inputs after the change; None where it is not known."""
        return self.samples.get(id(draw.inputs)) if draw.state is self.base else None

    @contextlib.contextmanager
    def applied(self) -> Iterator[WeightState]:
        """Have the base hold the weights after the change meanwhile; a copy may be large.

        Whoever judges a sample after the change needs this: the oracle may run once more.
        """
        view = view_of(self.base.memory, self.slot)
        try:
            for at, _, new in self.elements:
                view[at] = new.view(view.dtype)[0]
            yield WeightState(MOVED, ONE_ELEMENT, self.base.memory)
        finally:
            for at, old, _ in self.elements:
                view[at] = old.view(view.dtype)[0]

    def live(self, weights: LiveWeights, is_known: Callable[[int], bool]) -> LiveMove | None:
        """Return the change as writes into a process.

        None where another tensor would change with it, and where the process does not have the base.
        """
        places = [weights.element(self.name, at) for at, _, _ in self.elements]
        pairs = [
            (to, one) for found, one in zip(places, self.elements, strict=True)
            for to in found if np.array_equal(to, one[1])
        ]  # fmt: skip
        if not all(places) or len(pairs) < sum(map(len, places)):
            return None
        writes, back = [(to, new) for to, (_, _, new) in pairs], [(to, old) for to, (_, old, _) in pairs]
        return LiveMove(writes, back, is_known)
