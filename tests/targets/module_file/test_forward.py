"""The body of ``forward``: every process writes the same text, as a run that goes on elsewhere needs."""

import os
import subprocess
import sys

import pytest

from kernelwright.targets.module_file.forward import owner_variables

CODE = '''
from kernelwright.core.target import CPU_CPP
from kernelwright.core.task import Task
from kernelwright.whole.printing import print_compiled

SOURCE = """
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        parts = [torch.hypot(x, x + i) for i in range(6)]
        return torch.hypot(torch.stack(parts).sum(0), x)

def get_inputs():
    return [torch.randn(512, 512)]

def get_init_inputs():
    return []
"""
print(print_compiled(Task(name="t", source=SOURCE), CPU_CPP).source)
'''


@pytest.mark.slow
def test_every_process_writes_the_same() -> None:
    texts = set()
    for seed in ("1", "2", "3"):
        where = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", CODE]
        texts.add(subprocess.run(command, env=where, capture_output=True, text=True, check=True).stdout)
    (text,) = texts
    assert any(line.count(",") > 1 for line in text.splitlines() if line.strip().startswith("del "))


def test_submodules_of_several_tensors_are_looked_up_once() -> None:
    paths = ["stem.weight", "stages.0.norm.weight", "stages.0.norm.bias", "stages.1.weight", "scale"]
    assert owner_variables(paths, set()) == {"stages": "in_stages", "stages.0.norm": "in_stages_0_norm"}


def test_variables_of_submodules_hide_no_other() -> None:
    paths = ["a.b.weight", "a.b.bias", "a_b.weight", "a_b.bias"]
    assert owner_variables(paths, {"in_a_b"}) == {"a.b": "in_a_b_", "a_b": "in_a_b__"}
