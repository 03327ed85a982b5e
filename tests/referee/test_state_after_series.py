"""Buffers are compared after as many calls as a timed series has, and no buffer goes on for longer."""

import itertools
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kernelwright.core.evaluation import Status
from kernelwright.referee.session.candidate_process import Failure
from kernelwright.referee.session.shared_memory import SharedMemory
from kernelwright.referee.timing.measure import STATE_CALLS, Measurement, _Side

SLOT = {"dtype": "float32", "shape": [1], "stride": [1], "offset": 0}
VALUES = {"slot0": 1.0, "slot1": 2.0, "slot2": 5.0}


class Follower:
    """Stands for a process: a buffer follows the inputs, in the first calls after it was loaded."""

    def __init__(self, honest: float, share: float = 0.1) -> None:
        self.honest, self.share = honest, share
        self.counts: list[int] = []
        self.states: list[Any] = []
        self.child: Any = SimpleNamespace(queue=SimpleNamespace(ring=256))

    def load_state(self, state: Any, slots: Any = None) -> None:
        self.bound, self.counts, self.states = 0.0, [*self.counts, 0], [*self.states, state]

    def time(self, order: Sequence[str], calls: int, **named: Any) -> Any:
        for at in range(calls):
            self.counts[-1] += 1
            if self.counts[-1] <= self.honest:
                self.bound += self.share * (VALUES[order[at % len(order)]] - self.bound)
        return SimpleNamespace(counted=1, total=1, seconds=1.0, own_s=1.0)

    make_calls = time

    def fetch_state(self, slots: Any) -> SharedMemory:
        memory = SharedMemory(4)
        memory.bytes[:4] = np.array([self.bound], np.float32).view(np.uint8)
        return memory


def measurement(candidate: Follower, *, calls: int, eager_ms: float = 0.01) -> Measurement:
    reference: Any = Follower(np.inf)
    layout = SimpleNamespace(state={"bound": SLOT}, args_bytes=4, state_bytes=4)
    vars(reference).update(
        layout=layout, set_names=list(VALUES), other_keys=[], states={}, output_bytes=4, eager_ms=eager_ms,
        device=SimpleNamespace(is_apart=False),
    )  # fmt: skip
    vars(candidate).update(reference=reference, slots=dict.fromkeys(VALUES))
    draws: Any = [SimpleNamespace(changed={"bound": SimpleNamespace(least_scale=0.0)}) for _ in VALUES]
    states = itertools.cycle("ab")
    weights: Any = SimpleNamespace(state="b", draw=lambda draw: draw)
    weights.next = lambda: vars(weights).update(state=next(states)) or weights.state
    found = Measurement(
        candidate, None, draws, weights, None, is_final=False, pinning=None  # type: ignore[arg-type]
    )  # fmt: skip
    found._all = [_Side("candidate", "", calls=calls, per_call_s=1e-5)]
    return found


@pytest.mark.parametrize("honest", [44, 90])
def test_who_stops_updating_within_a_series_is_found(honest: int) -> None:
    """One in 600 stops at the very value with which its series ends, and is not told apart."""
    found: list[Failure] = []
    for _ in range(20):
        try:
            measurement(Follower(honest), calls=200)._check_state()
        except Failure as failure:
            found.append(failure)
    assert len(found) >= 18
    assert all("is not as the reference leaves it" in str(failure.detail) for failure in found)
    assert {failure.status for failure in found} == {Status.INCORRECT_STATE}


def test_who_updates_in_every_call_is_not() -> None:
    for _ in range(20):
        measurement(candidate := Follower(np.inf), calls=200)._check_state()
        few, some, many = candidate.counts
        assert few <= STATE_CALLS and some <= 100 <= many <= 200
        assert len({*candidate.states}) > 1, "only buffers that begin anew would tell of a comparison"


def test_a_slow_reference_makes_few_calls() -> None:
    measurement(candidate := Follower(np.inf), calls=200, eager_ms=50.0)._check_state()
    assert len(candidate.counts) == 1


def test_buffers_begin_anew_with_every_series_though_the_weights_stay() -> None:
    side = measurement(candidate := Follower(np.inf), calls=200)
    side._load_weights(side._all[0], has_changed=False)
    side._load_weights(side._all[0], has_changed=False)
    assert len(candidate.counts) == 2
