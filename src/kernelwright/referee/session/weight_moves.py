"""The changes of one element of weights that a session uses, and the reference's outputs after them."""

import math
import random
import time
from collections import defaultdict
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
    N_STEPS,
    TRADES,
    DrawMaker,
    NonFinite,
    encoded,
    moved_little,
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
        self._steps: defaultdict[tuple[str, str], int] = defaultdict(int)
        """How far an element moves there, as far as is known; see ``sample_maker.N_STEPS``."""
        self._useless: set[tuple[str, str]] = set()
        """Those after which the reference is not finite, or which an untied tensor shares."""
        self._is_hard = layout.state_bytes > HEAVY_BYTES or eager_ms > SLOW_MS
        fitting = MOST_BYTES // max(3 * maker.output_bytes, 1)
        self._is_frozen = is_frozen
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
        is_first = not any(known == base.name for known, _ in self._made)  # it may remain the only one
        name = self._rng.choices(names, self._weights(names, least=0.0 if is_first else 1.0))[0]
        moved = self._made.get((base.name, name))
        missing = [draw for draw in draws if moved is None or moved.after(draw) is None]
        if not missing:
            return 0.0
        end = begin + limit_s
        for draw in self._rng.sample(missing, len(missing)):
            if not self._room or not self._add(base, name, draw, end) or time.perf_counter() > end:
                break
        return time.perf_counter() - begin

    def _weights(self, names: Sequence[str], *, least: float = 1.0) -> list[float]:
        """Return how likely parameters are, by size; together, so much is shared alike besides."""
        sizes = [math.prod(self._layout.state[name]["shape"]) for name in names]
        return [least / len(names) + size / sum(sizes) for size in sizes]

    def pick(self, draws: Sequence[InputSample]) -> MovedWeights | None:
        """Return a change after which it is known what calls on some of these samples return."""
        fitting = [one for one in self._made.values() if any(map(one.after, draws))]
        names = [one.name for one in fitting]
        return self._rng.choices(fitting, self._weights(names))[0] if fitting else None

    def _movable(self, base: WeightState, changed: Mapping[str, object]) -> list[str]:
        """Return parameters of which elements can change alone, and which the reference does not change."""
        layout = self._layout
        return [
            name for name, slot in layout.state.items()
            if name in layout.parameters and name not in changed and slot in layout.changeable
            and (base.name, name) not in self._useless
        ]  # fmt: skip

    def unmet(self, draw: InputSample) -> MovedWeights | None:
        """Return a change that no call has met, and what a call on this sample returns after it.

        It is not kept. None where there is none; the reference has other weights afterwards.
        """
        names = [] if self._is_frozen else self._movable(draw.state, draw.changed)
        if not names:
            return None
        return self._known(draw.state, self._rng.choices(names, self._weights(names))[0], draw, math.inf)

    def _add(self, base: WeightState, name: str, draw: InputSample, end: float) -> bool:
        """Have one more sample after a change of this parameter; False where there is none."""
        key = base.name, name
        moved = self._known(base, name, draw, end, self._made.pop(key, None))
        if moved is None:
            return False
        self._made[key] = moved
        self._room -= 1
        return True

    def _known(
        self, base: WeightState, name: str, draw: InputSample, end: float, moved: MovedWeights | None = None
    ) -> MovedWeights | None:
        """Have reference and oracle run on a sample after a change; None where that says nothing.

        Where the reference is not finite then, a smaller change is tried until ``end``, or the next time.
        """
        key = base.name, name
        self._maker.load_state(base)
        while self._steps[key] < N_STEPS:
            moved = moved or self._moved(base, name)
            if not all(self._maker.element(name, at) for at, _, _ in moved.elements):
                break
            try:
                with moved.applied() as state:
                    moved.samples[id(draw.inputs)] = self._maker.draw_on(draw, state)
            except NonFinite:
                moved = None
                self._steps[key] += 1
                if time.perf_counter() > end and self._steps[key] < N_STEPS:
                    return None
                continue
            return moved
        self._useless.add(key)
        return None

    def _moved(self, base: WeightState, name: str) -> MovedWeights:
        slot, step = self._layout.state[name], self._steps[base.name, name]
        return MovedWeights(base, name, slot, tuple(self._elements(base, slot, step)))

    def _elements(self, base: WeightState, slot: Slot, step: int) -> Iterator[Element]:
        """Choose one element that becomes a large one, or two that trade places where they differ.

        They move a little where the reference takes no more.
        """
        view, dtype = view_of(base.memory, slot), slot["dtype"]
        at, *others = (tuple(map(self._rng.randrange, view.shape)) for _ in range(N_PARTNERS))
        values = {index: decode(_bytes(view[index]), dtype)[0] for index in (at, *others)}
        other = max(others, key=lambda index: abs(complex(values[index]) - complex(values[at])))
        trades = self._rng.random() < TRADES and values[other] != values[at]
        some = decode(base.memory.slot_bytes(slot)[:LOOKED_BYTES], dtype)
        if step:
            chosen = (at, other) if trades else (at,)
            moved = moved_little((values[index] for index in chosen), some, step)
            for index, value in zip(chosen, moved, strict=True):
                yield index, _bytes(view[index]), encoded(value, dtype)
        elif trades:
            yield at, _bytes(view[at]), _bytes(view[other])
            yield other, _bytes(view[other]), _bytes(view[at])
        else:
            by = 1.0 if base.style == ONE_ELEMENT else CHANGED_BY  # there is a large one already
            yield at, _bytes(view[at]), encoded(by * (float(np.abs(some).max()) or 1.0), dtype)


def _bytes(word: np.generic) -> Bytes:
    return np.frombuffer(word.tobytes(), np.uint8)
