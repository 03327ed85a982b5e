from pathlib import Path

import pytest

from kernelwright.core.task import Workload
from kernelwright.tasks.capture import capture_task
from kernelwright.tasks.kernelbench import load_task
from kernelwright.tasks.scaling import scaled_overrides
from kernelwright.tasks.sizes import estimate_sizes

SOURCE = """
import torch
from torch import nn
class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) + 1
batch_size = 256
dim = 256 * 1024
def get_inputs():
    return [torch.rand(batch_size, dim)]
def get_init_inputs():
    return []
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "1_Large.py"
    path.write_text(SOURCE, encoding="utf-8")
    return path


def test_sizes_come_without_making_the_tensors(path: Path) -> None:
    task = load_task(path)
    size = estimate_sizes(capture_task(task, task.workloads[0]))
    n_bytes = 256 * 256 * 1024 * 4
    assert (size.input_bytes, size.output_bytes, size.parameter_bytes) == (n_bytes, n_bytes, 0)
    assert size.peak_bytes == 3 * n_bytes


def test_batches_are_halved_until_the_estimates_fit(path: Path) -> None:
    overrides = scaled_overrides(path)
    assert overrides == {"batch_size": 64}
    size = estimate_sizes(capture_task(load_task(path), Workload(overrides=overrides)))
    assert size.peak_bytes <= 300_000_000 < 2 * size.peak_bytes


def test_extents_follow_when_a_batch_of_one_is_too_large(path: Path) -> None:
    assert scaled_overrides(path, max_bytes=1_000_000) == {"batch_size": 1, "dim": 65536}


def test_what_cannot_shrink_fits_at_no_step(tmp_path: Path) -> None:
    path = tmp_path / "1_Fixed.py"
    path.write_text(SOURCE.replace("batch_size", "b4").replace("dim", "d4"), encoding="utf-8")
    assert scaled_overrides(path) is None
