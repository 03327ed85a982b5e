"""A small captured task for the expert roles: linear, sum over features, softmax; on two batch sizes."""

from kernelwright.agents.problem import Problem
from kernelwright.core.machine import Machine
from kernelwright.core.roofline import Peaks, floor
from kernelwright.core.target import CPU_CPP
from kernelwright.core.task import Task, Workload
from kernelwright.tasks.capture import capture_task
from kernelwright.tasks.work import count_work
from kernelwright.testing.fake_run import PEAKS

SOURCE = '''
import torch
from torch import nn

rows = 32

class Model(nn.Module):
    """Linear, then the sum over its features, then softmax over the rows."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(64, 128)

    def forward(self, x):
        return torch.softmax(self.linear(x).sum(dim=1), dim=0)

def get_inputs():
    return [torch.randn(rows, 64)]

def get_init_inputs():
    return []
'''
TASK = Task(
    name="linear_sum",
    source=SOURCE,
    workloads=(Workload(), Workload(name="wide", overrides={"rows": 48})),
)


def expert_problem(peaks: Peaks = PEAKS) -> Problem:
    """Capture the task; ``peaks`` decide on which side of the ridge it lies."""
    captured = {w.name: capture_task(TASK, w) for w in TASK.workloads}
    floors = {name: floor(count_work(c), peaks) for name, c in captured.items()}
    return Problem(TASK, CPU_CPP, captured, floors, peaks, Machine(cores=2))
