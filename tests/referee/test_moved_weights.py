"""One element of the weights changes while a series of calls goes on."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib import resources
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kernelwright.core.candidate import Candidate
from kernelwright.core.evaluation import Check, Status
from kernelwright.core.task import Task
from kernelwright.referee.checks import moved as moved_check
from kernelwright.referee.session.calls import MOVABLE_CALLS, Calls, Made, change_between
from kernelwright.referee.session.candidate_process import CandidateProcess, Failure
from kernelwright.referee.session.input_samples import ONE_ELEMENT, InputSample, SampleKey, WeightState
from kernelwright.referee.session.live_weights import LiveWeights
from kernelwright.referee.session.moved_weights import SOON, LiveMove, MovedWeights
from kernelwright.referee.session.referee import Referee, RefereeSession
from kernelwright.referee.session.sample_maker import NonFinite
from kernelwright.referee.session.shared_memory import SharedMemory
from kernelwright.referee.session.weight_moves import WeightMoves
from kernelwright.referee.timing import measure
from kernelwright.referee.worker.layouts import Slot

SLOTS = {
    name: {"dtype": "float32", "shape": [2, 4], "stride": [4, 1], "offset": offset}
    for name, offset in (("weight", 0), ("mean", 64))
}
CORPUS = resources.files("kernelwright.corpus")


def base() -> WeightState:
    memory = SharedMemory(128)
    memory.slot_bytes(SLOTS["weight"]).view(np.float32)[:] = np.arange(8)
    return WeightState("constructed", "constructed", memory)


def sample(state: WeightState) -> InputSample:
    return InputSample(SampleKey("as_is"), state, SharedMemory(64), (), {})


class Maker:
    """Stands for what runs the reference; it keeps the weights that it was given."""

    output_bytes = 64

    def __init__(self, *, is_finite: bool = True, is_alone: bool = True, is_sorted: bool = False) -> None:
        self.is_finite, self.is_alone, self.is_sorted = is_finite, is_alone, is_sorted
        self.seen: list[list[float]] = []

    def load_state(self, state: WeightState) -> None:
        pass

    def element(self, name: str, at: tuple[int, ...]) -> Any:
        return [np.zeros(4, np.uint8)] if self.is_alone else []

    def draw_on(self, draw: InputSample, state: WeightState) -> InputSample:
        if not self.is_finite:
            raise NonFinite
        weight = state.memory.slot_bytes(SLOTS["weight"]).view(np.float32).tolist()
        if self.is_sorted and weight != sorted(set(weight)):
            raise NonFinite
        self.seen.append(weight)
        return sample(state)


def moves(maker: Maker, *, is_frozen: bool = False) -> WeightMoves:
    layout: Any = SimpleNamespace(
        state=SLOTS, parameters=frozenset({"weight"}), changeable=[*SLOTS.values()], state_bytes=128
    )
    return WeightMoves(maker, layout, 1.0, is_frozen=is_frozen)  # type: ignore[arg-type]


@pytest.mark.parametrize("ring", [2, 4, 256])
@pytest.mark.parametrize("per_call_s", [1e-5, 1e-3, 1.0])
@pytest.mark.parametrize("counted", [3, 4, 50, 1000])
def test_the_change_lies_between_calls_that_count(counted: int, per_call_s: float, ring: int) -> None:
    for extra, rests in itertools.product((0, ring // 2), (False, True)):
        change = change_between([], counted, counted + extra, ring, per_call_s, rests=rests)
        assert 1 <= change.lead < change.at < counted, "a call has ended, others go on, one follows"
        assert change.at >= counted + extra - ring, "the output of the first call after it is kept"
        assert 1 <= change.rest <= change.lead <= max(ring // 2, 1)


def test_some_calls_begin_after_a_change_though_no_further_call_was_fed() -> None:
    for rests in (False, True):
        change = change_between([], 200, 210, 256, 1e-4, rests=rests)
        assert (change.rest < change.lead) == rests


def test_one_of_every_two_changes_is_followed_by_no_further_call() -> None:
    calls = Calls(None, is_apart=False)  # type: ignore[arg-type]
    pairs = [(calls._next_rests(), calls._next_rests()) for _ in range(40)]
    assert set(pairs) == {(True, False), (False, True)}


def test_a_short_series_begins_after_the_change() -> None:
    assert change_between([], MOVABLE_CALLS - 1, MOVABLE_CALLS - 1, 256, 1.0, rests=True).at == 0


def test_no_call_is_compared_of_which_it_is_not_sure_what_it_saw() -> None:
    move = LiveMove([], [], lambda at: at % 2 == 0)
    chosen = [at for _ in range(200) for at in move.choose(range(5, 60), range(20, 30), 3)]
    assert set(chosen) <= {*range(5, 20), *range(30, 60, 2)}
    soon = [at for at in chosen if 30 <= at < 30 + 2 * SOON]
    assert len(soon) >= 400 and set(soon) == {*range(30, 30 + 2 * SOON, 2)}


def test_calls_before_it_are_compared_where_nothing_is_known_of_those_after_it() -> None:
    move = LiveMove([], [], lambda at: False)
    assert set(move.choose(range(10), range(4, 6), 10)) == {0, 1, 2, 3}


def test_weights_are_put_back_after_the_oracle_has_seen_them() -> None:
    state, maker = base(), Maker()
    some = moves(maker)
    draw = sample(state)
    for _ in range(3):
        some.prepare([draw], 1.0)
    assert len(maker.seen) == 1, "the sample is known from then on"
    assert maker.seen[0] != list(range(8))
    assert state.memory.slot_bytes(SLOTS["weight"]).view(np.float32).tolist() == list(range(8))
    moved = some.pick([draw])
    assert moved is not None and moved.name == "weight", "a buffer may be bound anew while calls go on"
    with moved.applied() as after:
        assert after.memory.slot_bytes(SLOTS["weight"]).view(np.float32).tolist() == maker.seen[0]


@pytest.mark.parametrize(("style", "most"), [("constructed", 16 * 7.0), (ONE_ELEMENT, 7.0)])
def test_what_is_large_already_does_not_grow(style: str, most: float) -> None:
    state, seen = replace(base(), style=style), []
    for _ in range(40):
        maker = Maker()
        moves(maker).prepare([sample(state)], 1.0)
        seen += [max(map(abs, maker.seen[0]))]
    assert max(seen) == most


def test_a_change_that_no_call_has_met_is_new_each_time_and_not_kept() -> None:
    some, draw = moves(maker := Maker()), sample(base())
    found = [some.unmet(draw) for _ in range(20)]
    assert all(one is not None and one.after(draw) is not None for one in found)
    assert len(set(map(tuple, maker.seen))) > 4 and some.pick([draw]) is None
    assert moves(Maker(), is_frozen=True).unmet(draw) is None
    assert moves(Maker(is_finite=False)).unmet(draw) is None


@pytest.mark.parametrize("limit_s", [0.0, 1.0])
def test_knots_that_must_stay_sorted_change_too(limit_s: float) -> None:
    for _ in range(20):
        maker = Maker(is_sorted=True)
        some, draw = moves(maker), sample(base())
        for _ in range(4):
            some.prepare([draw], limit_s)
        assert some.pick([draw]) is not None and maker.seen[0] != list(range(8))


def test_it_holds_for_one_weight_sample_only() -> None:
    draw, some = sample(base()), moves(Maker())
    some.prepare([draw], 1.0)
    assert some.pick([draw]) is not None
    assert some.pick([sample(base())]) is None


@pytest.mark.parametrize(
    ("maker", "is_frozen"), [(Maker(is_finite=False), False), (Maker(is_alone=False), False), (Maker(), True)]
)
def test_nothing_changes_where_nothing_could_be_said(maker: Maker, is_frozen: bool) -> None:
    draw, some = sample(base()), moves(maker, is_frozen=is_frozen)
    for _ in range(3):
        some.prepare([draw], 1.0)
    assert some.pick([draw]) is None


def test_without_time_only_the_first_is_made() -> None:
    first, second, maker = sample(state := base()), sample(state), Maker()
    some = moves(maker)
    for _ in range(3):
        some.prepare([first, second], 0.0)
    assert len(maker.seen) == 1


def live(slots: Mapping[str, Slot] = SLOTS, /, **offsets: int) -> LiveWeights:
    """Return the weights of a process whose parameters begin there."""
    layout: Any = SimpleNamespace(state=slots, buffers=dict, state_bytes=128)
    state = {name: slots[name] | {"offset": offset} for name, offset in offsets.items()}
    told = {"state": state, "ranges": {}}
    weights = LiveWeights(lambda op, *args, **fields: told, layout, is_apart=False)
    weights.write(base())
    return weights


def test_a_change_is_written_where_the_process_has_its_weights_and_put_back() -> None:
    state, some = base(), moves(Maker())
    some.prepare([draw := sample(state)], 1.0)
    moved = some.pick([draw])
    assert moved is not None
    weights = live(weight=96, mean=32)
    move = moved.live(weights, lambda at: True)
    assert move is not None
    for to, value in move.writes:
        to[:] = value
    assert moved.live(weights, lambda at: True) is None, "it does not have the base now"
    move.put_back()
    assert moved.live(weights, lambda at: True) is not None


def test_an_element_that_two_tensors_share_does_not_change() -> None:
    assert len(live(weight=0, mean=32).element("weight", (1, 3))) == 1
    shared = live(weight=0, mean=16)
    assert shared.element("weight", (0, 3))
    assert not shared.element("weight", (1, 0))


@pytest.mark.parametrize(("step", "n_places"), [(0, 1), (64, 2), (64, 100)])
def test_tied_parameters_change_together_wherever_a_process_keeps_them(step: int, n_places: int) -> None:
    names = [f"again{number}" for number in range(1, max(n_places, 2))]
    places = {name: step * number for number, name in enumerate(names, 1)}
    weights = live(SLOTS | dict.fromkeys(names, SLOTS["weight"]), weight=0, mean=32, **places)
    state, some = base(), moves(Maker())
    some.prepare([draw := sample(state)], 1.0)
    moved = some.pick([draw])
    assert moved is not None
    assert all(len(weights.element("again1", at)) == n_places for at in [(0, 0), (1, 3)])
    move = moved.live(weights, lambda at: True)
    assert move is not None and len(move.writes) == len(moved.elements) * n_places


def failing(results: SharedMemory, outputs: str) -> Failure:
    """Return what a call gets whose outputs are those that ``outputs`` names."""
    state = base()
    draw, after = sample(state), sample(state)
    change = MovedWeights(state, "weight", SLOTS["weight"], (), {id(draw.inputs): after})

    def check(one: InputSample, given: SharedMemory) -> None:
        raise Failure(Status.INCORRECT_NUMERICS, "wrong")

    reference: Any = SimpleNamespace(
        output_slots=[{"offset": 0, "dtype": "float32", "shape": [1]}],
        judge=lambda one, expected, raw: SimpleNamespace(is_close=outputs == "before" and one is draw),
    )
    draw = InputSample(draw.key, state, draw.inputs, (None,), {})  # type: ignore[arg-type]
    with pytest.raises(Failure) as found:
        moved_check.check_moved(reference, change, draw, results, check)
    return found.value


def test_outputs_of_earlier_weights_are_named() -> None:
    kept, wrong = (failing(SharedMemory(4), which) for which in ("before", "none"))
    assert (kept.status, kept.check) == (Status.REJECTED, Check.WEIGHTS)
    assert wrong.status is Status.INCORRECT_NUMERICS


@pytest.fixture
def series(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Made, list[int]]]:
    """Series in which weights changed, and the calls that were compared."""
    found: list[tuple[Made, list[int]]] = []
    call = CandidateProcess.time

    def time(self: CandidateProcess, *args: Any, move: LiveMove | None = None, **named: Any) -> Made:
        made = call(self, *args, move=move, **named)
        if move:
            found.append((made, [position for position, _ in self.looked]))
        return made

    monkeypatch.setattr(CandidateProcess, "time", time)
    return found


@pytest.fixture(scope="module")
def mixing(referee: Referee) -> Iterator[RefereeSession]:
    source = CORPUS.joinpath("tasks", "mixing.py").read_text("utf-8")
    with referee.open(Task(name="mixing", source=source)) as session:
        yield session


def test_an_honest_module_is_verified_while_its_weights_change(
    mixing: RefereeSession, series: list[tuple[Made, list[int]]]
) -> None:
    honest = CORPUS.joinpath("tasks", "mixing.py").read_text("utf-8").replace("class Model", "class ModelNew")
    assert mixing.evaluate(Candidate(source=honest)).is_verified
    assert any(at >= made.unsure.stop for made, positions in series for at in positions)
    assert not any(at in made.unsure for made, positions in series for at in positions)


def test_what_is_kept_until_a_pause_is_found(mixing: RefereeSession) -> None:
    """On a busy machine pauses come at any time: there are attempts."""
    kept = CORPUS.joinpath("cheats", "21_folds_after_pauses.py").read_text("utf-8")
    found = (mixing.evaluate(Candidate(source=kept)) for _ in range(8))
    assert any(one.check is Check.WEIGHTS and one.status is Status.REJECTED for one in found)


def test_weights_before_a_sample_of_one_call_do_not_come_back(
    referee: Referee, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[list[tuple[int, bytes]]] = []
    call = CandidateProcess.time

    def time(
        self: CandidateProcess, order: list[str], calls: int, *, move: LiveMove | None = None, **named: Any
    ) -> Made:
        if move and calls == 1:
            written.append([(to.ctypes.data, value.tobytes()) for to, value in move.writes])
        return call(self, order, calls, move=move, **named)

    monkeypatch.setattr(CandidateProcess, "time", time)
    monkeypatch.setattr(measure, "MAX_CALLS", 1)
    source = CORPUS.joinpath("tasks", "mixing.py").read_text("utf-8")
    with referee.open(Task(name="mixing", source=source)) as session:
        assert session.evaluate(Candidate(source=source.replace("class Model", "class ModelNew"))).is_verified
    assert len(written) >= 2 and all(one not in written[:at] for at, one in enumerate(written))
