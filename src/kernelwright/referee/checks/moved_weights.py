"""Do calls use weights that change while a series of calls goes on?

Between series there is a pause, in which a candidate may look whether its weights have changed. So here they
change without one: the parent feeds calls and writes other weights while the calls go on. Calls that begin
after the writing must use the new weights. What the others return is not judged.
"""

import random
from collections.abc import Iterator, Mapping, Sequence

from kernelwright.core.evaluation import Check, Status
from kernelwright.referee.checks.verify import still_matches
from kernelwright.referee.session.candidate_process import CandidateProcess, Failure
from kernelwright.referee.session.input_samples import InputSample, WeightState
from kernelwright.referee.session.weight_exchange import WeightExchange
from kernelwright.referee.worker.layouts import Slot

SLOW_S = 0.01
"""Slower candidates are timed in series of one call: their weights change before every call."""
TURNS, N_LOOKED = 10, 2
"""How often weights change, and how many outputs are compared each time. A turn shows nothing where all calls
have begun before the parent has written, as happens on a busy machine."""


class MovedWeights:
    """Series of calls of one candidate in which its weights change."""

    def __init__(
        self, worker: CandidateProcess, draws: Sequence[InputSample], weights: WeightExchange, timed_s: float
    ) -> None:
        """``draws``: the samples that were timed. ``timed_s``: what a timed call of the candidate took."""
        self._worker, self._reference, self._weights = worker, worker.reference, weights
        self._rng, self._timed_s = random.Random(), timed_s
        self._sets = dict(zip(self._rng.sample(list(worker.slots), len(draws)), draws, strict=True))

    def check(self) -> None:
        """Have weights change to and fro; raises Failure. Does nothing where buffers change in every call."""
        changes_state = any(draw.changed for draw in self._sets.values())
        if self._reference.device.is_apart or changes_state or self._timed_s > SLOW_S:
            return
        for before, after, slots in self._moves():
            for name, draw in self._sets.items():
                self._worker.fill(name, draw.inputs)
            self._worker.load_state(before)
            self._change(after, slots)
            self._worker.load_state(self._weights.state)

    def _moves(self) -> Iterator[tuple[WeightState, WeightState, Mapping[str, Slot]]]:
        """Yield weights, others, and what differs: parameters alone, as a module may bind a buffer anew."""
        layout = self._reference.layout
        first, *others = self._weights.states
        for turn in range(TURNS if others else 0):
            other = self._rng.choice(others)
            differing = {
                name: slot for name, slot in layout.state.items()
                if first.memory.differs_from(other.memory, slot)
            }  # fmt: skip
            if layout.parameters.issuperset(differing):
                yield (first, other, differing) if turn % 2 else (other, first, differing)

    def _change(self, after: WeightState, slots: Mapping[str, Slot]) -> None:
        """Make one series of calls; no more are fed than outputs are kept, as in every other series."""
        ring, names = self._worker.child.queue.ring, list(self._sets)
        calls = [names[i % len(names)] for i in range(ring)]
        left = self._rng.randint(ring // 2, ring - 1)
        n_after = self._worker.run_during(calls, left, after, slots, n_looked=N_LOOKED)
        for position, output in self._worker.looked:
            draw = self._reference.draw_on(self._sets[calls[position - n_after]], after)
            if not still_matches(self._reference, draw, output):
                detail = "a call did not use its weights: they had changed while calls before it went on"
                raise Failure(Status.REJECTED, detail, check=Check.WEIGHTS)
