"""What a run is prepared with."""

import pytest

from kernelwright.core.run import RunSpec
from kernelwright.core.target import Target
from kernelwright.core.task import Task
from kernelwright.engine.prepare import prepare_on
from kernelwright.testing.fake_run import PEAKS

SOURCE = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) + 1
def get_inputs():
    return [torch.rand(8, 8)]
def get_init_inputs():
    return []
"""


@pytest.mark.parametrize(("target", "has_floors"), [("cpu/cpp", True), ("cuda/triton", False)])
def test_floors_are_the_processors_and_for_it_alone(target: str, has_floors: bool) -> None:
    task = Task(name="small", source=SOURCE)
    spec = RunSpec(task=task, recipe="kernelwright", target=Target.parse(target, to_run=False))
    problem, reason = prepare_on(spec, PEAKS, {})
    assert reason is None and set(problem.captured) == {"default"}
    assert bool(problem.floors) == has_floors
