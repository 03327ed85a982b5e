"""Run a candidate on draws and compare everything it did with what the reference did."""

from collections.abc import Iterable

from kernelwright.core.evaluation import NumericalError, Status
from kernelwright.referee.contestant import Contestant, Failure
from kernelwright.referee.draws import Draw
from kernelwright.referee.memory import SharedMemory
from kernelwright.referee.tolerance import Array, Distance, Expected


class Verification:
    """Checks of one candidate on one workload; keeps the worst error per family and output."""

    def __init__(self, contestant: Contestant) -> None:
        self._contestant = contestant
        self._reference = contestant.reference
        self._worst: dict[tuple[str, str], NumericalError] = {}
        self._loaded: str | None = None
        self._n_checked = 0

    @property
    def errors(self) -> tuple[NumericalError, ...]:
        """Worst error per family and output so far."""
        return tuple(self._worst.values())

    def check_all(self, draws: Iterable[Draw]) -> None:
        """Check draw by draw; raises Failure at the first that does not hold."""
        previous: Draw | None = None
        for draw in draws:
            self.check(draw)
            if previous is not None and self._n_checked == 2:
                self._check_previous(previous)
            previous = draw

    def check(self, draw: Draw) -> None:
        """Check one draw; raises Failure."""
        contestant = self._contestant
        slot = list(contestant.slots)[self._n_checked % len(contestant.slots)]
        contestant.slots[slot].copy_from(draw.inputs)
        if self._loaded != draw.state.name:
            contestant.map_state(draw.state)
            self._loaded = draw.state.name
        else:
            contestant.load_state(draw.state, self._reference.layout.buffers())
        contestant.run(slot)
        self._n_checked += 1
        self.check_outputs(draw, contestant.fetch(), "")
        self._check_inputs(draw, contestant.slots[slot])
        self._check_state(draw)

    def check_outputs(self, draw: Draw, results: SharedMemory, when: str) -> None:
        """Compare outputs with what is expected of the draw; raises Failure."""
        for i, (slot, expected) in enumerate(zip(self._reference.output_slots, draw.outputs, strict=True)):
            self._judge(draw, f"out{i}", expected, results.slot_bytes(slot), when)

    def _judge(self, draw: Draw, name: str, expected: Expected, raw: Array, when: str) -> None:
        distance = expected.judge(raw)
        self._record(draw, name, distance)
        if distance.is_close:
            return
        where = f"{name} on {draw.key.label} inputs{when}"
        if not distance.is_finite:
            raise Failure(Status.NON_FINITE, f"{where}: NaN or infinity where the reference is finite")
        status = Status.INCORRECT_STATE if name.startswith("buffer:") else Status.INCORRECT_NUMERICS
        raise Failure(status, f"{where}: {_words(distance)}")

    def _record(self, draw: Draw, name: str, distance: Distance) -> None:
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

    def _check_inputs(self, draw: Draw, memory: SharedMemory) -> None:
        for i, slot in enumerate(self._reference.layout.arg_slots):
            if memory.differs_from(draw.inputs, slot):
                raise Failure(
                    Status.MUTATED_INPUT, f"input tensor {i} was written to on {draw.key.label} inputs"
                )

    def _check_state(self, draw: Draw) -> None:
        """Compare buffers after the call; on the first draw parameters too."""
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
                raise Failure(status, f"{kind} {name} was written to and the reference does not do so")

    def _check_previous(self, previous: Draw) -> None:
        """An output must not change when the module is called again."""
        results = self._contestant.fetch("previous")
        for slot, expected in zip(self._reference.output_slots, previous.outputs, strict=True):
            if not expected.judge(results.slot_bytes(slot)).is_close:
                raise Failure(Status.ALIASED_OUTPUT, "an earlier output changed when it was called again")


def _words(distance: Distance) -> str:
    if distance.allowed == 0.0 and distance.reference_error == 0.0:
        return f"{distance.error:.3g} of the elements are wrong"
    return (
        f"scaled error {distance.error:.3g}, allowed {distance.allowed:.3g} "
        f"(the float32 reference has {distance.reference_error:.3g})"
    )
