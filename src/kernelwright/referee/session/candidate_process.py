"""The parent's side of one candidate process. Everything that the process sends is treated as hostile."""

import contextlib
import itertools
import random
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from kernelwright.core.errors import MachineError
from kernelwright.core.evaluation import STATUS_CHECK, Check, Status
from kernelwright.referee.checks.watch import Watch
from kernelwright.referee.sandbox.processes import status_bytes
from kernelwright.referee.session import admission
from kernelwright.referee.session.argument_pool import ARGUMENTS, ArgumentPool
from kernelwright.referee.session.call_queue import RING, Bytes
from kernelwright.referee.session.call_records import (
    Unreadable,
    argument_ranges,
    describe,
    ranges_of,
    read_memory,
    read_output,
    resolve,
    spoil_output,
)
from kernelwright.referee.session.calls import EARLY, Calls, Made
from kernelwright.referee.session.host_process import put_on_device
from kernelwright.referee.session.input_samples import OutputSpec, WeightState
from kernelwright.referee.session.launcher import (
    Child,
    ChildDied,
    ChildError,
    ChildLate,
    ChildRefused,
    Launcher,
)
from kernelwright.referee.session.live_weights import BadLayout, LiveWeights
from kernelwright.referee.session.moved_weights import LiveMove, MovedWeights
from kernelwright.referee.session.reference_process import ReferenceProcess
from kernelwright.referee.session.shared_memory import SharedMemory, TensorMemory, whole_pages
from kernelwright.referee.settings import RefereeSettings
from kernelwright.referee.worker.layouts import Slot, arena_of, lanes_of
from kernelwright.referee.worker.wire import Message

GENERATOR_COUNTS, GENERATOR_BYTES = 16, 512
"""The state of a generator begins with its reference counts; what follows changes with every number drawn."""
UNUSED = slice(13, 16)
"""Bytes that hold nothing, counted from the seed. It is followed by 32 bits and a flag in torch's
``mt19937_data_pod``."""
N_NAMED = 4
"""Most differences that one message names."""
FRAUD = (" was replaced", " was exchanged")
"""Ends of the changes that no honest candidate makes: to functions that judge it."""
IDLE_SHARE = 0.5
"""A process that used less processor time than this share of a time limit may be late for want of a core."""
MALFORMED = "the worker's answer is malformed"
NO_TIME = "the worker reported something that is not a time"
N_SPOILT = 4
"""Outputs of most calls that are written to at a time."""
SCRAMBLED = 0x5A
"""Byte that fills shared memory before a device's inputs are written back to it."""


class Failure(Exception):
    """The candidate failed. Carries what the evaluation will say; never leaves the referee."""

    def __init__(
        self,
        status: Status,
        detail: str,
        log: str = "",
        *,
        check: Check | None = None,
        is_by_clock: bool = False,
    ) -> None:
        """``check`` may be left out where the status implies it (``STATUS_CHECK``).

        ``is_by_clock``: only a duration shows this failure, so a busy machine may have caused it; or the
        process was killed, as where memory is short.
        """
        super().__init__(detail)
        self.status, self.detail, self.log = status, detail, log
        self.check = check or STATUS_CHECK.get(status)
        self.is_by_clock = is_by_clock


class CandidateProcess:
    """One candidate in one process, with its copies of inputs and its own output memory."""

    def __init__(
        self,
        launcher: Launcher,
        settings: RefereeSettings,
        reference: ReferenceProcess,
        library: Path | None = None,
        shown: Sequence[Path] = (),
    ) -> None:
        """``library`` is the only file of the build cache that the candidate may load.

        ``shown`` are other files that it may read.
        """
        self.reference, self._library = reference, library
        self._launcher_loop = launcher.loop
        self._settings = settings
        self._call_timeout_s = max(settings.call_timeout_s, 20 * reference.eager_ms / 1e3)
        sets_bytes = (len(reference.slots) + 1) * whole_pages(reference.layout.args_bytes)
        shared = 2 * reference.output_bytes + sets_bytes + 4 * reference.layout.state_bytes
        memory = settings.worker_address_space_bytes or admission.total_bytes() * 3 // 4 + shared
        self.child: Child = launcher.spawn_worker(memory, library, shown)
        self.events_s: float | None = None
        """Seconds of the last timing by the device's events, as reported by the process; None on ``cpu``."""
        self.empty_bytes: int | None = None
        """Memory of its own before any code of the candidate ran; None where the system does not tell."""
        self._rng = random.Random()
        self._timed_cpu_s: list[tuple[int, float]] = []
        self.watch = Watch(self.child.pid, self.child.account, settings.n_threads)
        self._calls = Calls(self.child, is_apart=reference.device.is_apart)
        self._n_kept = 0
        self._kept: dict[int, int] = {}
        """Place where an output is kept -> number of its call."""
        self.looked: list[tuple[int, TensorMemory]] = []
        """Outputs of the last timing that were read right after it: place among its calls, output."""
        self._pool: ArgumentPool | None = None
        self._own_sets: dict[str, SharedMemory] = {}
        """On a device: its argument sets, each with memory of its own."""
        if reference.device.is_apart:
            self._own_sets = {name: SharedMemory(reference.layout.args_bytes) for name in reference.slots}
            self.slots: dict[str, TensorMemory] = dict(self._own_sets)
        else:
            self._pool = ArgumentPool(reference.layout.args_bytes, len(reference.slots))
            self.slots = self._pool.slots
        self.results = SharedMemory(reference.output_bytes)
        self._state = SharedMemory(reference.layout.state_bytes)
        self._weights = LiveWeights(
            partial(self._call_plainly, Status.RUNTIME_ERROR), reference.layout,
            is_apart=reference.device.is_apart,
        )  # fmt: skip

    def close(self) -> None:
        """End the process group, and let go of its memory."""
        self.child.kill()
        vars(self).pop("_weights", None)  # they refer to this object, which would stay on

    def load(self, source: str) -> None:
        """Import the source and construct the module; raises Failure."""
        layout, seed = self.reference.layout, self.reference.construct_seed
        timeout_s = self._settings.load_timeout_s
        self.child.open_loop(self._launcher_loop, timeout_s)
        self._place()
        self.empty_bytes = status_bytes(self.child.pid, "RssAnon")
        place: dict[str, Any] = {"build_cache": str(self._library.resolve().parent)} if self._library else {}
        self._call("import", timeout_s, Status.LOAD_ERROR, source=source, **place)
        init = self.reference.init_memory
        reply = self._call(
            "construct", timeout_s, Status.LOAD_ERROR, {} if init is None else {"init": init.shared_copy()},
            args=layout.init, seed=seed, train=layout.is_train,
        )  # fmt: skip
        problem = _state_problem(reply.get("state"), layout.state)
        if problem:
            raise Failure(Status.LOAD_ERROR, f"its state_dict differs from the reference's: {problem}")
        self._call("reserve", timeout_s, Status.LOAD_ERROR, bytes=self.reference.reserved_bytes)
        if self._pool is not None:
            self._call("bind", timeout_s, Status.LOAD_ERROR, {ARGUMENTS: self._pool.memory}, arena=ARGUMENTS,
                       args=layout.args, stride=self._pool.stride,
                       numbers=self._calls.bind(list(self.slots)))  # fmt: skip
        for name, memory in self._own_sets.items():
            lanes = lanes_of(name, self.reference.lanes)
            self._call("bind", timeout_s, Status.LOAD_ERROR, {name: memory}, arena=name, args=layout.args,
                       lanes=len(lanes), numbers=self._calls.bind(lanes))  # fmt: skip
        self.keep_last()

    def _place(self) -> None:
        """Place the tensors where the reference's are, before any code of the candidate runs."""
        device = self.reference.device
        put_on_device(self.child, device, self._settings, is_tf32=self.reference.task.tolerance.may_round)
        if device.is_apart:  # signal handlers and time of the driver's start are not the candidate's
            self.watch = Watch(self.child.pid, self.child.account, self._settings.n_threads)

    def fill(self, slot: str, inputs: TensorMemory) -> None:
        """Put inputs into a slot; on a device, into all copies of the slot."""
        self.slots[slot].copy_from(inputs)
        self.upload(slot)

    def overwrite(self, slot: str) -> None:
        """Make the inputs of a slot NaN."""
        self.slots[slot].bytes.fill(0xFF)
        self.upload(slot)

    def inputs_now(self, name: str) -> TensorMemory:
        """Return what an argument set holds now; valid until the slot is filled again."""
        memory = self.slots[arena_of(name)]
        if self.reference.device.is_apart:
            memory.bytes.fill(SCRAMBLED)  # bytes that are not written back must not pass for the inputs
            self._call("download", self._call_timeout_s, Status.RUNTIME_ERROR, set=name)
        return memory

    def upload(self, arena: str) -> None:
        """Update an arena's argument sets on the device to what the parent has written to the arena."""
        if self.reference.device.is_apart:
            self._call("upload", self._call_timeout_s, Status.RUNTIME_ERROR, arena=arena)

    def load_state(self, state: WeightState, slots: Mapping[str, Slot] | None = None) -> None:
        """Put a weight sample, or the part in ``slots``, into the module; the parent writes it."""
        with _judged_layout():
            self._weights.write(state, slots)

    def live(self, moved: MovedWeights, is_known: Callable[[int], bool]) -> LiveMove | None:
        """Return a change as writes into the module's weights, which its base was loaded into."""
        return None if self.reference.device.is_apart else moved.live(self._weights, is_known)

    def run(self, sets: Sequence[str], *, keep: bool = False, n_looked: int = 0) -> None:
        """Call the module on these sets; raises Failure when it raises or returns something of another form.

        The call to look at is chosen afterwards; ``fetch("chosen")`` gives its outputs. With ``keep`` those
        of the first call can be fetched by number until ``forget_kept``. Outputs of up to ``n_looked`` calls,
        where there are more than one, are read into ``looked``.
        """
        timeout_s = self._patience_s
        if self.reference.device.is_apart:
            sizes = [spec.nbytes for spec in self.reference.outputs]
            self._call("poison", timeout_s, Status.RUNTIME_ERROR, blocks=sizes)
        places = []
        if keep:
            self._n_kept += 1
            places.append(self._n_kept)
        queue = self.child.queue
        n_looked = min(n_looked, len(sets) - 1)
        self.looked = []
        made = self._make(sets, len(sets), timeout_s, keep=places, n_looked=n_looked, spoils=True)
        self._chosen = made.first + made.counted - 1 - self._rng.randrange(min(made.counted, queue.ring - 1))
        self._has_run, self.ran_s = True, made.seconds / made.counted
        record = queue.record(self._chosen)
        owned = [*argument_ranges(record), *self._weights.ranges]
        if self._chosen > self._alive_from:
            owned += ranges_of(queue.record(self._chosen - 1), "the previous output")
        if record["has_gradients"]:
            raise Failure(Status.REJECTED, "the candidate leaves gradients switched on", check=Check.TAMPER)
        check_form(describe(record, owned), self.reference.outputs, self.reference.is_tuple)

    @property
    def _patience_s(self) -> float:
        """Seconds that the next call may take."""
        return self._call_timeout_s if self._has_run else self._settings.load_timeout_s

    _has_run = False
    """False until the first call, also until the first with another number of threads. That one may compile
    and therefore has the longer time limit."""
    _chosen = 0
    """Number of the call that was chosen."""
    _alive_from = 0
    """Number of the first call whose output the process keeps: memory of earlier ones may be taken again."""
    ran_s = 1.0
    """Seconds of a call in the last ``run``."""

    def time(
        self, order: list[str], calls: int, *, per_call_s: float = 1.0, n_looked: int = 0,
        is_early: bool = False, move: LiveMove | None = None, spoils: bool = False,
    ) -> Made:  # fmt: skip
        """Call the module ``calls`` times, and perhaps a few times more that do not count.

        Args:
            order: argument sets to go round.
            calls: number of calls that count.
            per_call_s: roughly what a call takes.
            n_looked: read this many outputs, chosen after the calls, into ``looked``.
            is_early: keep the first call's output until the end; see ``fetch_early``.
            move: weights that change while the calls go on, and are put back after them.
            spoils: write to some outputs while the calls go on, where no weights change.
        """
        timeout_s = self._patience_s + calls * self._call_timeout_s / 10
        keep = [EARLY] if is_early else []
        made = self._make(
            order, calls, timeout_s, per_call_s=per_call_s, keep=keep, n_looked=n_looked, move=move,
            spoils=spoils,
        )  # fmt: skip
        self._has_run = True
        if move:
            move.put_back()
        self._timed_cpu_s.append((max(made.total, 1), self.watch.command_s))
        if self.reference.device.is_apart and calls:
            reply = self._call("events", timeout_s, Status.RUNTIME_ERROR)
            self.events_s = _seconds(reply.get("device_ns"))
        if not 0 <= made.own_s < 1e6:
            raise Failure(Status.REJECTED, NO_TIME, check=Check.CLOCK)
        return made

    def run_written(
        self, sets: Sequence[str], values: Sequence[Bytes], *, n_looked: int, is_single: bool = False
    ) -> Made:
        """Call once on each of ``values``; see Calls.make_written and ``time``."""
        timeout_s = self._call_timeout_s + len(values) * self._call_timeout_s / 10
        places = {name: self.slots[name] for name in sets}

        def make() -> Made:
            return self._calls.make_written(places, values, timeout_s, is_single=is_single)

        return self._made(make, timeout_s, n_looked)

    def _make(
        self, names: Sequence[str], counted: int, timeout_s: float, *, per_call_s: float = 1.0,
        keep: Sequence[int] = (), n_looked: int = 0, move: LiveMove | None = None, spoils: bool = False,
    ) -> Made:  # fmt: skip
        """Have calls made and read some of their outputs before anything of the candidate's can go on."""
        writes = move.writes if move else ()
        spoil = self._spoil_some if spoils and not move and self._reads_outside else None

        def make() -> Made:
            return self._calls.make(
                names, counted, timeout_s, per_call_s=per_call_s, keep=keep, writes=writes, spoil=spoil
            )

        made = self._made(make, timeout_s, n_looked, move)
        self._kept |= {place: made.first + i for i, place in enumerate(keep)}
        return made

    def _made(
        self, make: Callable[[], Made], timeout_s: float, n_looked: int, move: LiveMove | None = None
    ) -> Made:
        self.watch.enter()
        try:
            with self._judged("calls", Status.RUNTIME_ERROR):
                made = make()
                seconds = self.child.answered_in_s
                if n_looked:
                    self._look(made, n_looked, move)
                self.child.drain(timeout_s)
                self.child.answered_in_s = seconds
            return made
        finally:
            self.watch.leave()

    def _look(self, made: Made, count: int, move: LiveMove | None) -> None:
        """Read outputs of some of the last calls, chosen now, with everything of the candidate's stopped."""
        queue = self.child.queue
        begin = max(made.first, made.first + made.total - queue.ring)
        end = made.first + made.counted
        numbers = range(min(begin, end - 1), end)
        with self._held_still():
            records = [queue.record(number) for number in numbers]
            self._check_numbers(records, numbers)
            is_apart = self.reference.device.is_apart
            places = [number - made.first for number in (self._taken(numbers) if is_apart else numbers)]
            some = self._rng.sample(places, min(count, len(places)))
            chosen = move.choose(places, made.unsure, count) if move else some
            read = [(at, self._copied(queue.record(made.first + at), made.first + at)) for at in chosen]
        self.looked = [(at, self._resolved(output, made.first + at)) for at, output in read]

    def _taken(self, numbers: range) -> list[int]:
        """Return the calls whose outputs the device copied when they had returned; else the last one."""
        reply = self._call("taken", self._call_timeout_s, Status.RUNTIME_ERROR)
        taken = reply.get("numbers")
        if not isinstance(taken, list) or not all(isinstance(n, int) and n in numbers for n in taken):
            raise Failure(Status.REJECTED, MALFORMED, check=Check.TIMED_CALLS)
        return taken or [numbers[-1]]

    def _check_numbers(self, records: Sequence[Any], numbers: Sequence[int]) -> None:
        """The calls must have been made, and their outputs must be memory of their own."""
        if [int(record["number"]) for record in records] != list(numbers):
            raise Failure(Status.REJECTED, MALFORMED, check=Check.TIMED_CALLS)
        if any(output.may_share or not output.nbytes for output in self.reference.outputs):
            return
        memories = sorted(
            {(begin, size, i) for i, record in enumerate(records) for _, begin, size in ranges_of(record, "")}
        )
        pairs = itertools.pairwise(memories)
        if any(i != j and begin + size > after for (begin, size, i), (after, _, j) in pairs):
            raise Failure(Status.ALIASED_OUTPUT, "outputs of calls in a row share memory")

    def _held_still(self) -> contextlib.AbstractContextManager[None]:
        """Stop everything of the candidate's, where its memory is read from outside."""
        return self.child.stopped() if self._reads_outside else contextlib.nullcontext()

    def held_back(self) -> contextlib.AbstractContextManager[None]:
        """Stop everything of the candidate's while the other side is timed; a device works on."""
        return contextlib.nullcontext() if self.reference.device.is_apart else self.child.stopped()

    @property
    def _reads_outside(self) -> bool:
        """True where outputs are read without the process's help."""
        return self.child.is_readable and not self.reference.device.is_apart

    def begin_timing(self) -> None:
        """Reset the processor time of the process; from now on idle work counts."""
        self.watch.reset()
        self._timed_cpu_s.clear()

    @property
    def timed_cpu_s(self) -> float:
        """Processor seconds per call, all threads: the median over the ``time`` commands with most calls."""
        most = max((calls for calls, _ in self._timed_cpu_s), default=0)
        return statistics.median([s / calls for calls, s in self._timed_cpu_s if calls == most] or [0.0])

    def bind_copies(self, arena: str, memory: SharedMemory, copies: int, stride: int) -> None:
        """Give the process more argument sets, ``ARENA:0``, ``ARENA:1`` ..., one after another in memory."""
        numbers = self._calls.bind([f"{arena}:{i}" for i in range(copies)])
        fields = {"args": self.reference.layout.args, "stride": stride}
        self._call("bind", self._call_timeout_s, Status.RUNTIME_ERROR, {arena: memory}, arena=arena,
                   numbers=numbers, **fields)  # fmt: skip

    def bind_in_first(self, name: str, args: Any) -> TensorMemory:
        """Make one more argument set in the memory of the first, and return that memory.

        ``args`` says where its tensors lie there. Not where tensors are copied to a device.
        """
        assert self._pool is not None
        self._call_plainly(Status.RUNTIME_ERROR, "bind", arena=ARGUMENTS, args=args,
                           stride=self._pool.stride, numbers=self._calls.bind([name]))  # fmt: skip
        return next(iter(self.slots.values()))

    def unbind(self, name: str) -> None:
        """Have the process forget an argument set."""
        self._calls.forget(name)
        self._call_plainly(Status.RUNTIME_ERROR, "map", unmap=[name])

    def replay(self, sets: list[str]) -> None:
        """Call the module once on every set; all outputs are kept."""
        timeout_s = self._call_timeout_s * (1 + len(sets) / 10)
        self._n_kept = len(sets)
        self._make(sets, len(sets), timeout_s, per_call_s=self.per_call_s, keep=range(1, len(sets) + 1))

    per_call_s = 1.0
    """Roughly what a call takes, once it has been timed."""

    def perturb(self, value: int) -> None:
        """Have memory filled with a byte when it is taken and freed; 0 stops this. See ``worker.runner``."""
        self._call("perturb", self._call_timeout_s, Status.RUNTIME_ERROR, value=value)

    def trace(self, slot: str) -> dict[str, int]:
        """Call the module once; returns operation -> count, as reported by the process."""
        reply = self._call("trace", self._call_timeout_s, Status.RUNTIME_ERROR, set=slot)
        names = reply.get("names")
        if not isinstance(names, dict) or not all(isinstance(n, int) for n in names.values()):
            raise Failure(Status.REJECTED, MALFORMED, check=Check.LIBRARY_CALLS)
        return {str(name)[:80]: count for name, count in names.items()}

    def spoil(self) -> None:
        """Write to some outputs that the process still holds, by lot, as a caller may who got them.

        An output belongs to whoever called. Those that are kept, to be compared later, stay. So do all where
        memory cannot be reached from outside.
        """
        queue = self.child.queue
        held = range(max(self._alive_from, queue.n_calls - queue.ring), queue.n_calls)
        self._spoil_some([number for number in held if number not in self._kept.values()])

    def _spoil_some(self, numbers: Sequence[int]) -> None:
        for number in self._rng.sample(numbers, min(N_SPOILT, len(numbers))):
            self._spoil(self.child.queue.record(number))

    def _spoil(self, record: Any) -> None:
        """Write to a call's outputs; not to those that share memory with others in the reference, too."""
        if not self._reads_outside:
            return
        owned = [*argument_ranges(record), *self._weights.ranges]
        check_form(describe(record, owned), self.reference.outputs, self.reference.is_tuple)
        overlapped = frozenset[int]().union(*(spec.overlaps for spec in self.reference.outputs))
        for i, spec in enumerate(self.reference.outputs):
            if spec.may_share or spec.overlaps or i in overlapped:
                continue
            try:
                spoil_output(self.child.pid, record["outputs"][i], self._rng)
            except Unreadable as error:
                self._require_there()
                detail = f"an output cannot be written to after the call: {error}"
                raise Failure(Status.REJECTED, detail, check=Check.STORAGE) from error

    def forget_kept(self) -> None:
        """Write to some of the outputs that were kept, and release them."""
        places = [place for place in self._kept if place != EARLY]
        for place in self._rng.sample(places, min(N_SPOILT, len(places))):
            self._spoil(self.child.queue.kept(place))
        self._kept = {place: number for place, number in self._kept.items() if place == EARLY}
        self._n_kept = 0
        self._calls.release()
        with self._judged("calls", Status.RUNTIME_ERROR):
            self.child.drain(self._call_timeout_s)

    def note_generator(self) -> None:
        """Seed the random generator and remember its state; see ``check_untampered``."""
        seed = self._rng.randrange(1 << 31)
        self._call("seed", self._call_timeout_s, Status.RUNTIME_ERROR, seed=seed)
        self._seed_bytes = seed.to_bytes(8, "little")
        self._generator = self._generator_now()

    _generator: bytes | None = None
    _seed_bytes = b""

    def _generator_now(self) -> bytes | None:
        """Return the begin of the generator's state, read from outside; None where that is not possible.

        Bytes that hold nothing are zero: whoever puts the very same state back may leave anything in them.
        """
        if not self.child.is_readable:
            return None
        state = np.empty(GENERATOR_BYTES, np.uint8)
        try:
            read_memory(self.child.pid, self.child.generator_at + GENERATOR_COUNTS, state)
        except Unreadable:
            return None
        at = state.tobytes().find(self._seed_bytes)
        if at >= 0:
            state[at + UNUSED.start : at + UNUSED.stop] = 0
        return state.tobytes()

    def check_untampered(self) -> tuple[str, ...]:
        """Raise Failure when foreign functions or global state changed; return the allowed changes."""
        if self._generator is not None and self._generator != self._generator_now():
            self._require_there()
            raise Failure(
                Status.REJECTED, "the candidate leaves torch's random generator changed", check=Check.TAMPER
            )
        reply = self._call("tampered", self._call_timeout_s, Status.RUNTIME_ERROR)
        changes, notes = reply.get("changes"), reply.get("notes")
        if not isinstance(changes, list) or not isinstance(notes, list):
            raise Failure(Status.REJECTED, MALFORMED, check=Check.TAMPER)
        is_fraud = any(str(change).endswith(FRAUD) for change in changes)
        if handlers := self.watch.new_handlers():
            changes = [*changes, f"the candidate handles the signals {', '.join(handlers)} itself"]
        if changes:
            words = "; ".join(str(change)[:120] for change in changes[:N_NAMED])
            what = (
                "tampered with" if is_fraud else "a matter of form, not a finding of fraud: it changed state"
            )
            raise Failure(Status.REJECTED, f"{what}: {words}", check=Check.TAMPER)
        return tuple(str(note)[:120] for note in notes[:N_NAMED])

    def check_idle(self) -> None:
        """Raise Failure when the process worked while no command ran."""
        if found := self.watch.problem():
            is_doubtful = not found.is_certain
            raise Failure(Status.REJECTED, found.text, check=Check.IDLE_WORK, is_by_clock=is_doubtful)

    def keep_last(self, most: int = RING) -> None:
        """Have the process keep the outputs of its last calls, and release those kept so far."""
        with self._judged("keep_last", Status.LOAD_ERROR):
            self._calls.keep_last(self.reference.output_bytes, self._call_timeout_s, most)
        self._alive_from = self.child.queue.n_calls

    def trim(self) -> None:
        """Have the process give unused memory back to the system, and take all pages of its inputs."""
        self._call("trim", self._call_timeout_s, Status.RUNTIME_ERROR, touched=[ARGUMENTS])

    def map_blocks(self, least: int) -> None:
        """Have blocks of at least so many bytes be pages of their own; a candidate may ignore it."""
        self._call("map_blocks", self._call_timeout_s, Status.RUNTIME_ERROR, bytes=least)

    def use_threads(self, count: int) -> None:
        """Ask for another number of OpenMP threads; a candidate may ignore it."""
        self._call("use_threads", self._call_timeout_s, Status.RUNTIME_ERROR, count=count)
        self._has_run = False

    def fetch(self, which: str | int = "last", *, is_at_once: bool = False) -> TensorMemory:
        """Return the outputs of the ``last``, ``previous``, ``chosen`` or a kept call, row-major.

        ``is_at_once``: as they were for the next user on the device's default stream when the call had
        returned, where a device computes them.
        """
        queue = self.child.queue
        if isinstance(which, int):
            return self._read_kept(which + 1)
        number = self._chosen if which == "chosen" else queue.n_calls - (1 if which == "last" else 2)
        with self._held_still():
            output = self._read(queue.record(number), number, is_at_once=is_at_once)
        return self._resolved(output, number)

    def fetch_early(self) -> TensorMemory:
        """Return the output of the early timed call that is kept until the end."""
        return self._read_kept(EARLY)

    def _read_kept(self, place: int) -> TensorMemory:
        with self._held_still():
            output = self._read(self.child.queue.kept(place), place, is_kept=True)
        return self._resolved(output, place, is_kept=True)

    def _copied(self, record: Any, number: int) -> TensorMemory:
        return self._read(record, number, is_at_once=True).copy()

    def _read(
        self, record: Any, which: int, *, is_kept: bool = False, is_at_once: bool = False
    ) -> TensorMemory:
        """Read outputs, from outside where that is possible; else the process copies them."""
        check_form(describe(record), self.reference.outputs, self.reference.is_tuple)
        slots = self.reference.output_slots
        if self._reads_outside:
            try:
                for one, slot in zip(record["outputs"], slots, strict=False):
                    read_output(self.child.pid, one, self.results.slot_bytes(slot))
            except Unreadable as error:
                self._require_there()
                detail = f"an output cannot be read after the call: {error}"
                raise Failure(Status.REJECTED, detail, check=Check.STORAGE) from error
            return self.results
        self.results.bytes.fill(0xFF)  # NaN, so that leftovers of an earlier call cannot pass for outputs
        arenas = {} if self._has_results else {"results": self.results}
        self._has_results = True
        self._call("dump", self._call_timeout_s, Status.INCORRECT_SHAPE, arenas, arena="results",
                   slots=slots, which=which, is_kept=is_kept, is_at_once=is_at_once)  # fmt: skip
        return self.results

    _has_results = False

    def _resolved(self, output: TensorMemory, which: int, *, is_kept: bool = False) -> TensorMemory:
        """Conjugate or negate complex outputs that were read from outside, where the process claims so.

        What it claims chooses what the bytes mean that have been read, and brings no other bytes.
        """
        dtypes = [spec.dtype for spec in self.reference.outputs]
        if not self._reads_outside or not any(dtype.startswith("complex") for dtype in dtypes):
            return output
        reply = self._call("put_off", self._call_timeout_s, Status.INCORRECT_SHAPE, which=which,
                           is_kept=is_kept)  # fmt: skip
        given = reply.get("outputs")
        claims = given if isinstance(given, list) else []
        are_pairs = all(isinstance(claim, list) and len(claim) == 2 for claim in claims)
        if not are_pairs or len(claims) != len(dtypes):
            raise Failure(Status.REJECTED, MALFORMED, check=Check.STORAGE)
        for dtype, slot, claim in zip(dtypes, self.reference.output_slots, claims, strict=True):
            if dtype.startswith("complex"):
                is_conjugated, is_negated = (one is True for one in claim)
                resolve(output.slot_bytes(slot), dtype, is_conjugated=is_conjugated, is_negated=is_negated)
        return output

    def fetch_state(self, slots: Mapping[str, Slot]) -> TensorMemory:
        """Return the named parameters and buffers as they are now."""
        with _judged_layout():
            self._weights.read(slots, self._state)
        return self._state

    def _call_plainly(
        self, status: Status, op: str, arenas: Mapping[str, SharedMemory] | None = None, **fields: Any
    ) -> Message:
        return self._call(op, self._call_timeout_s, status, arenas, **fields)

    def _call(
        self,
        op: str,
        timeout_s: float,
        status: Status,
        arenas: Mapping[str, SharedMemory] | None = None,
        **fields: Any,
    ) -> Message:
        """Send a command; ``status`` is what the candidate gets when the command raises."""
        self.watch.enter()
        try:
            with self._judged(op, status):
                return self.child.call(op, timeout_s, arenas, **fields)
        finally:
            self.watch.leave()

    def _require_there(self) -> None:
        """Raise Failure where the process was killed: that it cannot be read is not the candidate's doing."""
        with self._judged("calls", Status.RUNTIME_ERROR):
            self.child.require_there()

    @contextlib.contextmanager
    def _judged(self, op: str, status: Status) -> Iterator[None]:
        """Turn what a child did wrong into a Failure.

        The cause keeps no traceback: under Python 3.13 it would lead back to what holds it, and with it to
        memory.
        """
        try:
            yield
        except ChildRefused as error:
            text = error.text.strip().partition("\n")[0][:300]
            raise Failure(status, f"{error.kind}: {text}", error.traceback) from error.with_traceback(None)
        except ChildLate as error:
            is_idle = error.cpu_s - self.watch.entered_s < IDLE_SHARE * error.timeout_s
            is_short = error.timeout_s < self._settings.load_timeout_s
            raise Failure(
                Status.TIMEOUT, f"{op}: {error}", self.child.log_tail(), is_by_clock=is_idle and is_short
            ) from error.with_traceback(None)
        except ChildDied as error:
            raise Failure(
                Status.CRASHED, f"{op}: the process {error.how}", self.child.log_tail(),
                is_by_clock=error.may_be_killed,
            ) from error.with_traceback(None)  # fmt: skip
        except ChildError as error:
            raise MachineError(f"worker: {error}") from error


@contextlib.contextmanager
def _judged_layout() -> Iterator[None]:
    try:
        yield
    except BadLayout as error:
        raise Failure(Status.INCORRECT_STATE, f"its state_dict: {error}") from error


def _seconds(ns: Any) -> float:
    """Return a worker's nanoseconds as seconds; raises Failure when they are not a time."""
    if not isinstance(ns, int | float) or not 0 <= ns < 1e15:
        raise Failure(Status.REJECTED, NO_TIME, check=Check.CLOCK)
    return float(ns) / 1e9


def check_form(reply: Message, outputs: tuple[OutputSpec, ...], is_tuple: bool) -> None:
    """Compare the description of what forward returned with the contract; raises Failure."""
    described = reply.get("outputs")
    if not isinstance(described, list) or not all(isinstance(item, dict) for item in described):
        raise Failure(Status.REJECTED, MALFORMED, check=Check.FORM)
    if len(described) != len(outputs):
        raise Failure(Status.INCORRECT_SHAPE, f"{len(described)} outputs instead of {len(outputs)}")
    if bool(reply.get("is_tuple")) != is_tuple:
        wanted = "a tuple or list" if is_tuple else "a bare tensor"
        raise Failure(Status.INCORRECT_SHAPE, f"forward must return {wanted}, as the reference does")
    for i, (got, spec) in enumerate(zip(described, outputs, strict=True)):
        _check_output(f"out{i}", got, spec)
    for i, j in reply["overlaps"]:
        is_dense = outputs[i].must_be_dense and outputs[j].must_be_dense  # others may interleave
        if is_dense and i not in outputs[j].overlaps:
            raise Failure(Status.ALIASED_OUTPUT, f"out{j} shares memory with out{i}")


def _check_output(name: str, got: Message, spec: OutputSpec) -> None:
    kind, shape, dtype = got.get("type"), got.get("shape"), got.get("dtype")
    is_plain = kind == "torch.Tensor" and got.get("layout") == "torch.strided"
    if is_plain and got.get("device") != spec.device:
        where = f"on the device {got.get('device')!s:.40} instead of {spec.device}"
        raise Failure(Status.INCORRECT_DTYPE, f"{name} is {where}")
    if not is_plain:
        raise Failure(Status.INCORRECT_DTYPE, f"{name} is a {kind!s:.80}, not a plain torch.Tensor")
    if shape != list(spec.shape):
        raise Failure(Status.INCORRECT_SHAPE, f"{name} has shape {shape!s:.80} instead of {list(spec.shape)}")
    if dtype != spec.dtype:
        raise Failure(Status.INCORRECT_DTYPE, f"{name} is {dtype!s:.40} instead of {spec.dtype}")
    if spec.must_be_dense and got.get("is_dense") is not True:
        why = "its elements share memory or leave gaps; return a copy, .contiguous()"
        raise Failure(Status.ALIASED_OUTPUT, f"{name} is not dense: {why}")
    if got.get("shares") and not spec.may_share:
        raise Failure(Status.ALIASED_OUTPUT, f"{name} shares memory with {got['shares']!s:.80}")


def _state_problem(got: Any, wanted: Mapping[str, Slot]) -> str | None:
    if not isinstance(got, dict):
        return MALFORMED
    missing, extra = sorted(wanted.keys() - got.keys()), sorted(got.keys() - wanted.keys())
    if missing or extra:
        parts = []
        if missing:
            parts.append("missing " + ", ".join(missing[:N_NAMED]))
        if extra:
            parts.append("not in the reference " + ", ".join(extra[:N_NAMED]))
        return "; ".join(parts)
    for name, slot in wanted.items():
        if got[name] != {"dtype": slot["dtype"], "shape": slot["shape"]}:
            return f"{name} is {got[name]!s:.100} instead of {slot['dtype']} {slot['shape']}"
    return None
