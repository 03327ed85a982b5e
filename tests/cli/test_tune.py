"""``kernelwright tune``: a kernel with open parameters ends closed and judged; bad input is one line."""

import json
from pathlib import Path
from typing import Any

import pytest

from kernelwright.core.open_parameters import open_parameters

TASK = """
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        return x * 2

def get_inputs():
    return [torch.randn(64, 1000)]

def get_init_inputs():
    return []
"""
KERNEL = """
import os, signal
import torch
from torch import nn

TUNE = {"PIECES": [64, 1], "FAULT": ["none", "raises", "dies", "wrong"]}

if TUNE["FAULT"][0] == "dies":
    os.kill(os.getpid(), signal.SIGKILL)

class ModelNew(nn.Module):
    def forward(self, x):
        if TUNE["FAULT"][0] == "raises":
            raise ValueError("a fault")
        factor = 3 if TUNE["FAULT"][0] == "wrong" else 2
        return torch.cat([piece * factor for piece in x.chunk(TUNE["PIECES"][0])])
"""


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    task, kernel = tmp_path / "task.py", tmp_path / "kernel.py"
    task.write_text(TASK)
    kernel.write_text(KERNEL)
    return task, kernel


@pytest.mark.slow
def test_the_best_point_is_closed_and_judged_and_faults_are_only_points(
    cli: Any, files: tuple[Path, Path], tmp_path: Path
) -> None:
    task, kernel = files
    out = tmp_path / "tuned.py"
    result = cli("tune", task, kernel, "--seconds", "60", "--output", out, "--json")
    found = json.loads(result.out)
    assert result.code == 0, result.err
    assert found["evaluation"]["status"] == "verified" and found["values"]["FAULT"] == "none"
    assert found["points"] == 8 and found["failed"] == 6 and found["is_exhausted"]
    assert open_parameters(out.read_text()) == {"PIECES": (found["values"]["PIECES"],), "FAULT": ("none",)}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x = 1\n", "leaves nothing open"),
        ("TUNE = {'A': 3}\n", "must be a list"),
        ("TUNE = f()\n", "literal"),
    ],
)
def test_a_kernel_without_open_parameters_is_refused(
    cli: Any, files: tuple[Path, Path], text: str, why: str
) -> None:
    task, kernel = files
    kernel.write_text(text)
    result = cli("tune", task, kernel)
    assert result.code == 2 and why in result.err and "Traceback" not in result.err


@pytest.mark.parametrize("text", [None, "no json", "{}"])
def test_earlier_results_that_cannot_be_read_are_named(
    cli: Any, files: tuple[Path, Path], tmp_path: Path, text: str | None
) -> None:
    earlier = tmp_path / "tuned.t4.json"
    if text is not None:
        earlier.write_text(text)
    result = cli("tune", *files, "--earlier", earlier)
    assert result.code == 2 and "T4" in result.err and "Traceback" not in result.err
