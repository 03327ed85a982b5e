"""Unseen inputs are drawn in commands of many, where they are small."""

import numpy as np
import pytest
from tests.referee.conftest import POINTWISE

from kernelwright.core.task import Task, Workload
from kernelwright.referee.session.referee import Referee
from kernelwright.referee.session.shared_memory import TensorMemory, whole_pages

N_SMALL, N_LARGE = 70, 3
"""More than one command draws, and fewer: large inputs come one by one."""


@pytest.mark.parametrize(("rows", "count"), [(64, N_SMALL), (16_000, N_LARGE)], ids=["small", "large"])
def test_as_many_are_drawn_as_are_wanted_and_no_two_alike(referee: Referee, rows: int, count: int) -> None:
    task = Task(name="t", source=POINTWISE, workloads=(Workload(overrides={"N": rows}),))
    with referee.open(task) as session:
        reference = session._references[0]
        stride = whole_pages(reference.layout.args_bytes)
        memory = TensorMemory((count + 1) * stride)
        memory.bytes[:] = 7
        reference.draw_more(memory, count)
        (slot,) = reference.layout.arg_slots
    drawn = [memory.part(i, stride).slot_bytes(slot).view(np.float32) for i in range(count)]
    assert all(values.min() >= 0 and values.max() < 1 and values.std() > 0.2 for values in drawn)
    assert len({values.tobytes() for values in drawn}) == count
    assert (memory.part(count, stride).bytes == 7).all()
