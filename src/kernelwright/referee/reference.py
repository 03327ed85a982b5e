"""The parent's side of one workload's reference: weight draws, input draws and their oracle."""

import itertools
import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from kernelwright.core.errors import TaskError
from kernelwright.core.task import Task, Workload
from kernelwright.referee import admission
from kernelwright.referee.draws import Draw, DrawKey, Layout, OutputSpec, State, new_seed, plan_draws
from kernelwright.referee.launcher import ChildError, ChildRefused, Launcher
from kernelwright.referee.memory import ITEM_BYTES, SharedMemory, place, slot_nbytes
from kernelwright.referee.sandbox import Limits
from kernelwright.referee.settings import RefereeSettings
from kernelwright.referee.tolerance import Expected, Storage, distance_between, is_float
from kernelwright.referee.worker.layouts import Slot, slots_in
from kernelwright.referee.worker.wire import Message

ADDRESS_SLACK = 8 << 30
"""Address space beside the tensors: code, stacks, malloc arenas that are reserved and never used."""
SLOW_S = 0.5
"""A reference that takes longer than this with its oracle gets fewer draws."""
NOISE = 1e-4
"""Two calls on the same inputs may differ by this scaled error (thread order) and no more."""
CACHE_SHARE = 0.3
"""Share of the usable memory that cached draws may take."""
TIMED_SET_BYTES = 512 << 20
"""Three rotating input sets up to this size together, two above."""


class NonFinite(Exception):
    """The reference itself gives NaN or infinity on a draw."""


class Reference:
    """One reference in its own process. Every failure of it is a TaskError."""

    def __init__(
        self, launcher: Launcher, settings: RefereeSettings, task: Task, workload: Workload,
        *, is_final: bool = False,
    ) -> None:  # fmt: skip
        """Run the reference and admit it; with ``is_final`` draws are made for one use only."""
        self.task, self.workload = task, workload
        self._is_final = is_final
        self._settings = settings
        self._names = (f"draw{i}" for i in itertools.count())
        self._cache: dict[DrawKey, Draw] = {}
        self._cache_bytes = int(CACHE_SHARE * admission.usable_bytes(settings.memory_bytes))
        self._seeds: dict[DrawKey, int] = {}
        self._stale: list[str] = []
        self._spare: SharedMemory | None = None
        self._spare_storage: defaultdict[int, Storage] = defaultdict(dict)
        self._baselines: dict[str, str | None] = {"eager": None}
        self.outputs: tuple[OutputSpec, ...] = ()
        self.skipped: dict[str, str] = {}
        """Input family -> why it cannot be used."""
        self.construct_seed = new_seed() % (1 << 31)
        """Seed of both constructors: public, decides only what state_dict does not hold."""
        usable = admission.usable_bytes(settings.memory_bytes)
        self.child = launcher.spawn("host", Limits(address_space_bytes=usable + ADDRESS_SLACK))
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the process."""
        self.child.kill()

    def call(self, op: str, arenas: Mapping[str, SharedMemory] | None = None, **fields: Any) -> Message:
        """Send a command; raises TaskError when the reference fails at it."""
        unmap, self._stale = self._stale, []
        try:
            return self.child.call(op, self._settings.reference_timeout_s, arenas, unmap=unmap, **fields)
        except ChildError as error:
            if admission.is_out_of_memory(error):
                self._explain_size()
            raise admission.explain(self.task, self.workload, error) from error

    def _explain_size(self) -> None:
        """Raise TaskError with sizes and advice, where they can be had without allocating anything."""
        try:
            size = self.child.call("size", self._settings.reference_timeout_s)
        except ChildError:
            return
        if None not in size.values():
            self._check_memory(size["inputs"], size["outputs"], size["state"])

    def make_state(self, name: str, style: str, seed: int) -> State:
        """Draw weights: those of a construction under a secret seed, changed according to the style."""
        memory = SharedMemory(self.layout.state_bytes)
        self.call(
            "draw_state", {f"state {name}": memory}, seed=seed, style=style, slots=self.layout.state,
            arena=f"state {name}",
        )  # fmt: skip
        return State(name, style, memory)

    def load_state(self, state: State, slots: Mapping[str, Slot] | None = None) -> None:
        """Put a weight draw into the reference."""
        slots = self.layout.state if slots is None else slots
        self.call("load_state", arena=f"state {state.name}", slots=slots)

    def draw(self, key: DrawKey) -> Draw | None:
        """Return a session's draw, None when it was skipped.

        Draws of timed keys are kept, others as far as memory allows; one that is not kept (none is in a
        final measurement) is good until the next is made.
        """
        if key.label in self.skipped:
            return None
        if key in self._cache:
            return self._cache[key]
        seed = self._seeds.setdefault(key, new_seed())
        has_room = not self._is_final and (len(self._cache) + 1) * self._draw_bytes <= self._cache_bytes
        is_kept = has_room or key in self.timed_keys
        try:
            draw = self.make_draw(key, self.states[key.state], seed, is_kept=is_kept)
        except NonFinite as error:
            self.skipped[key.label] = str(error)
            return None
        if is_kept:
            self._cache[key] = draw
        return draw

    def fresh_draw(self) -> Draw:
        """Return as-is inputs on weights nobody has seen; for one evaluation only."""
        for _ in range(3):
            try:
                state = self.make_state("fresh", "constructed", new_seed())
                return self.make_draw(DrawKey("as_is", state="fresh"), state, new_seed(), is_kept=False)
            except NonFinite as error:
                reason = str(error)
        raise TaskError(f"{self._where}: the reference's own output is not finite: {reason}")

    def make_draw(self, key: DrawKey, state: State, seed: int, *, is_kept: bool = True) -> Draw:
        """Draw inputs and run reference and oracle on them; raises NonFinite.

        What is not kept lies in memory that the next such draw uses again.
        """
        name = next(self._names)
        inputs = SharedMemory(self.layout.args_bytes) if is_kept else self._spare_inputs()
        self.call(
            "draw_inputs", {name: inputs}, seed=seed, family=key.family, variant=key.variant, arena=name
        )
        self.call("bind", arena=name, args=self.layout.args)
        self.load_state(state)
        reply = self.call("run", set=name, callable="eager")
        if not self.outputs:
            self._learn_outputs(reply)
        storage = defaultdict[int, Storage](dict) if is_kept else self._spare_storage
        draw = self._with_oracle(key, state, inputs, name, storage)
        self._stale.append(name)
        return draw

    def _spare_inputs(self) -> SharedMemory:
        if self._spare is None:
            self._spare = SharedMemory(self.layout.args_bytes)
        return self._spare

    def _with_oracle(
        self, key: DrawKey, state: State, inputs: SharedMemory, name: str, storage: Mapping[int, Storage]
    ) -> Draw:
        results, after, truth = (self._scratch[n] for n in ("results", "after", "truth"))
        self.call("dump", arena="results", slots=self.output_slots, which="last")
        self.call("dump_state", arena="after", slots=self._watched)
        changed = {n: s for n, s in self._watched.items() if after.differs_from(state.memory, s)}
        slots, _ = place([_widened(spec) for spec in [*self.output_slots, *changed.values()]])
        n_outputs = len(self.output_slots)
        self.load_state(state)
        self.call(
            "oracle", set=name, arena="truth", slots=slots[:n_outputs],
            state_slots=dict(zip(changed, slots[n_outputs:], strict=True)),
        )  # fmt: skip
        outputs = [
            self._expected(slot, results, wide_slot, truth, storage[i])
            for i, (slot, wide_slot) in enumerate(zip(self.output_slots, slots, strict=False))
        ]
        buffers = {
            n: self._expected(slot, after, wide_slot, truth, {})
            for (n, slot), wide_slot in zip(changed.items(), slots[n_outputs:], strict=True)
        }
        if not all(expected.is_finite for expected in [*outputs, *buffers.values()]):
            raise NonFinite("the reference gives NaN or infinity there")
        return Draw(key, state, inputs, tuple(outputs), buffers)

    def _map_scratch(self) -> None:
        """Share memory for results, used again by every draw: fresh pages are slow."""
        wide = [_widened(slot) for slot in [*self.output_slots, *self.layout.state.values()]]
        self._scratch = {
            "results": SharedMemory(self.output_bytes),
            "after": SharedMemory(self.layout.state_bytes),
            "truth": SharedMemory(place(wide)[1]),
        }
        self.call("map", self._scratch)

    def _expected(
        self, slot: Slot, results: SharedMemory, wide: Slot, oracle: SharedMemory, storage: Storage
    ) -> Expected:
        n_outputs = max(slot_nbytes(slot) // ITEM_BYTES[slot["dtype"]], 1)
        return Expected(
            slot["dtype"],
            results.slot_bytes(slot),
            oracle.slot_bytes(wide),
            policy=self.task.tolerance,
            inputs_per_output=self.layout.n_input_elements / n_outputs,
            storage=storage,
        )

    def prepare_baseline(self, name: str) -> str | None:
        """Make a baseline callable; returns why it cannot be, None when it can."""
        if name not in self._baselines:
            try:
                self.child.call("compile", self._settings.reference_timeout_s, set="slot0")
                self._baselines[name] = None
            except ChildRefused as error:
                self._baselines[name] = f"{error.kind}: {error.text.partition(chr(10))[0]}"
            except ChildError as error:
                raise admission.explain(self.task, self.workload, error) from error
        return self._baselines[name]

    @property
    def _where(self) -> str:
        return self.task.path or self.task.name

    @property
    def _draw_bytes(self) -> int:
        return self.layout.args_bytes + 3 * self.output_bytes

    def _open(self) -> None:
        self.call("open", task=self.task.model_dump_json(), workload=self.workload.model_dump_json())
        started = time.perf_counter()
        self.layout, self.init_memory = self._describe()
        self._watched: dict[str, Slot] = dict(self.layout.state)
        describing_s = time.perf_counter() - started
        self.states = {"constructed": self.make_state("constructed", "constructed", new_seed())}
        started = time.perf_counter()
        first = self._first_draw()
        is_slow = time.perf_counter() - started > SLOW_S + describing_s
        self._watched = {**self.layout.buffers(), **{name: self.layout.state[name] for name in first.changed}}
        n_timed = 3 if 3 * self.layout.args_bytes <= TIMED_SET_BYTES else 2
        self._bind_timed_slots(n_timed)
        self.eager_ms = self._check_repeatable(first)
        if self.layout.has_weights:
            self._add_second_weights()
        keys = plan_draws(self.layout, n_timed=n_timed, is_slow=is_slow)
        self.timed_keys, self.other_keys = keys[:n_timed], keys[n_timed:]

    def _describe(self) -> tuple[Layout, SharedMemory | None]:
        reply = self.call("describe", seed=self.construct_seed)
        state = {name: entry["slot"] for name, entry in reply["state"].items()}
        layout = Layout(
            args=reply["args"],
            arg_slots=tuple(slots_in(reply["args"])),
            args_bytes=reply["args_bytes"],
            init=reply["init"],
            state=state,
            parameters=frozenset(name for name, e in reply["state"].items() if e["is_parameter"]),
            state_bytes=reply["state_bytes"],
            is_train=reply["train"],
        )
        self._check_memory(layout.args_bytes, 0, layout.state_bytes)
        for slot in [*layout.arg_slots, *state.values()]:
            if slot["dtype"] not in ITEM_BYTES:
                raise TaskError(f"{self._where}: tensors of dtype {slot['dtype']} are not supported")
        if not slots_in(reply["init"]):
            return layout, None
        memory = SharedMemory(reply["init_bytes"])
        self.call("write_init", {"init": memory}, arena="init")
        return layout, memory

    def _first_draw(self) -> Draw:
        key = DrawKey("as_is", 0)
        try:
            draw = self.make_draw(key, self.states["constructed"], new_seed())
        except NonFinite as error:
            raise TaskError(
                f"{self._where}: on its own inputs {error}; no candidate can be judged"
            ) from error
        self._cache[key] = draw
        return draw

    def _learn_outputs(self, reply: Message) -> None:
        """Take over what the reference returns as the contract."""
        self.is_tuple: bool = reply["is_tuple"]
        for i, output in enumerate(reply["outputs"]):
            kind = output["type"]
            got = output.get("dtype") if kind == "torch.Tensor" else kind
            if got not in ITEM_BYTES or output["layout"] != "torch.strided":
                raise TaskError(f"{self._where}: output {i} of the reference is a {got}, not a plain tensor")
        if not reply["outputs"]:
            raise TaskError(f"{self._where}: the reference returns no tensor")
        self.outputs = tuple(
            OutputSpec(o["dtype"], tuple(o["shape"]), bool(o["shares"]), o["is_dense"])
            for o in reply["outputs"]
        )
        nbytes = sum(spec.nbytes for spec in self.outputs)
        self._check_memory(self.layout.args_bytes, nbytes, self.layout.state_bytes)
        self.output_slots, self.output_bytes = place([(o.dtype, o.shape) for o in self.outputs])
        self._map_scratch()

    def _check_memory(self, inputs: int, outputs: int, state: int) -> None:
        limit = self._settings.memory_bytes
        admission.check_memory(self.task, self.workload, inputs, outputs, state, limit)

    def _bind_timed_slots(self, n_timed: int) -> None:
        """Give the reference its own copies of the inputs it is timed on."""
        self.slots = {f"slot{i}": SharedMemory(self.layout.args_bytes) for i in range(n_timed)}
        for name, memory in self.slots.items():
            self.call("bind", {name: memory}, arena=name, args=self.layout.args)

    def _check_repeatable(self, first: Draw) -> float:
        """Call twice more on the first inputs; returns the latency in ms, TaskError when they differ."""
        self.slots["slot0"].copy_from(first.inputs)
        results = [SharedMemory(self.output_bytes) for _ in range(2)]
        latencies: list[float] = []
        for i, memory in enumerate(results):
            self.load_state(first.state)
            latencies.append(self.call("time", callable="eager", sets=["slot0"], calls=1)["ns"] / 1e6)
            name = f"repeat{i}"
            self.call("dump", {name: memory}, arena=name, slots=self.output_slots, which="last")
            self._stale.append(name)
        for slot in self.output_slots:
            if distance_between(slot["dtype"], *(memory.slot_bytes(slot) for memory in results)) > NOISE:
                raise TaskError(
                    f"{self._where}: the reference is not deterministic: two calls on the same inputs and "
                    "weights differ (dropout or other randomness in train mode, or state carried from "
                    "call to call); try eval mode"
                )
        return min(latencies)

    def _add_second_weights(self) -> None:
        """Find a changed weight draw on which the reference stays finite."""
        key = DrawKey("as_is", 0, "randomised")
        for style in ("signed", "positive"):
            state = self.make_state("randomised", style, new_seed())
            self.states["randomised"] = state
            try:
                self._cache[key] = self.make_draw(key, state, new_seed())
            except NonFinite:
                continue
            return
        self.skipped[key.label] = "the reference gives NaN or infinity with changed weights"
        self.skipped[DrawKey("negated", 0, "randomised").label] = self.skipped[key.label]


def _widened(slot: Slot) -> tuple[str, tuple[int, ...]]:
    """Return dtype and shape of the oracle's version of a slot."""
    is_complex = slot["dtype"].startswith("complex")
    dtype = "complex128" if is_complex else "float64" if is_float(slot["dtype"]) else slot["dtype"]
    return dtype, tuple(slot["shape"])
