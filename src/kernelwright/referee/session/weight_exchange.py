"""Which weights the timed calls and the replay see next.

The weights of a module change between samples of calls and between passes of the replay, on both sides. At
times all of them change, at times one element only. What a candidate computed from the weights before is then
wrong, and its outputs show it.
"""

import random

from kernelwright.referee.session.input_samples import CONSTRUCTED, InputSample, WeightState
from kernelwright.referee.session.reference_process import ReferenceProcess

STAY = 0.25
"""Share of the turns in which the weights stay as they are."""


class WeightExchange:
    """Turns of one evaluation through the weight samples of its reference."""

    def __init__(self, reference: ReferenceProcess, *, is_frozen: bool = False) -> None:
        """With ``is_frozen`` the weights never change within a process."""
        self._reference, self._rng = reference, random.Random()
        constructed = reference.states[CONSTRUCTED]
        others = [] if is_frozen else reference.other_weights()
        leaves = reference.is_made_alike and len(others) > 1
        self._states = others if leaves else [constructed, *others]
        """Weights that come back. A structure that trained weights lack does not."""
        self.state: WeightState = constructed
        """The weights of this turn."""

    def next(self) -> WeightState:
        """Begin the next turn and return its weights."""
        others = [state for state in self._states if state is not self.state]
        must = len(others) == len(self._states)
        if others and (must or self._rng.random() >= STAY):
            self.state = self._rng.choice(others)
        return self.state

    def draw(self, sample: InputSample) -> InputSample:
        """Return the sample with the same inputs on the weights of this turn."""
        return self._reference.draw_on(sample, self.state)
