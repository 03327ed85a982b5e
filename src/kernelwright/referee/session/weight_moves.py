"""The changes of one element of weights that a session uses, and the reference's outputs after them."""

import math
import random
import time
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from kernelwright.referee.checks.tolerance import decode
from kernelwright.referee.session.call_queue import Bytes
from kernelwright.referee.session.input_samples import ONE_ELEMENT, InputSample, SampleLayout, WeightState
from kernelwright.referee.session.live_weights import view_of
from kernelwright.referee.session.moved_weights import Element, MovedWeights
from kernelwright.referee.session.sample_maker import (
    CHANGED_BY,
    N_PARTNERS,
    TRADES,
    DrawMaker,
    NonFinite,
    encoded,
)
from kernelwright.referee.worker.layouts import Slot

MOST_BYTES, MOST_SAMPLES = 64 << 20, 48
"""Samples on moved weights that are kept in a session."""
HEAVY_BYTES, SLOW_MS = 16 << 20, 30.0
"""Where weights are larger, or the reference slower, samples are made only as far as time allows."""
LOOKED_BYTES = 1 << 20
"""In so much of a parameter its largest value is looked for."""


class WeightMoves:
    """The changes of one reference's weights, made when they are first needed and kept for the session."""

    def __init__(self, maker: DrawMaker, layout: SampleLayout, eager_ms: float, *, is_frozen: bool) -> None:
        """``is_frozen``: weights never change within a process, so there are no changes."""
        self._maker, self._layout = maker, layout
        self._rng = random.Random()
        self._made: dict[tuple[str, str], MovedWeights] = {}
        """By the names of base and parameter."""
        self._useless: set[tuple[str, str]] = set()
        """Those after which the reference is not finite, or which an untied tensor shares."""
        self._is_hard = layout.state_bytes > HEAVY_BYTES or eager_ms > SLOW_MS
        fitting = MOST_BYTES // max(3 * maker.output_bytes, 1)
        self._room = 0 if is_frozen else max(3, min(MOST_SAMPLES, fitting))
        """How many samples more may be made."""

    def prepare(self, draws: Sequence[InputSample], limit_s: float) -> float:
        """Make samples after a change of the weights of these, for about so long; return the seconds taken.

        None is made without a positive limit, except the first on these weights, where that is cheap. The
        reference has other weights afterwards, if it took any time.
        """
        begin, base = time.perf_counter(), draws[0].state
        names = self._movable(base, draws[0].changed)
        is_wanted = limit_s > 0 or not (self._is_hard or self.pick(draws))
        if not is_wanted or not self._room or not names:
            return 0.0
        key = base.name, self._name(names)
        if key not in self._made:
            slot = self._layout.state[key[1]]
            self._made[key] = MovedWeights(base, key[1], slot, tuple(self._elements(base, slot)))
        moved = self._made[key]
        missing = [draw for draw in draws if moved.after(draw) is None]
        if not missing:
            return 0.0
        for draw in self._rng.sample(missing, len(missing)):
            if not self._room or not self._add(moved, draw) or time.perf_counter() - begin > limit_s:
                break
        return time.perf_counter() - begin

    def _name(self, names: Sequence[str]) -> str:
        """Choose a parameter: half of the time any one, else by size, for large ones are worth preparing."""
        sizes = [math.prod(self._layout.state[name]["shape"]) for name in names]
        total = sum(sizes)
        weights = [1 / len(names) + size / total for size in sizes]
        return self._rng.choices(names, weights)[0]

    def pick(self, draws: Sequence[InputSample]) -> MovedWeights | None:
        """Return a change after which it is known what calls on some of these samples return."""
        fitting = [one for one in self._made.values() if any(map(one.after, draws))]
        return self._rng.choice(fitting) if fitting else None

    def _movable(self, base: WeightState, changed: Mapping[str, object]) -> list[str]:
        """Return parameters of which elements can change alone, and which the reference does not change."""
        layout = self._layout
        return [
            name for name, slot in layout.state.items()
            if name in layout.parameters and name not in changed and slot in layout.changeable
            and (base.name, name) not in self._useless
        ]  # fmt: skip

    def _add(self, moved: MovedWeights, draw: InputSample) -> bool:
        """Have reference and oracle run on a sample after the change; False where that says nothing."""
        self._maker.load_state(moved.base)
        if not all(self._maker.element(moved.name, at) for at, _, _ in moved.elements):
            self._useless.add((moved.base.name, moved.name))
            return False
        try:
            with moved.applied() as state:
                moved.samples[id(draw.inputs)] = self._maker.draw_on(draw, state)
        except NonFinite:
            self._useless.add((moved.base.name, moved.name))
            moved.samples.clear()
            return False
        self._room -= 1
        return True

    def _elements(self, base: WeightState, slot: Slot) -> Iterator[Element]:
        """Choose one element that becomes a large one, or two that trade places where they differ."""
        view = view_of(base.memory, slot)
        at, *others = (tuple(map(self._rng.randrange, view.shape)) for _ in range(N_PARTNERS))
        values = {index: complex(decode(_bytes(view[index]), slot["dtype"])[0]) for index in (at, *others)}
        other = max(others, key=lambda index: abs(values[index] - values[at]))
        if self._rng.random() < TRADES and values[other] != values[at]:
            yield at, _bytes(view[at]), _bytes(view[other])
            yield other, _bytes(view[other]), _bytes(view[at])
            return
        raw = base.memory.slot_bytes(slot)[:LOOKED_BYTES]
        largest = float(np.abs(decode(raw, slot["dtype"])).max()) or 1.0
        by = 1.0 if base.style == ONE_ELEMENT else CHANGED_BY  # there is a large one already
        yield at, _bytes(view[at]), encoded(by * largest, slot["dtype"])


def _bytes(word: np.generic) -> Bytes:
    return np.frombuffer(word.tobytes(), np.uint8)
