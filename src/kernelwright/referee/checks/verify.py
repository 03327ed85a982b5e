"""Run a candidate on input samples and compare everything it did with what the reference did."""

import contextlib
import math
import os
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from kernelwright.core.evaluation import STATUS_CHECK, Check, NumericalError, Status
from kernelwright.referee.checks.tolerance import Array, Distance, ExpectedOutput
from kernelwright.referee.session.candidate_process import CandidateProcess, Failure
from kernelwright.referee.session.input_samples import (
    ALONE,
    CONSTRUCTED,
    FLAT_FAMILIES,
    FLAT_WEIGHTS,
    NONFINITE,
    ODD_FAMILIES,
    ON_GRID,
    InputSample,
    WeightState,
)
from kernelwright.referee.session.reference_process import ReferenceProcess
from kernelwright.referee.session.shared_memory import TensorMemory
from kernelwright.referee.session.shifted_inputs import ShiftedInputs
from kernelwright.referee.timing.pinning import Pinning, spell_of, threads_to_pin
from kernelwright.referee.worker.layouts import Slot

NEARLY = 2.0**-6
"""A scaled error below this looks like arithmetic in fewer bits, one above it like another computation."""

KEEP_BYTES = 256 << 20
"""Verification keeps the outputs of several calls when one call's outputs take at most this; else of one."""
POISONED = 0.75
"""Share of the samples on which memory is filled: filled memory says no more about what a call is for."""
PINNED = 0.75
"""Share of the samples on which busy threads are pinned, as they mostly are while calls are timed."""
SERIES_S, MOST_CALLS = 0.01, 2000
"""A sample is verified in a series of calls: at most so long, and so many. Whoever is in a call cannot tell
its series from the begin of a timed one."""
SPREAD_BYTES = 1 << 20
"""The inputs of a sample lie in several argument sets where a set is at most this large."""
MORE_LOOKED = 2
"""So many further outputs of a series are compared where outputs are at most as large as that."""
PERTURB = 0x01
"""Freed memory is filled with this byte, memory that is handed out with 0xFE: -1.7e38 as float32."""
NEAR = 1e-4
"""Outputs so near to the reference's own, as a scaled difference, need no oracle in ``matches_on``."""
SHIFTED = "shifted"
"""Name of the argument set whose inputs begin at addresses that are no multiples of a vector."""


class Verification:
    """Checks of one candidate on one workload; keeps the worst error per input distribution and output."""

    def __init__(self, worker: CandidateProcess, pinning: Pinning | None = None) -> None:
        """``pinning`` pins the candidate's threads from the third sample on; None: they stay as they are."""
        self._contestant, self._pinning = worker, pinning
        self._pinned: list[int] = []
        self._reference = worker.reference
        self._worst: dict[tuple[str, str], NumericalError] = {}
        self._loaded: str | None = None
        self._n_checked = 0
        self._rng = random.Random()
        self._kept: list[InputSample] = []
        self._n_keep = 1 if self._reference.output_bytes > KEEP_BYTES else len(worker.reference.timed_keys)
        self.notes: tuple[str, ...] = ()
        """Changes of the process's global state that are allowed, in words."""

    @property
    def errors(self) -> tuple[NumericalError, ...]:
        """Worst error per input distribution and output so far."""
        return tuple(self._worst.values())

    def check_all(self, draws: Iterable[InputSample], *, is_shifted: bool = False) -> None:
        """Check sample by sample; raises Failure at the first sample that the candidate fails.

        ``is_shifted``: the last sample is checked at other addresses, too.
        """
        worker = self._contestant
        worker.check_untampered()
        for draw in draws:
            worker.perturb(PERTURB if self._n_checked < 2 or self._rng.random() < POISONED else 0)
            self._pin()
            self.check(draw)
            if self._n_checked == 1 and not self._reference.accepted["draws"]:
                worker.note_generator()
            if self._n_checked == 2:
                self._check_kept()
        if is_shifted:
            self.check_shifted(draw)
        self._check_kept()
        worker.forget_kept()
        worker.perturb(0)
        self.notes = worker.check_untampered()
        worker.begin_timing()

    def _pin(self) -> None:
        """Pin busy threads, or let them go, for the next sample."""
        if self._pinning is None or self._n_checked < 2:
            return
        if self._n_checked == 2:
            self._pinned = self._busy_threads()
        if self._rng.random() < PINNED:
            self._pinning.pin(self._pinned)
        else:
            self._pinning.restore()

    def _busy_threads(self) -> list[int]:
        worker = self._contestant
        calls = max(1, min(math.ceil(SERIES_S / worker.ran_s), MOST_CALLS))
        spell = spell_of(worker.child.pid, lambda: worker.time(self._last_sets, calls))
        return threads_to_pin(spell, len(os.sched_getaffinity(0)))

    def _series(self, draw: InputSample) -> list[str]:
        """Fill argument sets with a sample's inputs; return the sets of its calls in their order.

        There is one call where tensors are copied, and the first of all calls is alone.
        """
        worker, names = self._contestant, list(self._contestant.slots)
        most = max(1, min(int(SERIES_S / worker.ran_s), MOST_CALLS))
        if self._reference.device.is_apart or self._n_checked == 0:
            most = 1
        calls = self._rng.randint(1, most)
        is_small = self._reference.layout.args_bytes <= SPREAD_BYTES
        as_in_others = (1, len(self._reference.timed_keys), len(names)) if is_small else (1,)
        sets = self._rng.sample(names, min(calls, self._rng.choice(as_in_others)))
        for name in sets:
            worker.fill(name, draw.inputs)
        self._last_sets = sets
        return [sets[i % len(sets)] for i in range(calls)]

    def check(self, draw: InputSample) -> None:
        """Check one sample; raises Failure."""
        worker = self._contestant
        worker.spoil()
        series = self._series(draw)
        if self._loaded != draw.state.name:
            worker.load_state(draw.state)
            self._loaded = draw.state.name
        else:
            worker.load_state(draw.state, self._reference.layout.buffers())
        is_kept = draw.key in self._reference.timed_keys and len(self._kept) < self._n_keep
        if draw.changed and len(series) > 1:  # what one call leaves behind is judged after one call
            self._run(draw, series)
            worker.load_state(draw.state, self._reference.layout.buffers())
            series = series[:1]
        self._n_checked += 1
        if draw.before is not None:
            self._call_before(draw, draw.before, series[0])
        self._run(draw, series, keep=is_kept)
        for slot in self._last_sets:
            self._check_inputs(draw, worker.inputs_now(slot))
        self._check_state(draw)
        if is_kept:
            self._kept.append(draw)
            self._check_apart(draw)

    def _call_before(self, draw: InputSample, before: TensorMemory, name: str) -> None:
        """Call on nearly the same inputs in the same memory: what is kept of them must not be used."""
        worker = self._contestant
        worker.fill(name, before)
        worker.run([name])
        worker.fill(name, draw.inputs)
        worker.load_state(draw.state, self._reference.layout.buffers())

    def check_shifted(self, draw: InputSample) -> None:
        """Call once on the sample checked last, with inputs at the addresses that views have.

        Nothing is done where the processor's memory is short for one more set, or does not hold the tensors.
        """
        worker, reference = self._contestant, self._reference
        layout = reference.layout
        is_short = layout.args_bytes > reference.replay_bytes
        if reference.device.is_apart or is_short or not layout.arg_slots:
            return
        given = ShiftedInputs(layout, draw.inputs)
        moved = replace(draw, inputs=given.memory)
        worker.load_state(draw.state, layout.buffers())
        worker.perturb(PERTURB)
        memory = worker.bind_in_first(SHIFTED, given.args)
        memory.copy_from(moved.inputs)
        with _said_of_shifted(given.by):
            self._run(moved, [SHIFTED])
            self._check_inputs(moved, memory, given.slots)
            self._check_state(moved)
        worker.unbind(SHIFTED)
        memory.copy_from(draw.inputs)

    def _run(self, draw: InputSample, series: Sequence[str], *, keep: bool = False) -> None:
        """Call on these sets and compare the outputs of some calls."""
        worker = self._contestant
        is_small = self._reference.output_bytes <= SPREAD_BYTES
        worker.run(series, keep=keep, n_looked=MORE_LOOKED if is_small else 0)
        for _, results in worker.looked:
            self.check_outputs(draw, results, "")
        self.check_outputs(draw, worker.fetch("chosen", is_at_once=True), "")

    def check_outputs(self, draw: InputSample, results: TensorMemory, when: str) -> None:
        """Compare outputs with the expected outputs of a sample; raises Failure."""
        for i, (slot, expected) in enumerate(zip(self._reference.output_slots, draw.outputs, strict=True)):
            self._judge(draw, f"out{i}", expected, results.slot_bytes(slot), when)

    def _judge(self, draw: InputSample, name: str, expected: ExpectedOutput, raw: Array, when: str) -> None:
        distance = self._reference.judge(draw, expected, raw)
        self._record(draw, name, distance)
        if distance.is_close:
            return
        where = f"{name} on {draw.key.label} inputs{when}"
        check = Check.TIMED_CALLS if when else self._which_check(draw, distance)
        if not distance.is_same_kind:
            why = f"{distance.error:.3g} of the elements are finite and the reference's not, or the reverse"
            raise Failure(
                Status.NON_FINITE, f"{where}: {why} (--nonfinite ignored leaves this out)", check=check
            )
        if not distance.is_finite:
            why = "NaN or infinity where the reference is finite"
            raise Failure(Status.NON_FINITE, f"{where}: {why}", check=check)
        if name.startswith("buffer:"):
            raise Failure(Status.INCORRECT_STATE, f"{where}: {_words(distance)}")
        raise Failure(Status.INCORRECT_NUMERICS, f"{where}: {_words(distance)}", check=check)

    def _which_check(self, draw: InputSample, distance: Distance) -> Check:
        """Return the check that this sample stands for, given that the samples before it were right."""
        if draw.key.family == NONFINITE:
            return Check.NONFINITE
        if draw.key.family in (*ODD_FAMILIES, *FLAT_FAMILIES, ON_GRID):
            return Check.FAMILIES
        if draw.key.state in (*FLAT_WEIGHTS, *ALONE):
            return Check.WEIGHTS
        if distance.reference_error < distance.error < NEARLY:
            return Check.PRECISION
        if draw.key.family != "as_is":
            return Check.FAMILIES
        return Check.ORACLE if draw.state.name == CONSTRUCTED else Check.WEIGHTS

    def _record(self, draw: InputSample, name: str, distance: Distance) -> None:
        key = (draw.key.family, name)
        known = self._worst.get(key)
        if known is not None and known.error >= distance.error:
            return
        self._worst[key] = NumericalError(
            workload=self._reference.workload.name,
            family=draw.key.family,
            output=name,
            error=distance.error,
            reference_error=distance.reference_error,
            allowed=distance.allowed,
        )

    def _check_inputs(
        self, draw: InputSample, memory: TensorMemory, slots: Sequence[Slot] | None = None
    ) -> None:
        if memory.equals(draw.inputs):
            return
        for i, slot in enumerate(slots or self._reference.layout.arg_slots):
            if memory.differs_from(draw.inputs, slot):
                where = f"input tensor {i} on {draw.key.label} inputs"
                raise Failure(Status.MUTATED_INPUT, f"the candidate wrote to {where}")
        raise Failure(Status.MUTATED_INPUT, "the candidate wrote to the memory around an input tensor")

    def _check_state(self, draw: InputSample) -> None:
        """Compare buffers after the call; on the first sample parameters too."""
        layout = self._reference.layout
        slots = (
            dict(layout.state)
            if self._n_checked == 1
            else layout.buffers() | {name: layout.state[name] for name in draw.changed}
        )
        if not slots:
            return
        after = self._contestant.fetch_state(slots)
        for name, slot in slots.items():
            if name in draw.changed:
                self._judge(draw, f"buffer:{name}", draw.changed[name], after.slot_bytes(slot), "")
            elif after.differs_from(draw.state.memory, slot):
                kind = "parameter" if name in layout.parameters else "buffer"
                status = Status.MUTATED_INPUT if kind == "parameter" else Status.INCORRECT_STATE
                raise Failure(status, f"the candidate wrote to {kind} {name}; the reference does not")

    def _check_kept(self) -> None:
        """Outputs must not change when the module is called again."""
        for number, draw in enumerate(self._kept):
            if not still_matches(self._reference, draw, self._contestant.fetch(number)):
                raise Failure(
                    Status.ALIASED_OUTPUT, "an earlier output changed when the module was called again"
                )

    def _check_apart(self, draw: InputSample) -> None:
        """An output must not change when the inputs are overwritten after the call."""
        if any(output.may_share for output in self._reference.outputs):
            return
        for slot in self._last_sets:
            self._contestant.overwrite(slot)
        if not matches(self._reference, draw, self._contestant.fetch("chosen")):
            raise Failure(
                Status.ALIASED_OUTPUT, "an output changed when the inputs were overwritten after the call"
            )
        for slot in self._last_sets:
            self._contestant.fill(slot, draw.inputs)


@contextlib.contextmanager
def _said_of_shifted(by: int) -> Iterator[None]:
    """Say of a failure that it is due to where inputs begin: on the same values elsewhere there was none."""
    try:
        yield
    except Failure as failure:
        where = f"on inputs that begin {by} bytes after a multiple of 64 (views such as `x[1:]` do)"
        raise Failure(
            failure.status, f"{where}: {failure.detail}", failure.log,
            check=STATUS_CHECK.get(failure.status, failure.check), is_by_clock=failure.is_by_clock,
        ) from failure  # fmt: skip


def matches(reference: ReferenceProcess, draw: InputSample, results: TensorMemory) -> bool:
    """True when results are the expected outputs of a sample."""
    return all(
        reference.judge(draw, expected, results.slot_bytes(slot)).is_close
        for slot, expected in zip(reference.output_slots, draw.outputs, strict=True)
    )


def still_matches(reference: ReferenceProcess, draw: InputSample, results: TensorMemory) -> bool:
    """True when results that were kept for a while are still the expected outputs of a sample.

    Skips an output that shares memory with an input or with state in the reference: it changes with them.
    """
    return all(
        output.may_share or reference.judge(draw, expected, results.slot_bytes(slot)).is_close
        for slot, expected, output in zip(
            reference.output_slots, draw.outputs, reference.outputs, strict=True
        )
    )


def matches_on(
    reference: ReferenceProcess, raw: npt.NDArray[np.uint8], state: WeightState, results: TensorMemory
) -> bool:
    """True when results are right on as-is inputs drawn before.

    The oracle is asked only where they are not near the reference's own, since asking takes long. Whoever
    computes with fewer bits in such calls does so in timed ones, which the oracle judges.
    """
    if reference.distance_on(raw, state, results) <= NEAR:
        return True
    draw = reference.draw_of(raw, state)
    return draw is None or still_matches(reference, draw, results)


def _words(distance: Distance) -> str:
    if distance.allowed == 0.0 and distance.reference_error == 0.0:
        return f"{distance.error:.3g} of the elements are wrong"
    return (
        f"scaled error {distance.error:.3g}, allowed {distance.allowed:.3g} "
        f"(the float32 reference has {distance.reference_error:.3g})"
    )
