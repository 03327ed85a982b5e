"""Weights are written from outside, keep their layout and change while calls are timed and replayed."""

import ctypes
import mmap
import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tests.referee.conftest import HEAD, TAIL, judge
from torch import nn

from kernelwright.core.evaluation import Status
from kernelwright.core.task import Task
from kernelwright.referee.session import weight_exchange
from kernelwright.referee.session.candidate_process import CandidateProcess
from kernelwright.referee.session.input_samples import CONSTRUCTED, WeightState
from kernelwright.referee.session.referee import Referee, RefereeSession
from kernelwright.referee.session.shared_memory import SharedMemory, place
from kernelwright.referee.timing.measure import Measurement
from kernelwright.referee.worker.held_state import HeldState, NoRoom
from kernelwright.referee.worker.tensors import Arena

OWN = """
self.lin = nn.Linear(128, 64)
self.norm = nn.BatchNorm1d(64)
self.seen = None
"""


def arena(size: int) -> Arena:
    fd = os.memfd_create("test")
    os.ftruncate(fd, size)
    return Arena(fd, size)


def test_what_shares_a_storage_follows_it_and_no_version_moves() -> None:
    packed = torch.arange(12.0).view(3, 4)
    weight, view = nn.Parameter(packed.t()), packed[1]
    version = weight._version
    memory = arena(1 << 16)
    slot = HeldState(memory).hold({"weight": weight, "again": weight})["weight"]
    assert torch.equal(weight, torch.arange(12.0).view(3, 4).t())
    assert slot["stride"] == [1, 4]
    memory.tensor(slot)[0, 1] = 99.0
    assert (weight[0, 1].item(), view[0].item(), packed[1, 0].item()) == (99.0, 99.0, 99.0)
    assert weight._version == version


def test_a_buffer_that_is_bound_anew_gets_its_region_back() -> None:
    held = HeldState(arena(1 << 16))
    first = held.hold({"count": torch.ones(4)})
    again = held.hold({"count": torch.full((4,), 2.0)})
    assert first == again


def test_too_large_a_state_is_refused() -> None:
    with pytest.raises(NoRoom, match="4096 bytes"):
        HeldState(arena(4096)).hold({"weight": torch.zeros(4096)})


def test_tied_parameters_have_one_place() -> None:
    weight = nn.Parameter(torch.ones(8))
    slots = HeldState(arena(1 << 14)).hold({"a": weight, "b": weight})
    assert slots["a"]["offset"] == slots["b"]["offset"]


def test_the_address_of_a_storage_is_the_arenas() -> None:
    memory, value = arena(1 << 14), torch.ones(8)
    HeldState(memory).hold({"value": value})
    begin = ctypes.addressof(ctypes.c_char.from_buffer(memory.memory))
    assert begin <= value.data_ptr() < begin + memory.size
    assert isinstance(memory.memory, mmap.mmap)
    assert np.asarray(value).tolist() == [1.0] * 8


HONEST = "y = torch.relu(self.norm(self.lin(x)))\nreturn y"
FOLDED = """
if self.seen is None or self.told != TOLD:
    self.told = TOLD
    scale = self.norm.weight / torch.sqrt(self.norm.running_var + self.norm.eps)
    shift = (self.lin.bias - self.norm.running_mean) * scale + self.norm.bias
    self.seen = scale[:, None] * self.lin.weight, shift
return torch.relu(nn.functional.linear(x, *self.seen))
"""
VERSIONS = "(self.lin.weight._version, self.norm.running_var._version, self.norm.weight._version)"
SAMPLES = (
    "(self.lin.weight[0, :16].tolist(), self.norm.running_var[:4].tolist(), self.norm.bias[:4].tolist())"
)


def fold_until(told: str) -> str:
    return FOLDED.replace("TOLD", told)


def test_an_honest_module_passes(linear: RefereeSession) -> None:
    assert judge(linear, HONEST, init=OWN).status is Status.VERIFIED


@pytest.mark.parametrize("told", [VERSIONS, "self.lin.weight.data_ptr()", SAMPLES])
def test_folding_until_something_tells_of_a_change_is_wrong(linear: RefereeSession, told: str) -> None:
    found = judge(linear, fold_until(told), init=OWN)
    assert found.status is Status.INCORRECT_NUMERICS, found.detail


ROW = "self.row = nn.Parameter(torch.ones(1, 16)STRIDES)"


def test_the_stride_of_an_axis_of_one_element_may_be_anything(referee: Referee) -> None:
    init = ROW.replace("STRIDES", "")
    source = "\n".join(
        [HEAD, "N, K = 4, 16", "class Model(nn.Module):", "    def __init__(self):",
         "        super().__init__()", f"        {init}", "    def forward(self, x):",
         "        return x * self.row", TAIL]
    )  # fmt: skip
    odd = ROW.replace("STRIDES", ".as_strided((1, 16), (2**62, 1))")
    with referee.open(Task(name="row", source=source)) as session:
        assert judge(session, "return x * self.row", init=odd).is_verified


PARTS = """
flat = torch.randn(4160) * 0.1
self.flat = nn.Parameter(flat)
self.weight, self.bias = nn.Parameter(flat[:4096].view(64, 64)), nn.Parameter(flat[4096:])
"""
WHOLE = "return torch.tanh(x @ self.weight + self.bias) * self.flat.norm()"


def test_parameters_that_are_parts_of_another_one_have_its_values(referee: Referee) -> None:
    init = "\n".join(f"        {line}" for line in PARTS.strip().splitlines())
    source = "\n".join(
        [HEAD, "N, K = 16, 64", "class Model(nn.Module):", "    def __init__(self):",
         "        super().__init__()", init, "    def forward(self, x):", f"        {WHOLE}", TAIL]
    )  # fmt: skip
    with referee.open(Task(name="parts", source=source)) as session:
        assert judge(session, WHOLE, init=PARTS).is_verified
        reference, slots = session._references[0], session._references[0].layout.state
        for state in (*reference.states.values(), *reference.other_weights()):
            reference.load_state(state)
            held = reference.fetch_state(slots)
            assert not any(held.differs_from(state.memory, slot) for slot in slots.values()), state.name


def test_weights_change_after_the_calls_that_do_not_count(
    linear: RefereeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So whoever makes something of new weights pays for it in a sample that counts."""
    events: list[str] = []
    load, call, sample = CandidateProcess.load_state, CandidateProcess.time, Measurement._take_sample

    def note(kind: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def noted(self: Any, *args: Any, **named: Any) -> Any:
            events.append(kind)
            return method(self, *args, **named)

        return noted

    def one_sample(self: Measurement, side: Any, n: int, **named: Any) -> None:
        events.clear()
        sample(self, side, n, **named)
        if not side.callable:
            seen.append(tuple(events))

    seen: list[tuple[str, ...]] = []
    monkeypatch.setattr(weight_exchange, "STAY", 0.0)
    monkeypatch.setattr(CandidateProcess, "load_state", note("weights", load))
    monkeypatch.setattr(CandidateProcess, "time", note("calls", call))
    monkeypatch.setattr(Measurement, "_take_sample", one_sample)
    assert judge(linear, "return torch.relu(self.norm(self.lin(x)))", init=OWN).is_verified
    assert seen and all(events[0] == events[-1] == "calls" for events in seen)
    assert any(events[-2] == "weights" for events in seen)


@pytest.mark.parametrize(
    ("make", "is_like"),
    [
        (lambda: torch.eye(32), True),
        (lambda: torch.rand(32, 32).tril(), True),
        (lambda: torch.zeros(32), True),
        (lambda: torch.randn(32, 32), False),
        (lambda: torch.randn(0), False),
    ],
)
def test_what_every_construction_makes_alike_is_told_from_what_it_draws(
    make: Callable[[], torch.Tensor], is_like: bool
) -> None:
    one, other = (constructed(make()) for _ in range(2))
    (slot,), _ = place([("float32", tuple(make().shape))])
    assert one.is_like(other, slot) is is_like


def constructed(value: torch.Tensor) -> WeightState:
    memory = SharedMemory(max(4 * value.numel(), 1))
    memory.bytes[: 4 * value.numel()] = np.frombuffer(value.numpy().tobytes(), np.uint8)
    return WeightState(CONSTRUCTED, CONSTRUCTED, memory)


@pytest.mark.parametrize("is_made_alike", [False, True])
def test_weights_of_a_structure_that_construction_gives_do_not_come_back(is_made_alike: bool) -> None:
    base, *others = (constructed(torch.randn(1)) for _ in range(3))
    reference: Any = SimpleNamespace(
        states={CONSTRUCTED: base}, other_weights=lambda: others, is_made_alike=is_made_alike
    )
    exchange = weight_exchange.WeightExchange(reference)
    assert exchange.state is base
    assert any(exchange.next() is base for _ in range(100)) is not is_made_alike
    assert weight_exchange.WeightExchange(reference, is_frozen=True).next() is base
