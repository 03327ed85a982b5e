"""Modules of a script are read in other processes."""

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import cloudpickle
import torch.nn.functional as F
from torch import nn

class Doubled(nn.Module):
    def forward(self, x):
        return F.relu(x) * 2

if __name__ == "__main__":
    with open("module.pickle", "wb") as file:
        cloudpickle.dump(Doubled(), file)
"""
ELSEWHERE = """
import torch
from kernelwright.tasks.pickled import read_pickle

with open("module.pickle", "rb") as file:
    kind = type(read_pickle(file))

class Model(kind):
    def forward(self, x):
        return super().forward(x)

print(torch.compile(Model(), backend="eager", fullgraph=True)(torch.tensor([-1.0, 3.0])).tolist())
print(kind.__module__, kind.forward.__globals__["F"].__name__)
"""


def test_a_class_of_a_script_can_be_compiled_where_it_is_no_part_of_the_main_module(tmp_path: Path) -> None:
    for name, source in (("script.py", SCRIPT), ("elsewhere.py", ELSEWHERE)):
        (tmp_path / name).write_text(source, encoding="utf-8")
    subprocess.run([sys.executable, "script.py"], cwd=tmp_path, check=True)
    done = subprocess.run(
        [sys.executable, "elsewhere.py"], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert done.stdout.splitlines() == ["[0.0, 6.0]", "__main__ torch.nn.functional"]
