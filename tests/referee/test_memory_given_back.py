"""Tensors of the referee's own go with the processes that they were for, without a garbage collection."""

import gc

import pytest
from tests.referee.conftest import HEAD

from kernelwright.core.candidate import Candidate
from kernelwright.core.task import Task
from kernelwright.referee.session.call_queue import BYTES
from kernelwright.referee.session.referee import Referee
from kernelwright.referee.session.shared_memory import TensorMemory, whole_pages

ROOTS = f"""{HEAD}
class Model(nn.Module):
    def forward(self, x):
        return torch.sqrt(x) + 1
def get_inputs():
    return [torch.rand(64, 96)]
def get_init_inputs():
    return []
"""
"""Not finite on many inputs, which are then left out."""
CANDIDATES = {
    "right": "torch.sqrt(x) + 1",
    "wrong": "torch.sqrt(x) + 2",
    "raises": "x.no_such_thing()",
    "of another shape": "torch.sqrt(x)[:1]",
}


def held_bytes() -> int:
    return sum(found.size for found in gc.get_objects() if issubclass(type(found), TensorMemory))


@pytest.mark.usefixtures("no_collection")
@pytest.mark.parametrize("final", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("body", CANDIDATES.values(), ids=CANDIDATES.keys())
def test_nothing_is_held_once_a_session_is_over(referee: Referee, body: str, *, final: bool) -> None:
    before = held_bytes()
    with referee.open(Task(name="roots", source=ROOTS)) as session:
        source = f"{HEAD}\nclass ModelNew(nn.Module):\n    def forward(self, x):\n        return {body}\n"
        evaluation = session.evaluate(Candidate(source=source), final=final)
    is_right = body == CANDIDATES["right"]
    assert evaluation.is_verified == is_right, f"{evaluation.status}: {evaluation.detail}"
    del session
    last_queues = 2 * whole_pages(BYTES)  # which the threads that watch may hold, one of each launcher
    assert held_bytes() <= before + last_queues
