"""Weights of which one element becomes another while calls go on, and what calls after that must return.

Between two series of calls there is a pause, in which whoever keeps what it computed from weights may look
whether they have changed. So one element of one parameter, or two that trade places, also change in the
middle of timed series. No process is told and nothing waits. Calls that are fed after the writing certainly
see it, calls that have ended before saw nothing of it, and the few in between are not compared. Then the
weights are put back.
"""

import contextlib
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from kernelwright.referee.checks.tolerance import decode
from kernelwright.referee.session.call_queue import Bytes
from kernelwright.referee.session.calls import Writes
from kernelwright.referee.session.input_samples import (
    ONE_ELEMENT,
    InputSample,
    SampleLayout,
    WeightState,
)
from kernelwright.referee.session.live_weights import LiveWeights, view_of
from kernelwright.referee.session.sample_maker import (
    CHANGED_BY,
    N_PARTNERS,
    TRADES,
    DrawMaker,
    NonFinite,
    encoded,
)
from kernelwright.referee.worker.layouts import Slot

MOVED = "moved"
"""Name of such weights."""
SOON = 4
"""Mostly outputs of so many calls after the writing are compared: later on, something else may make a
candidate look at its weights again."""
MOST_BYTES, MOST_SAMPLES = 64 << 20, 48
"""Samples on moved weights that are kept in a session."""
HEAVY_BYTES, SLOW_MS = 16 << 20, 30.0
"""Where weights are larger, or the reference slower, samples are made only as far as time allows."""
LOOKED_BYTES = 1 << 20
"""In so much of a parameter its largest value is looked for."""

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
            (to, one) for to, one in zip(places, self.elements, strict=True)
            if to is not None and np.array_equal(to, one[1])
        ]  # fmt: skip
        if len(pairs) < len(places):
            return None
        writes, back = [(to, new) for to, (_, _, new) in pairs], [(to, old) for to, (_, old, _) in pairs]
        return LiveMove(writes, back, is_known)


class WeightMoves:
    """The changes of one reference's weights, made when they are first needed and kept for the session."""

    def __init__(self, maker: DrawMaker, layout: SampleLayout, eager_ms: float, *, is_frozen: bool) -> None:
        """``is_frozen``: weights never change within a process, so there are no changes."""
        self._maker, self._layout = maker, layout
        self._rng = random.Random()
        self._made: dict[tuple[str, str], MovedWeights] = {}
        """By the names of base and parameter."""
        self._useless: set[tuple[str, str]] = set()
        """Those after which the reference is not finite, or which another tensor shares."""
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
        key = base.name, self._rng.choice(names)
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
        if any(self._maker.element(moved.name, at) is None for at, _, _ in moved.elements):
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
        values = {index: float(decode(_bytes(view[index]), slot["dtype"])[0]) for index in (at, *others)}
        other = max(others, key=lambda index: abs(values[index] - values[at]))
        if self._rng.random() < TRADES and values[other] != values[at]:
            yield at, _bytes(view[at]), _bytes(view[other])
            yield other, _bytes(view[other]), _bytes(view[at])
            return
        raw = base.memory.slot_bytes(slot)[:LOOKED_BYTES]
        largest = float(np.abs(decode(raw, slot["dtype"])).max()) or 1.0
        yield at, _bytes(view[at]), encoded(CHANGED_BY * largest, slot["dtype"])


def _bytes(word: np.generic) -> Bytes:
    return np.frombuffer(word.tobytes(), np.uint8)
