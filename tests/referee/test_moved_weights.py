"""Weights change in the middle of a series of calls, on modules of which only parameters change."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kernelwright.referee.checks.moved_weights import TURNS, MovedWeights
from kernelwright.referee.session.input_samples import WeightState
from kernelwright.referee.session.shared_memory import SharedMemory

SLOTS = {
    name: {"dtype": "float32", "shape": [4], "stride": [1], "offset": offset}
    for name, offset in (("weight", 0), ("mean", 64))
}


def state(name: str, **values: float) -> WeightState:
    memory = SharedMemory(128)
    for key, value in values.items():
        memory.slot_bytes(SLOTS[key]).view(np.float32)[:] = value
    return WeightState(name, "constructed", memory)


def moves(*states: WeightState, draws: Any = (), timed_s: float = 1e-5) -> list[tuple[str, str, list[str]]]:
    """Return the changes that a module with one parameter and one buffer goes through."""
    made: list[tuple[str, str, list[str]]] = []
    now = [states[0].name]
    layout = SimpleNamespace(state=SLOTS, parameters=frozenset({"weight"}))
    worker: Any = SimpleNamespace(
        reference=SimpleNamespace(layout=layout, device=SimpleNamespace(is_apart=False)),
        slots={"set": None},
        child=SimpleNamespace(queue=SimpleNamespace(ring=8)),
        fill=lambda name, inputs: None,
        load_state=lambda loaded: now.__setitem__(0, loaded.name),
        looked=[],
    )

    def run_during(sets: Any, left: int, after: WeightState, slots: Any, *, n_looked: int) -> int:
        assert 0 < left < len(sets)
        made.append((now[0], after.name, list(slots)))
        return 0

    worker.run_during = run_during
    sample = SimpleNamespace(changed=draws, inputs=None)
    weights: Any = SimpleNamespace(states=states, state=states[0])
    MovedWeights(worker, [sample], weights, timed_s).check()  # type: ignore[list-item]
    assert now == [states[0].name]
    return made


def test_weights_change_to_and_fro_and_are_put_back() -> None:
    found = moves(state("one", weight=1.0, mean=3.0), state("two", weight=2.0, mean=3.0))
    assert len(found) == TURNS
    assert set(map(str, found)) == {"('one', 'two', ['weight'])", "('two', 'one', ['weight'])"}


@pytest.mark.parametrize(
    ("other", "options"),
    [
        ({"weight": 1.0, "mean": 4.0}, {}),
        ({"weight": 2.0, "mean": 3.0}, {"draws": {"mean": None}}),
        ({"weight": 2.0, "mean": 3.0}, {"timed_s": 0.02}),
    ],
    ids=["a buffer would change", "buffers change in every call", "series of one call"],
)
def test_nothing_is_changed_where_nothing_could_be_said(
    other: dict[str, float], options: dict[str, Any]
) -> None:
    assert not moves(state("one", weight=1.0, mean=3.0), state("two", **other), **options)


def test_frozen_weights_stay() -> None:
    assert not moves(state("one", weight=1.0))
