"""One workload's reference: its admission, the session's input samples, the copies it is timed on."""

import math
import random
import secrets
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from kernelwright.core.errors import TaskError
from kernelwright.core.policy import Weights
from kernelwright.core.task import Task, Workload
from kernelwright.referee.checks.guard import find_size_problem
from kernelwright.referee.checks.replay_statistics import ON_THE_PROCESSOR
from kernelwright.referee.checks.tolerance import Array, Distance, ExpectedOutput, distance_between, is_float
from kernelwright.referee.device import Device, n_lanes
from kernelwright.referee.sandbox.account import cpu_s
from kernelwright.referee.sandbox.processes import status_bytes
from kernelwright.referee.session import admission
from kernelwright.referee.session.argument_pool import ARGUMENTS, ArgumentPool
from kernelwright.referee.session.call_queue import RING, Bytes
from kernelwright.referee.session.calls import Made
from kernelwright.referee.session.host_process import HostProcess, is_trusted
from kernelwright.referee.session.input_samples import (
    ALIKE_WEIGHTS,
    ALONE,
    CONSTRUCTED,
    FRESH,
    MILD_FAMILIES,
    ODD_FAMILIES,
    ODD_WEIGHTS,
    ONE_ELEMENT,
    RANDOMISED,
    SIGNED_BUFFERS,
    SMALL_WEIGHTS,
    TOUCHED,
    TRADED,
    ZERO_WEIGHTS,
    InputSample,
    SampleKey,
    SampleLayout,
    WeightState,
    new_seed,
    plan_samples,
)
from kernelwright.referee.session.launcher import Launcher
from kernelwright.referee.session.sample_maker import ANOTHER, N_STEPS, DrawMaker, NonFinite, Unchanged
from kernelwright.referee.session.shared_memory import ITEM_BYTES, SharedMemory, TensorMemory
from kernelwright.referee.session.weight_moves import WeightMoves
from kernelwright.referee.settings import RefereeSettings
from kernelwright.referee.worker.layouts import Slot, lanes_of, slots_in
from kernelwright.referee.worker.wire import Message

SLOW_S = 0.5
"""A reference that takes longer than this, its oracle included, gets fewer samples."""
UNSEEN_MS = 500.0
"""For a reference slower than this no unseen sample is made: it needs one more run of the oracle."""
NOISE = 1e-4
"""Largest scaled error between two calls of the reference on the same inputs (thread order)."""
CACHE_SHARE = 0.3
"""Share of the usable memory that cached samples may take."""
TIMED_SET_BYTES = 512 << 20
"""Timed calls rotate through three input sets if three take at most this together, else through two."""
REPLAY_SHARE = 0.1
"""Share of the available memory that the replay of a candidate may take."""
RESERVED_COPIES = 4
"""Heap that every timed process reserves for its calls, as a multiple of inputs and outputs together."""
N_KEEPINGS = 4
"""How much of the values as drawn a sample may have to keep: the members of ``host/odd_rows.Keeping``."""
SEEN_BY_SLOW = ("odd_rows", "mixed")
"""Families of which a slow reference has one sample in the session, so its fresh sample is of another."""
RENEWED_S, RENEWED_SHARE = 0.1, 1 / 12
"""Of the samples that a candidate has met, the next one gets so many others: as many as take this long, and
at least this share of them."""
N_FRESH = 4
"""How often a sample for one evaluation is tried; the last try changes nothing."""
STYLES = ("redrawn", "redrawn_positive", "signed", "positive")
"""Styles of ``host/weight_draws.py``, the strongest first: the first that the reference accepts is used."""
ODD_STYLES = (
    "odd_rows", "odd_rows_but_zero", "tiny_rows", "odd", "odd_but_zero", "odd_but_large", "odd_tiny",
)  # fmt: skip
"""The same for weights of which some elements are odd."""
FLAT_STYLES = {
    ZERO_WEIGHTS: ("all_zero", "half_zero", "half_zero", "one_zero", "one_zero"),
    SMALL_WEIGHTS: ("small",),
    ALIKE_WEIGHTS: ("alike_large", "alike"),
    SIGNED_BUFFERS: ("signed", *(f"signed but {n}" for n in range(8))),
}
"""The same for tensors that change as a whole: styles of ``host/flat_weights.py``."""
LEAST_SETS = 3
"""Argument sets on the processor where they are large, as far as there is memory for a replay."""
FREED_BYTES = (32 << 20) - (64 << 10)
"""An ordinary process takes so much once and gives it back, as programs do. From then on malloc keeps what is
smaller than 32 MiB; larger outputs are fresh pages in every call. Host and worker must agree in this."""
RESERVED_SHARE = 0.1
"""Largest share of the available memory that is reserved for one process."""


class ReferenceProcess:
    """One reference in its own process. Every failure of the reference is a TaskError."""

    def __init__(
        self, launcher: Launcher, settings: RefereeSettings, task: Task, workload: Workload,
        *, is_final: bool = False, is_timed_only: bool = False, accepted: Message | None = None,
    ) -> None:  # fmt: skip
        """Run the reference and admit it.

        With ``is_final`` samples are made for one use only. With ``is_timed_only`` there are two timed sets,
        and no second weights. ``accepted``: what another process of this workload has found out.
        """
        self.task, self.workload = task, workload
        self._is_final, self._is_timed_only = is_final, is_timed_only
        self._settings = settings
        self._cache: dict[SampleKey, InputSample] = {}
        self._cache_bytes = int(CACHE_SHARE * admission.usable_bytes(settings.memory_bytes))
        self._replay_bytes = int(REPLAY_SHARE * admission.available_bytes())
        self._seeds: dict[tuple[SampleKey, int], int] = {}
        self._keepings: dict[SampleKey, int] = {}
        self._alone_seeds: dict[str, int] = {}
        """Name of weights of which one element is another -> seed of the choice of the element."""
        self._styles: list[str] = []
        """Styles of changed weights on which the reference is finite."""
        self._fresh_keys: list[SampleKey] = []
        """What the sample for one evaluation may be."""
        self._making_s: list[float] = []
        self._others: list[WeightState] | None = None
        self.is_made_alike = False
        """Every construction makes some parameter alike; known with ``other_weights``."""
        self._companions: dict[tuple[SampleKey, str], InputSample] = {}
        """Key of a timed sample, name of other weights -> the sample with the same inputs on them."""
        self.skipped: dict[str, str] = {}
        """Input distribution -> why it cannot be used."""
        self.construct_seed = new_seed() % (1 << 31)
        """Seed of both constructors. It is public and decides only what state_dict does not hold."""
        is_ours = is_trusted(task, settings)
        if not is_ours and (problem := find_size_problem(task.source)):
            raise TaskError(f"{task.name}: {problem}")
        self._host = HostProcess(launcher, settings, task, workload)
        self.child, self.call = self._host.child, self._host.call
        try:
            self._open(launcher, accepted)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            self.close()
            if is_ours:
                raise
            raise TaskError(f"{task.name}: the reference's process gives answers of a wrong form") from error
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the process."""
        self.child.kill()

    def draw(self, key: SampleKey) -> InputSample | None:
        """Return a sample of the session, None when it was skipped.

        Samples of timed keys are kept, others as far as memory allows; a final measurement keeps only the
        timed ones. A sample that is not kept is valid until the next one is made.
        """
        if key.label in self.skipped:
            return None
        if key in self._cache:
            return self._cache[key]
        has_room = not self._is_final and (len(self._cache) + 1) * self._draw_bytes <= self._cache_bytes
        is_kept = has_room or key in self.timed_keys
        draw = self._make(key, is_kept=is_kept)
        if draw is not None and is_kept:
            self._cache[key] = draw
        return draw

    def _make(self, key: SampleKey, *, is_kept: bool) -> InputSample | None:
        """Make a sample; where the reference is not finite on it, one that keeps more of what is drawn.

        Where one element of the weights has moved, it moves less.
        """
        began = time.perf_counter()
        is_alone = key.state in ALONE
        reason = ""  # not the error itself: its traceback would keep this frame, and all memory with it
        for at in range(self._keepings.get(key, 0), N_STEPS if is_alone else N_KEEPINGS):
            if is_alone and at:
                self.states[key.state] = self._changed_weights(key.state, ONE_ELEMENT, at)
            seed, keeping = self._seeds.setdefault((key, at), new_seed()), 0 if is_alone else at
            try:
                draw = self._maker.make_draw(
                    key, self.states[key.state], seed, keeping=keeping, spare=None if is_kept else 0
                )
            except Unchanged:
                break
            except NonFinite as error:
                reason = reason or str(error)
                if key in self.timed_keys:
                    raise TaskError(f"{self._host.where}: on some of its own inputs {error}") from error
                if not self.layout.has_float_inputs and not is_alone:
                    break
            else:
                self._keepings[key] = keeping
                self._making_s.append(time.perf_counter() - began)
                return draw
        self.skipped[key.label] = reason
        return None

    def forget_met(self) -> None:
        """Have samples that a candidate has met drawn anew for the next one: which, is decided by lot.

        What a candidate says when it fails may tell its author of its inputs. Timed inputs stay.
        """
        met = list((self._cache.keys() | self._keepings.keys()) - set(self.timed_keys))
        by_time = int(RENEWED_S / statistics.mean(self._making_s)) if self._making_s else 0
        count = min(max(math.ceil(len(met) * RENEWED_SHARE), by_time), len(met))
        chosen = set(random.SystemRandom().sample(met, count))
        names = {key.state for key in chosen} - {CONSTRUCTED}
        for name in names:
            self.states[name] = self._changed_weights(name, self.states[name].style)
        for key in met:
            if key in chosen or key.state in names or key.label in self.skipped:
                self._cache.pop(key, None)
                for at in range(N_KEEPINGS):
                    self._seeds.pop((key, at), None)
                self.skipped.pop(key.label, None)

    def fresh_draw(self) -> InputSample:
        """Return inputs and weights that no candidate has seen; for one evaluation only.

        Where weights are frozen they are the constructed ones. Which input distribution it is, which rows or
        elements are odd, and how weights differ from constructed ones where some are, is random.
        """
        reason = ""
        for turn in range(N_FRESH):
            keys = [key for key in self._fresh_keys if key.label not in self.skipped]
            is_plain = turn == N_FRESH - 1 or not keys
            planned = SampleKey("as_is") if is_plain else secrets.choice(keys)
            styles = [CONSTRUCTED, *(self._styles if planned.family in ODD_FAMILIES else ())]
            try:
                state = self.states[CONSTRUCTED]
                if not self._is_frozen:
                    state = self._maker.make_state(FRESH, secrets.choice(styles), new_seed())
                key, keeping = replace(planned, state=state.name), self._keepings.get(planned, 0)
                return self._maker.make_draw(key, state, new_seed(), keeping=keeping, spare=0)
            except Unchanged:
                continue
            except NonFinite as error:
                reason = str(error)
        raise TaskError(f"{self._host.where}: the reference's own output is not finite: {reason}")

    def draws_of_another_process(self) -> list[InputSample]:
        """Return samples on weights for a second process of a candidate; all of them on the same weights."""
        keys = [SampleKey("as_is", 0, RANDOMISED), SampleKey("odd_rows", 0, RANDOMISED)]
        return [draw for key in keys if self.layout.has_weights and (draw := self.draw(key))]

    def unseen_draw(self, state: WeightState) -> InputSample | None:
        """Return a sample of as-is inputs that no candidate has seen, on the given weights.

        Valid until the next one. None where the reference is too slow for another, or not finite on it.
        """
        if self.eager_ms > UNSEEN_MS:
            return None
        try:
            key = SampleKey("as_is", state=state.name)
            return self._maker.make_draw(key, state, new_seed(), spare=1, is_renewed=True)
        except NonFinite:
            return None

    def other_weights(self) -> list[WeightState]:
        """Return the weights that take turns with the constructed ones while calls are timed and replayed.

        Empty where there are none, where the reference is not finite on them, or where memory is short. A
        parameter that every construction makes alike, as a gate of zeros or an identity, is another in these:
        else calls would be timed that skip what it does.
        """
        if self._others is None:
            self._others = list(self._find_other_weights()) if self.layout.has_weights else []
        return self._others

    def _find_other_weights(self) -> Iterator[WeightState]:
        kept = [self.draw(key) for key in self.timed_keys]
        most = self._cache_bytes // (self._draw_bytes * len(kept))
        names = [ANOTHER, ONE_ELEMENT]
        base = self.states[CONSTRUCTED]
        again = self._maker.make_other(ANOTHER, CONSTRUCTED, base, new_seed())
        is_alike = any(base.is_like(again, slot) for slot in self.layout.parameter_slots)
        self.is_made_alike = is_alike
        if self._is_timed_only and not is_alike:  # there are other such processes
            names = [secrets.choice(names)]
        for name in names[: min(most, 1 if self._is_slow else 2)]:
            seed, styles = new_seed(), (*STYLES, CONSTRUCTED) if is_alike else (CONSTRUCTED,)
            tries = [(style, 0) for style in styles]
            if name == ONE_ELEMENT:
                tries = [(CONSTRUCTED, step) for step in range(N_STEPS)]
            for style, step in tries:
                is_made = (name, style) == (ANOTHER, CONSTRUCTED)
                state = again if is_made else self._maker.make_other(name, style, base, seed, step)
                try:
                    self._companions |= {
                        (sample.key, name): self._maker.draw_on(sample, state) for sample in kept if sample
                    }
                except NonFinite:
                    continue
                base = state if is_alike else base
                yield state
                break

    def draw_on(self, sample: InputSample, state: WeightState) -> InputSample:
        """Return the sample of a timed key with the same inputs on the constructed or on other weights."""
        if sample.state is state:
            return sample
        constructed = self.states[CONSTRUCTED]
        key = replace(sample.key, state=constructed.name)
        return self._cache[key] if state is constructed else self._companions[key, state.name]

    def draw_of(self, raw: npt.NDArray[np.uint8], state: WeightState) -> InputSample | None:
        """Return the sample for as-is inputs drawn before, None where the reference is not finite on them."""
        try:
            return self._maker.draw_of(SampleKey("as_is", state=state.name), state, raw)
        except NonFinite:
            return None

    def distance_to_kept(self, which: int, output: TensorMemory) -> float:
        """Return how far outputs are from those of a call that the reference kept.

        This is cheap, and no verdict rests on it alone.
        """
        return self._distance(self._maker.kept_output(which), output)

    def distance_on(self, raw: npt.NDArray[np.uint8], state: WeightState, output: TensorMemory) -> float:
        """Return how far outputs are from the reference's on as-is inputs drawn before."""
        return self._distance(self._maker.output_on(state, raw), output)

    def _distance(self, ours: TensorMemory, output: TensorMemory) -> float:
        """Return the largest scaled difference; for exact dtypes the share of unequal elements."""
        distances = (
            distance_between(slot["dtype"], ours.slot_bytes(slot), output.slot_bytes(slot))
            for slot, spec in zip(self.output_slots, self.outputs, strict=True)
            if not spec.may_share
        )
        return max((math.inf if math.isnan(distance) else distance for distance in distances), default=0.0)

    def judge(self, draw: InputSample, expected: ExpectedOutput, raw: Array) -> Distance:
        """Compare an output, or state, with what a sample expects.

        Where it is too far off, the oracle first shows how much depends on the inputs' last bits
        (``Expected.widen``), until the output is near enough or everything was shown.
        """
        distance = expected.judge(raw)
        is_beyond = not distance.is_finite or not distance.is_same_kind
        if distance.is_close or is_beyond or expected.is_widened:
            return distance
        is_exact = not is_float(expected.dtype)
        self._maker.widen(draw, is_exact=is_exact, is_enough=lambda: expected.judge(raw).is_close)
        return expected.judge(raw)

    def draw_more(self, memory: TensorMemory, count: int) -> None:
        """Fill ``memory`` with ``count`` unseen as-is inputs, without running the reference on them."""
        self._maker.draw_more(memory, count)

    @property
    def architecture(self) -> str | None:
        """Architecture that CUDA C++ is built for on this device; None where there is none."""
        return self._host.device_facts.architecture

    @property
    def device(self) -> Device:
        """Where the tensors of reference and candidates live."""
        return self._host.device

    @property
    def replay_bytes(self) -> int:
        """Bytes that a replay may take, computed from the memory that was free before any candidate ran."""
        return self._replay_bytes

    @property
    def room_bytes(self) -> int:
        """Bytes for tensors on their device."""
        return self._host.room_bytes

    @property
    def set_names(self) -> list[str]:
        """Return the argument sets of timed calls: every slot in every lane."""
        return [lane for name in self.slots for lane in lanes_of(name, self.lanes)]

    @property
    def first_sets(self) -> list[str]:
        """Return as many argument sets as there are inputs that are timed; on a device all of their lanes."""
        names = list(self.slots)[: len(self.timed_keys)]
        return [lane for name in names for lane in lanes_of(name, self.lanes)]

    def fill(self, name: str, inputs: TensorMemory) -> None:
        """Put inputs into a slot."""
        self.slots[name].copy_from(inputs)
        self.upload(name)

    def upload(self, arena: str) -> None:
        """Update an arena's argument sets on the device to what the parent has written to the arena."""
        if self.device.is_apart:
            self.call("upload", arena=arena)

    def bind_copies(self, arena: str, memory: SharedMemory, copies: int, stride: int) -> None:
        """Give the reference more argument sets, ``ARENA:0``, ``ARENA:1`` ..."""
        names = [f"{arena}:{i}" for i in range(copies)]
        self._host.bind(arena, self.layout.args, memory, names=names, stride=stride)

    def make_calls(
        self, names: Sequence[str], counted: int = 1, *, callable: str = "eager", per_call_s: float = 1.0,
        keep: Sequence[int] = (),
    ) -> Made:  # fmt: skip
        """Call the reference or a baseline; see HostProcess.make_calls."""
        return self._host.make_calls(names, counted, callable=callable, per_call_s=per_call_s, keep=keep)

    def run_written(self, sets: Sequence[str], values: Sequence[Bytes], *, is_single: bool = False) -> Made:
        """Call the reference once on each of ``values``; see Calls.make_written."""
        places = {name: self.slots[name] for name in sets}
        return self._host.run_written(places, values, is_single=is_single)

    def round_trip_s(self) -> float:
        """Return the seconds between asking for nothing and having the answer."""
        return self._host.calls.ask(self._settings.reference_timeout_s)

    def forget_kept(self) -> None:
        """Release the outputs that were kept."""
        self._host.calls.release()

    def keep_last(self, most: int = RING) -> None:
        """Keep the outputs of the last calls, and release those kept so far."""
        self._host.calls.keep_last(self.output_bytes, self._settings.reference_timeout_s, most)

    def trim(self) -> None:
        """Have the process give unused memory back to the system, and take all pages of its inputs."""
        self.call("trim", touched=[ARGUMENTS])

    def map_blocks(self, least: int) -> None:
        """Have blocks of at least so many bytes be pages of their own."""
        self.call("map_blocks", bytes=least)

    def forget(self, arena: str) -> None:
        """Have an arena and its argument sets unmapped with the next command."""
        self._host.forget(arena)

    def load_state(self, state: WeightState, slots: Mapping[str, Slot] | None = None) -> None:
        """Load a weight sample, or the part in ``slots``, into the reference."""
        self._maker.load_state(state, slots)

    def fetch_state(self, slots: Mapping[str, Slot]) -> TensorMemory:
        """Return the named parameters and buffers of the reference as they are now."""
        return self._maker.fetch_state(slots)

    def prepare_baseline(self, name: str) -> str | None:
        """Make a baseline callable; returns why it cannot be, None when it can."""
        return self._host.prepare_baseline(name, example="slot0")

    @property
    def _draw_bytes(self) -> int:
        return self.layout.args_bytes + 3 * self.output_bytes

    def _open(self, launcher: Launcher, known: Message | None) -> None:
        self.empty_bytes = status_bytes(self.child.pid, "RssAnon")
        """Memory of its own before any code of the task ran; None where the system does not tell."""
        self.call("open", task=self.task.model_dump_json(), workload=self.workload.model_dump_json())
        started = time.perf_counter()
        self.layout, self.init_memory = self._describe()
        describing_s = time.perf_counter() - started
        self._maker = DrawMaker(self._host, self.layout, self._settings.policy.nonfinite)
        self._weights_seed = new_seed()
        self.states = {CONSTRUCTED: self._maker.make_state(CONSTRUCTED, CONSTRUCTED, self._weights_seed)}
        started, began_s = time.perf_counter(), cpu_s(self.child.pid)
        first = self._first_draw()
        wall_s, worked_s = time.perf_counter() - started, cpu_s(self.child.pid) - began_s
        self._is_slow = is_slow = (
            min(wall_s, worked_s) > SLOW_S + describing_s
        )  # wall time alone is long on a busy machine
        self._maker.watch([*self.layout.buffers(), *first.changed])
        self.outputs, self.is_tuple = self._maker.outputs, self._maker.is_tuple
        self.output_slots, self.output_bytes = self._maker.output_slots, self._maker.output_bytes
        wanted = RESERVED_COPIES * (self.layout.args_bytes + self.output_bytes)
        self.reserved_bytes = min(
            wanted, int(RESERVED_SHARE * admission.usable_bytes(self._settings.memory_bytes))
        )
        if launcher.is_ordinary:
            self.reserved_bytes = FREED_BYTES
        self.call("reserve", bytes=self.reserved_bytes)
        self.keep_last()
        has_three = 3 * self.layout.args_bytes <= TIMED_SET_BYTES and not self._is_timed_only
        n_timed = 3 if has_three else 2
        self._bind_timed_slots(n_timed)
        self.eager_ms = self._check_repeatable(first)
        self.accepted = accepted = self._ask(known)
        """What the reference accepts as inputs, for another process of the same workload."""
        self._is_frozen = self._settings.policy.weights is Weights.FROZEN
        self.moves = WeightMoves(self._maker, self.layout, self.eager_ms, is_frozen=self._is_frozen)
        """How weights change in the middle of timed series."""
        is_short = (len(ALONE) + len(FLAT_STYLES) + 1) * self.layout.state_bytes > self._cache_bytes
        n_alone = 1 if is_slow or is_short else len(ALONE)
        if self.layout.has_weights and not self._is_timed_only:
            self._add_second_weights(n_alone)
        keys = plan_samples(
            self.layout, n_timed=n_timed, is_slow=is_slow, has_nonfinite=accepted["nonfinite"],
            solved=accepted["solved"], are_weights_frozen=self._is_frozen, n_alone=n_alone,
        )  # fmt: skip
        self.timed_keys, self.other_keys = keys[:n_timed], keys[n_timed:]
        useless = set(SEEN_BY_SLOW if is_slow else ())
        useless |= set(() if self.layout.has_float_inputs else MILD_FAMILIES)
        odd = [SampleKey(family, variant) for family in ODD_FAMILIES for variant in range(2)]
        keys = [*self.other_keys, *(odd if self.layout.arg_slots else ())]
        self._fresh_keys = [key for key in keys if key.state == CONSTRUCTED and key.family not in useless]

    def _ask(self, known: Message | None) -> Message:
        """Find out what the reference accepts as inputs, unless it is known; note what is not tried."""
        if known is not None:
            self._maker.tell(known)
        else:
            self._maker.load_state(self.states[CONSTRUCTED])
            known = self._maker.ask(new_seed(), solves=not self._is_slow)
        self.skipped |= known["skipped"]
        return known

    def _describe(self) -> tuple[SampleLayout, SharedMemory | None]:
        reply = self.call("describe", seed=self.construct_seed)
        state = {name: entry["slot"] for name, entry in reply["state"].items()}
        layout = SampleLayout(
            args=reply["args"],
            arg_slots=tuple(slots_in(reply["args"])),
            args_bytes=reply["args_bytes"],
            init=reply["init"],
            state=state,
            parameters=frozenset(name for name, e in reply["state"].items() if e["is_parameter"]),
            state_bytes=reply["state_bytes"],
            is_train=reply["train"],
        )
        self._host.check_memory(layout.args_bytes, 0, layout.state_bytes)
        for slot in [*layout.arg_slots, *state.values()]:
            if slot["dtype"] not in ITEM_BYTES:
                raise TaskError(f"{self._host.where}: tensors of dtype {slot['dtype']} are not supported")
        if not slots_in(reply["init"]):
            return layout, None
        memory = SharedMemory(reply["init_bytes"])
        self.call("write_init", {"init": memory}, arena="init")
        return layout, memory

    def _first_draw(self) -> InputSample:
        key = SampleKey("as_is", 0)
        try:
            draw = self._maker.make_draw(key, self.states[CONSTRUCTED], new_seed())
        except NonFinite as error:
            raise TaskError(
                f"{self._host.where}: on its own inputs {error}; no candidate can be judged"
            ) from error
        self._cache[key] = draw
        return draw

    def _bind_timed_slots(self, n_timed: int) -> None:
        """Give the reference its own argument sets: of all calls, or, on a device, of the timed ones."""
        self.lanes = 1
        self.slots: dict[str, TensorMemory]
        if not self.device.is_apart:
            pool = ArgumentPool(self.layout.args_bytes, max(n_timed, self._pool_sets()))
            self.slots = pool.slots
            self._host.bind(
                ARGUMENTS, self.layout.args, pool.memory, names=list(pool.slots), stride=pool.stride
            )
            return
        shared = {f"slot{i}": SharedMemory(self.layout.args_bytes) for i in range(n_timed)}
        self.slots = dict(shared)
        cache_bytes = self._host.device_facts.cache_bytes
        self.lanes = n_lanes(self.layout.args_bytes, n_timed, cache_bytes, self._host.room_bytes)
        for name, memory in shared.items():
            self._host.bind(
                name, self.layout.args, memory, names=lanes_of(name, self.lanes), lanes=self.lanes
            )

    def _pool_sets(self) -> int:
        """Return how many argument sets there are for calls of every kind: as many as a pass may have."""
        size = self._settings.replay_size or ON_THE_PROCESSOR
        one = self.layout.args_bytes + self.output_bytes
        fitting = size.bytes // max(self.layout.args_bytes, self.output_bytes, 1)
        return max(min(size.calls, max(fitting, LEAST_SETS), self.replay_bytes // (4 * max(one, 1))), 1)

    def _check_repeatable(self, first: InputSample) -> float:
        """Call three more times on the first inputs; return the latency in ms.

        The last call uses the state that the call before it left, as timed calls do. Raises TaskError when
        results differ.
        """
        self.fill("slot0", first.inputs)
        results = [SharedMemory(self.output_bytes) for _ in range(3)]
        latencies: list[float] = []
        for i, memory in enumerate(results):
            if i < 2:
                self._maker.load_state(first.state)
            latencies.append(self.make_calls(["slot0"]).own_s * 1e3)
            name = f"repeat{i}"
            self.call("map", {name: memory})
            self._host.write_output(name, self.output_slots)
            self._host.forget(name)
        for slot in self.output_slots:
            one, *others = (memory.slot_bytes(slot) for memory in results)
            if any(distance_between(slot["dtype"], one, other) > NOISE for other in others):
                raise TaskError(
                    f"{self._host.where}: the reference is not deterministic: two calls on the same inputs "
                    "and weights differ (dropout or other randomness in train mode, or state carried from "
                    "call to call); try eval mode"
                )
        return min(latencies)

    def _add_second_weights(self, n_alone: int) -> None:
        """Find changed weights on which the reference stays finite: all others, and single elements."""
        for name in ALONE[:n_alone]:
            self.states[name] = self._changed_weights(name, ONE_ELEMENT)
        flat = [(name, FLAT_STYLES[name]) for name in self.layout.flat_weights]
        has_buffers = any(is_float(slot["dtype"]) for slot in self.layout.buffers().values())
        odd_styles = [f"{style} with buffers" for style in ODD_STYLES if has_buffers] + [*ODD_STYLES]
        odd = ((ODD_WEIGHTS, odd_styles), *flat) if n_alone > 1 else ()
        for name, styles in ((RANDOMISED, STYLES), (TOUCHED, (TOUCHED,)), *odd):
            key = SampleKey("as_is", 0, name)
            for style in styles:
                state = self.states[name] = self._changed_weights(name, style)
                try:
                    self._cache[key] = self._maker.make_draw(key, state, new_seed())
                except NonFinite:
                    continue
                self._styles += [style] if name in (RANDOMISED, TOUCHED) else []
                break
            else:
                for family in ("as_is", "negated", "odd_rows"):
                    label = SampleKey(family, 0, name).label
                    self.skipped[label] = "the reference gives NaN or infinity with changed weights"

    def _changed_weights(self, name: str, style: str, step: int = 0) -> WeightState:
        """Make weights of a name anew: the constructed ones with changes, or others.

        Where one element moves, a ``step`` after the first moves the same one.
        """
        if name in ALONE:
            if not step:
                self._alone_seeds[name] = new_seed()
            rng, base = random.Random(self._alone_seeds[name]), self.states[CONSTRUCTED]
            return self._maker.change_one(name, base, rng, trades=name in TRADED, step=step)
        seed = self._weights_seed if name in (TOUCHED, ODD_WEIGHTS) else new_seed()
        return self._maker.make_state(name, style, seed)
