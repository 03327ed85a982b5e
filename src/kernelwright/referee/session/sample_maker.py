"""Makes weight samples and input samples, with the outputs of reference and oracle on them."""

import contextlib
import functools
import itertools
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from kernelwright.core.errors import TaskError
from kernelwright.core.policy import Nonfinite
from kernelwright.referee.checks.tolerance import (
    COMPLEX_PARTS,
    EVEN,
    ULP,
    ExpectedNonFinite,
    ExpectedOutput,
    Slack,
    Storage,
    decode,
    image_width,
    is_float,
    row_width,
)
from kernelwright.referee.session.call_records import MOST_OUTPUTS, argument_ranges, describe
from kernelwright.referee.session.host_process import HostProcess
from kernelwright.referee.session.input_samples import (
    ALIKE,
    AROUND,
    CONSTRUCTED,
    FOLLOWING,
    NONFINITE,
    ONE_ELEMENT,
    RENEWED,
    SOLVED,
    TOUCHED,
    UNEVEN,
    InputSample,
    OutputSpec,
    SampleKey,
    SampleLayout,
    WeightState,
    new_seed,
)
from kernelwright.referee.session.live_weights import LiveWeights
from kernelwright.referee.session.shared_memory import (
    ITEM_BYTES,
    SharedMemory,
    TensorMemory,
    place,
    slot_nbytes,
    whole_pages,
)
from kernelwright.referee.worker.layouts import Slot
from kernelwright.referee.worker.wire import Message

Bytes: TypeAlias = npt.NDArray[np.uint8]
Flags: TypeAlias = npt.NDArray[np.bool_]
PROBES = ("nonfinite_up", "nonfinite_down")
"""Large and small finite values in the places of NaN and infinity."""
N_STILL, N_TURNS = 3, 12
"""Inputs, or what the oracle computes inside, are moved until no output has jumped anew in `N_STILL` turns on
end: every element must have had a chance to jump. `N_TURNS` are the most."""


SMOOTH = 8.0
"""Where inputs move by units of half precision, results move smoothly by up to so many of these."""
ANOTHER = "another"
"""Name of a second construction, whose weights take turns with the first one's."""
TRADES, N_PARTNERS = 0.5, 16
"""Share of the changes during timing in which two elements trade places; of so many, two that differ much."""
CHANGED_BY = 16.0
"""One element becomes this many times the largest of its tensor, so that outputs show whether it was read."""
SHARES, NEAREST = (2.0**-3, 2.0**-10), 1 / 3
"""Where the reference is not finite then, an element moves by these shares of its size, or of its distance
from the nearest other value: knots stay sorted, and a matrix positive definite."""
N_STEPS = 1 + len(SHARES) + 1
"""How far an element moves: 0 is far, the last step the smallest."""


MOST_AT_ONCE, AT_ONCE_BYTES = 64, 4 << 20
"""Most unseen inputs, and most bytes of them, that are drawn in one command."""


class NonFinite(Exception):
    """The reference itself gives NaN or infinity on a sample, or refuses it."""


class Unchanged(Exception):
    """An input distribution changes nothing of what the task draws."""


class _Spare:
    """Shared memory in which samples are drawn, one after the other: fresh pages are slow."""

    def __init__(self, name: str, size: int) -> None:
        self.name = name
        """Of the argument set in the host."""
        self.inputs = SharedMemory(size)
        self.inputs.bytes.fill(AROUND)
        self.storage: defaultdict[int, Storage] = defaultdict(dict)
        self.is_mapped = self.is_bound = False


class DrawMaker:
    """Makes the samples of one workload. The first sample defines the contract of the outputs."""

    def __init__(self, host: HostProcess, layout: SampleLayout, nonfinite: Nonfinite) -> None:
        self._host, self._layout, self._nonfinite = host, layout, nonfinite
        self._mixes = False
        """Whether values of an image may mix; known once the reference has been asked."""
        self._names = (f"draw{i}" for i in itertools.count())
        self._spares: dict[int, _Spare] = {}
        self._watched: dict[str, Slot] = dict(layout.state)
        floats = {slot["dtype"] for slot in layout.arg_slots if is_float(slot["dtype"])}
        self._ulp = ULP["float64" if floats == {"float64"} else "float32"]
        """A unit in the last place of the arithmetic that the task asks for."""
        self._weights = LiveWeights(host.call, layout, is_apart=host.device.is_apart)
        self._after = SharedMemory(layout.state_bytes)
        self.outputs: tuple[OutputSpec, ...] = ()
        self._scales: list[float] = []
        """Root mean squares of the outputs on the first sample. Where all inputs are the same, outputs may be
        zero, and what is left of them is rounding."""

    def watch(self, names: Iterable[str]) -> None:
        """Compare only these parameters and buffers before and after a call, instead of all."""
        self._watched = {name: self._layout.state[name] for name in names}

    def make_state(self, name: str, style: str, seed: int) -> WeightState:
        """Make weights: construct under a secret seed, then change them at random as the style says."""
        memory = SharedMemory(self._layout.state_bytes)
        arena = f"state {name}"
        self._host.call("draw_state", {arena: memory}, seed=seed, change=new_seed(), style=style,
                        slots=self._layout.state, arena=arena)  # fmt: skip
        self._host.forget(arena)
        return self._as_held(WeightState(name, style, memory))

    def _as_held(self, state: WeightState) -> WeightState:
        """Return weights that a module can hold: where tensors share memory, the last one written counts."""
        if self._weights.has_shared:
            self.load_state(state)
            self._weights.read(self._layout.state, state.memory)
        return state

    def make_other(self, name: str, style: str, state: WeightState, seed: int, step: int = 0) -> WeightState:
        """Return weights to take turns with ``state``.

        ``name``: ``ANOTHER`` construction, changed by a style, or ``ONE_ELEMENT`` new, by a step.
        """
        if name == ANOTHER:
            return self.make_state(name, style, seed)
        rng = random.Random(seed)
        return self.change_one(name, state, rng, trades=rng.random() < TRADES, step=step)

    def change_one(
        self, name: str, state: WeightState, rng: random.Random, *, trades: bool, step: int = 0
    ) -> WeightState:
        """Return weights of which one element of one tensor, or with ``trades`` two, are others."""
        memory = state.memory.copy()
        if slots := self._layout.changeable:
            change_one(memory, rng.choice(slots), rng, trades=trades, step=step)
        return self._as_held(WeightState(name, ONE_ELEMENT, memory))

    def draw_on(self, sample: InputSample, state: WeightState) -> InputSample:
        """Return the sample with the same inputs on other weights; raises NonFinite."""
        key = replace(sample.key, state=state.name)
        try:
            with self._called_on(sample.inputs.bytes, state) as place:
                return self._with_oracle(key, state, sample.inputs, place.name, defaultdict(dict))
        except TaskError as error:
            raise NonFinite("the reference refuses it") from error

    def load_state(self, state: WeightState, slots: Mapping[str, Slot] | None = None) -> None:
        """Load a weight sample into the reference."""
        self._weights.write(state, slots)

    def element(self, name: str, at: tuple[int, ...]) -> list[Bytes]:
        """Return where the bytes of one element of the reference's weights lie; see LiveWeights.element."""
        return self._weights.element(name, at)

    def fetch_state(self, slots: Mapping[str, Slot]) -> TensorMemory:
        """Return the reference's state as it is now; valid until the next time."""
        self._weights.read(slots, self._after)
        return self._after

    def make_draw(
        self, key: SampleKey, state: WeightState, seed: int, *, keeping: int = 0, spare: int | None = None,
        is_renewed: bool = False,
    ) -> InputSample:  # fmt: skip
        """Draw inputs and run reference and oracle on them; raises NonFinite.

        Args:
            key: which sample.
            state: the weights.
            seed: of values and choices.
            keeping: what float inputs keep of their values as drawn; see ``host/odd_rows.Keeping``. With more
                than nothing kept, a distribution that changes nothing raises Unchanged.
            spare: number of the memory in which the sample lies until the next one there; None: its own.
            is_renewed: what comes again in every draw of the task is other.
        """
        place = self._spare(spare or 0)
        before = None
        if key.family in FOLLOWING:
            self._draw_inputs(place, seed, SampleKey("as_is"))
            before = place.inputs.copy()
        hangs = (
            self._hangs_on(place, state, seed, keeping) if key.family == NONFINITE and self.outputs else None
        )
        drawn_as = replace(key, family=RENEWED) if is_renewed else key
        if key.family in (ALIKE, *SOLVED):  # inputs may hang on weights
            self.load_state(state)
        drawn = self._draw_inputs(place, seed, drawn_as, keeping)
        if keeping and not drawn["is_changed"]:
            raise Unchanged
        with self._bound(place):
            self.load_state(state)
            self._run_reference(place.name, key, is_renewed=is_renewed)
            if not self.outputs:
                self._learn_outputs(self._described())
            is_kept = spare is None
            inputs, storage = (
                (place.inputs.copy(), defaultdict(dict)) if is_kept else (place.inputs, place.storage)
            )
            return replace(
                self._with_oracle(key, state, inputs, place.name, storage, hangs=hangs), before=before
            )

    def _hangs_on(self, place: _Spare, state: WeightState, seed: int, keeping: int) -> list[Flags] | None:
        """Return which elements of each output hang on the values where NaN and infinity are to stand.

        None: the reference refuses other values there.
        """
        found: list[list[Bytes]] = []
        slots = self.output_slots
        for family in ("as_is", *PROBES):
            self._draw_inputs(place, seed, SampleKey(family), keeping if family in PROBES else 0)
            with self._bound(place):
                self.load_state(state)
                try:
                    self._host.make_calls([place.name])
                except TaskError:
                    return None
                self._host.write_output("results", slots)
            found.append([self._scratch["results"].slot_bytes(slot).copy() for slot in slots])
        return [
            _differ(first, others, slot["dtype"])
            for slot, (first, *others) in zip(slots, zip(*found, strict=True), strict=True)
        ]

    def _draw_inputs(self, place: _Spare, seed: int, key: SampleKey, keeping: int = 0) -> Message:
        return self._host.call(
            "draw_inputs", self._to_map(place), seed=seed, family=key.family, variant=key.variant,
            keeping=keeping, arena=place.name,
        )  # fmt: skip

    def ask(self, seed: int, *, solves: bool) -> Message:
        """Have the host find out what the reference accepts as inputs, on the weights that it has.

        ``solves``: also which families of ``SOLVED`` it has something for.
        """
        accepted = self._host.call("ask", seed=seed, nonfinite=str(self._nonfinite), solves=solves)
        self._mixes = bool(accepted["mixes"])
        return accepted

    def tell(self, accepted: Message) -> None:
        """Tell the host what another one of the same reference answered."""
        self._host.call("tell", accepted=accepted["accepted"])
        self._mixes = bool(accepted["mixes"])

    def _run_reference(self, name: str, key: SampleKey, *, is_renewed: bool) -> None:
        """Call the reference; raises TaskError where it refuses its own inputs, else NonFinite."""
        try:
            self._host.make_calls([name])
        except TaskError as error:
            if (key.family, key.state, is_renewed) == ("as_is", CONSTRUCTED, False):
                raise
            raise NonFinite("the reference refuses it") from error

    def draw_of(self, key: SampleKey, state: WeightState, raw: Bytes) -> InputSample:
        """Return the sample for as-is inputs drawn before; raises NonFinite.

        The sample lies in the first spare memory.
        """
        with self._called_on(raw, state) as place:
            return self._with_oracle(key, state, place.inputs, place.name, place.storage)

    def output_on(self, state: WeightState, raw: Bytes) -> TensorMemory:
        """Return the reference's outputs on as-is inputs drawn before; valid until the next command."""
        with self._called_on(raw, state):
            self._host.write_output("results", self.output_slots)
        return self._scratch["results"]

    @contextlib.contextmanager
    def _called_on(self, raw: Bytes, state: WeightState) -> Iterator[_Spare]:
        """Put inputs into the first spare memory and call the reference on them."""
        place = self._spare(0)
        place.inputs.bytes[:] = raw
        with self._bound(place):
            self.load_state(state)
            self._host.make_calls([place.name])
            yield place

    @contextlib.contextmanager
    def _bound(self, place: _Spare) -> Iterator[None]:
        """Have the host know a spare memory as an argument set.

        It stays one, except on a device, which has a copy of what was there when it was bound.
        """
        if not place.is_bound:
            self._host.bind(place.name, self._layout.args, self._to_map(place).get(place.name))
            place.is_bound = True
        try:
            yield
        finally:
            if self._host.device.is_apart:
                self._host.forget(place.name)
                place.is_bound = place.is_mapped = False

    def _to_map(self, place: _Spare) -> dict[str, SharedMemory]:
        """Return what the next command has to map in the host."""
        arenas = {} if place.is_mapped else {place.name: place.inputs}
        place.is_mapped = True
        return arenas

    def kept_output(self, which: int) -> TensorMemory:
        """Return the outputs of a call that the reference kept; valid until the next command."""
        self._host.write_output("results", self.output_slots, which + 1)
        return self._scratch["results"]

    def widen(self, draw: InputSample, *, is_exact: bool, is_enough: Callable[[], bool]) -> None:
        """Widen the tolerance of a sample by how ill-conditioned the problem is on it.

        Args:
            draw: The sample.
            is_exact: For what equality decides about, else for floats.
            is_enough: Asked after every turn; no more is shown once it says so.
        """
        changed = {name: self._watched[name] for name in draw.changed}
        first = draw.outputs[0]
        ulps = first.units if is_exact else 0.0

        def nudged() -> bool:
            seed = new_seed()  # one way or the other leads over an edge
            return any([self._see_nudged(draw, changed, seed, ulps, way=way) for way in (1, -1)])

        if until_still(nudged, is_enough):
            return
        sizes = (first.units, first.least_units)
        if not is_exact and self._see_rounded(draw, changed, sizes, is_enough):
            return
        for one in (*draw.outputs, *draw.changed.values()):
            one.is_widened |= is_float(one.dtype) is not is_exact

    def _see_rounded(
        self,
        draw: InputSample,
        changed: Mapping[str, Slot],
        sizes: Sequence[float],
        is_enough: Callable[[], bool],
    ) -> bool:
        """Show what is expected how the oracle jumps where its own results move as roundings move them.

        ``sizes``: by how many units in the last place; each in every turn. Returns whether it is enough.
        """
        name = next(self._names)
        inputs = SharedMemory(self._layout.args_bytes)
        inputs.copy_from(draw.inputs)
        self._host.bind(name, self._layout.args, inputs)

        def rounded(units: float) -> bool:
            moved_by = units * self._ulp
            slots, _ = self._run_oracle(draw.state, name, changed, rounding=moved_by)
            truth = self._scratch["truth"]
            expected = zip([*draw.outputs, *draw.changed.values()], slots, strict=True)
            jumps = [one.widen_where_it_jumps(truth.slot_bytes(s), moved_by=moved_by) for one, s in expected]
            return any(jumps)

        try:
            return until_still(lambda: any([rounded(units) for units in sizes]), is_enough)
        except TaskError:  # moved out of a range that the reference checks
            return False
        finally:
            self._host.forget(name)

    def _see_nudged(
        self, draw: InputSample, changed: Mapping[str, Slot], seed: int, ulps: float, *, way: int
    ) -> bool:
        """Show what is expected how the oracle moves with the inputs; exact dtypes where ``ulps`` is not 0.

        What decides about these may be lost in float32 arithmetic, so they see the reference's move too, and
        an oracle whose results are moved as roundings would move them. ``way``: 1, or -1 for the other way.
        Returns whether they jump where they never did.
        """
        name = next(self._names)
        inputs = SharedMemory(self._layout.args_bytes)
        inputs.copy_from(draw.inputs)
        nudged = self._host.call("nudge_inputs", {name: inputs}, seed=seed, ulps=ulps, way=way, arena=name)
        self._host.bind(name, self._layout.args)
        try:
            if ulps:
                self.load_state(draw.state)
                self._host.make_calls([name])
                self._host.write_output("results", self.output_slots)
            slots, _ = self._run_oracle(draw.state, name, changed, rounding=ulps * self._ulp)
        except TaskError:  # moved out of a range that the reference checks
            return False
        finally:
            self._host.forget(name)
        truth, results, is_open = self._scratch["truth"], self._scratch["results"], nudged["is_open"]
        is_new = False
        for one, slot in zip([*draw.outputs, *draw.changed.values()], slots, strict=True):
            if not ulps:
                one.widen(truth.slot_bytes(slot), nudged["unit"])
                if is_open:
                    is_half = nudged["unit"] > ULP["float32"]
                    is_new |= one.widen_where_it_jumps(
                        truth.slot_bytes(slot), moved_by=one.least_units * self._ulp, in_rows=True,
                        least=SMOOTH * nudged["unit"] if is_half else 0.0,
                    )  # fmt: skip
        for one, slot, wide in zip(draw.outputs, self.output_slots, slots, strict=False) if ulps else ():
            is_new |= one.widen_exact(results.slot_bytes(slot), truth.slot_bytes(wide), is_open=is_open)
        return is_new

    def draw_more(self, memory: TensorMemory, count: int) -> None:
        """Fill ``memory`` with ``count`` unseen as-is inputs, one after the other, and renewed."""
        place, stride = self._block, whole_pages(self._layout.args_bytes)
        at_once = place.inputs.size // stride
        for first in range(0, count, at_once):
            seeds = [new_seed() for _ in range(min(at_once, count - first))]
            self._host.call(
                "draw_more", self._to_map(place), seeds=seeds, stride=stride, arena=place.name
            )  # fmt: skip
            begin, drawn = first * stride, len(seeds) * stride
            memory.bytes[begin : begin + drawn] = place.inputs.bytes[:drawn]

    @functools.cached_property
    def _block(self) -> _Spare:
        """Memory in which several samples are drawn at once: where they are small, asking takes longest."""
        stride = whole_pages(self._layout.args_bytes)
        at_once = min(MOST_AT_ONCE, AT_ONCE_BYTES // stride)
        return _Spare("block", at_once * stride) if at_once > 1 else self._spare(0)

    def _spare(self, number: int) -> _Spare:
        if number not in self._spares:
            self._spares[number] = _Spare(f"spare{number}", self._layout.args_bytes)
        return self._spares[number]

    def _with_oracle(
        self,
        key: SampleKey,
        state: WeightState,
        inputs: TensorMemory,
        name: str,
        storage: Mapping[int, Storage],
        *,
        hangs: Sequence[Flags] | None = None,
    ) -> InputSample:
        """``hangs``: see ``ExpectedNonFinite``, for every output."""
        results, after, truth = self._scratch["results"], self._after, self._scratch["truth"]
        self._host.write_output("results", self.output_slots)
        self.fetch_state(self._watched)
        changed = {n: s for n, s in self._watched.items() if after.differs_from(state.memory, s)}
        slots, averaged = self._run_oracle(state, name, changed)
        n_outputs = len(self.output_slots)
        scales = self._scales if key.may_vanish else [0.0] * n_outputs
        slack = self._slack(key, state)
        outputs = [
            self._expected(
                slot,
                results,
                wide_slot,
                truth,
                storage[i],
                key.family,
                slack,
                scales[i],
                hangs=None if hangs is None else hangs[i],
            )
            for i, (slot, wide_slot) in enumerate(zip(self.output_slots, slots, strict=False))
        ]
        self._scales = self._scales or [output.rms for output in outputs]
        buffers = {
            n: self._expected(slot, after, wide_slot, truth, {}, key.family, slack, averaged[n])
            for (n, slot), wide_slot in zip(changed.items(), slots[n_outputs:], strict=True)
        }
        if not all(expected.is_finite for expected in [*outputs, *buffers.values()]):
            raise NonFinite("the reference gives NaN or infinity there")
        return InputSample(key, state, inputs, tuple(outputs), buffers)

    def _run_oracle(
        self, state: WeightState, name: str, changed: Mapping[str, Slot], rounding: float = 0.0
    ) -> tuple[list[Slot], dict[str, float]]:
        """Have the oracle write its outputs, then the state it changes.

        Returns the slots in ``truth``, and the sizes of what changed buffers average.

        ``rounding``: by how much its own results move; see ``InDouble``.
        """
        slots, _ = place([_widened(spec) for spec in [*self.output_slots, *changed.values()]])
        n_outputs = len(self.output_slots)
        self.load_state(state)
        reply = self._host.call(
            "oracle", set=name, arena="truth", slots=slots[:n_outputs], rounding=rounding,
            state_slots=dict(zip(changed, slots[n_outputs:], strict=True)),
        )  # fmt: skip
        return slots, reply["averaged"]

    def _map_scratch(self) -> None:
        """Share memory for results with the host, once for all samples: fresh pages are slow."""
        wide = [_widened(slot) for slot in [*self.output_slots, *self._layout.state.values()]]
        self._scratch = {
            "results": SharedMemory(self.output_bytes),
            "truth": SharedMemory(place(wide)[1]),
        }
        self._host.call("map", self._scratch)

    def _slack(self, key: SampleKey, state: WeightState) -> Slack:
        """Return how much more error is allowed than on ordinary inputs and weights.

        Where values mix, one large weight beside small ones is what large values beside small ones are.
        """
        is_uneven = self._mixes and state.style in (ONE_ELEMENT, TOUCHED) and key.slack == EVEN
        return UNEVEN if is_uneven else key.slack

    def _expected(
        self,
        slot: Slot,
        results: TensorMemory,
        wide: Slot,
        oracle: TensorMemory,
        storage: Storage,
        family: str,
        slack: Slack,
        least_scale: float = 0.0,
        hangs: Flags | None = None,
    ) -> ExpectedOutput:
        n_outputs = max(slot_nbytes(slot) // ITEM_BYTES[slot["dtype"]], 1)
        make: Callable[..., ExpectedOutput] = ExpectedOutput
        if family == NONFINITE:
            make = partial(ExpectedNonFinite, is_exact=self._nonfinite is Nonfinite.SAME, hangs=hangs)
        return make(
            slot["dtype"],
            results.slot_bytes(slot),
            oracle.slot_bytes(wide),
            policy=self._host.task.tolerance,
            inputs_per_output=max(self._layout.n_input_elements / n_outputs, self._layout.longest_reduction),
            slack=slack,
            width=image_width(slot["shape"]) if self._mixes else row_width(slot["shape"]),
            storage=storage,
            least_scale=least_scale,
        )

    def _described(self) -> Message:
        """Return the form of the reference's last outputs."""
        record = self._host.calls.last()
        return describe(record, [*argument_ranges(record), *self._weights.ranges])

    def _learn_outputs(self, reply: Message) -> None:
        """Make the form of the reference's outputs the contract for candidates."""
        self.is_tuple: bool = reply["is_tuple"]
        for i, output in enumerate(reply["outputs"]):
            kind = output["type"]
            got = output.get("dtype") if kind == "torch.Tensor" else kind
            if got not in ITEM_BYTES:
                raise TaskError(
                    f"{self._host.where}: output {i} of the reference is a {got}, not a plain tensor"
                )
        if not reply["outputs"]:
            raise TaskError(f"{self._host.where}: the reference returns no tensor")
        if len(reply["outputs"]) > MOST_OUTPUTS:
            raise TaskError(f"{self._host.where}: the reference returns more than {MOST_OUTPUTS} tensors")
        self.outputs = tuple(
            OutputSpec(
                o["dtype"], tuple(o["shape"]), bool(o["shares"]), o["is_dense"], o["device"],
                frozenset(i for i, j in reply["overlaps"] if j == at),
            )
            for at, o in enumerate(reply["outputs"])
        )  # fmt: skip
        nbytes = sum(spec.nbytes for spec in self.outputs)
        self._host.check_memory(self._layout.args_bytes, nbytes, self._layout.state_bytes)
        self.output_slots, self.output_bytes = place([(o.dtype, o.shape) for o in self.outputs])
        self._map_scratch()


def _differ(ours: Bytes, others: Sequence[Bytes], dtype: str) -> Flags:
    """Return which numbers, or parts of complex ones, are others in one of several calls, bit by bit."""
    size = ITEM_BYTES[COMPLEX_PARTS.get(dtype, dtype)]
    changed = [(ours.reshape(-1, size) != other.reshape(-1, size)).any(axis=1) for other in others]
    found: Flags = np.logical_or.reduce(changed)
    return found


def change_one(
    memory: TensorMemory, slot: Slot, rng: random.Random, *, trades: bool = False, step: int = 0
) -> None:
    """Replace one element of a tensor by a large one, or let two trade places where they differ.

    Where two trade places, the sum, the largest value and the histogram stay as they were. With a ``step``
    they move a little instead.
    """
    raw, dtype = memory.slot_bytes(slot), slot["dtype"]
    values = decode(raw, dtype)
    words = raw.reshape(-1, ITEM_BYTES[dtype])
    one, *others = (rng.randrange(values.size) for _ in range(N_PARTNERS))
    other = max(others, key=lambda at: abs(complex(values[at]) - complex(values[one])))
    trades = trades and values[other] != values[one]
    if step:
        chosen = [one, other] if trades else [one]
        for at, value in zip(chosen, moved_little(values[chosen], values, step), strict=True):
            words[at] = encoded(value, dtype)
        return
    if trades:
        words[[one, other]] = words[[other, one]]
        return
    at, largest = rng.randrange(values.size), float(np.abs(values).max()) or 1.0
    words[at] = encoded(CHANGED_BY * largest, dtype)


def moved_little(values: Iterable[Any], among: npt.NDArray[Any], step: int) -> list[Any]:
    """Return one or two elements a little beside: the first larger, the second smaller by as much.

    ``among``: the elements of their tensor, or some of them.
    """

    def least(value: Any) -> float:
        if step <= len(SHARES):
            return SHARES[step - 1] * float(abs(value) or np.abs(among).max())
        with np.errstate(invalid="ignore"):
            gaps = np.abs(among - value)
        return NEAREST * float(gaps[gaps > 0].min(initial=np.inf))

    values = list(values)
    by = min(map(least, values))
    by = by if np.isfinite(by) else 0.0
    return [value + by * sign for value, sign in zip(values, (1, -1), strict=False)]


def encoded(value: Any, dtype: str) -> Bytes:
    """Return the bytes of a number."""
    if dtype == "bfloat16":  # the upper half of a float32
        return np.array([value], np.float32).view(np.uint8)[2:].copy()
    return np.array([value], dtype).view(np.uint8)


def until_still(shows_news: Callable[[], bool], is_enough: Callable[[], bool]) -> bool:
    """Ask until there is enough, or nothing new comes in `N_STILL` turns on end; return whether there is."""
    n_still = 0
    for _ in range(N_TURNS):
        n_still = 0 if shows_news() else n_still + 1
        if is_enough():
            return True
        if n_still == N_STILL:
            break
    return False


def _widened(slot: Slot) -> tuple[str, tuple[int, ...]]:
    """Return dtype and shape of the oracle's version of a slot."""
    is_complex = slot["dtype"].startswith("complex")
    dtype = "complex128" if is_complex else "float64" if is_float(slot["dtype"]) else slot["dtype"]
    return dtype, tuple(slot["shape"])
