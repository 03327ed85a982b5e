from pathlib import Path

import pytest

from kernelwright.core.errors import CaptureError
from kernelwright.core.task import Workload
from kernelwright.tasks.capture import capture_task
from kernelwright.tasks.kernelbench import load_task
from kernelwright.tasks.scaling import scaled_overrides, scaled_to_fit
from kernelwright.tasks.sizes import EAGER_FLOPS_PER_MS, estimate_sizes
from kernelwright.tasks.traced_sizes import trace_sizes

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


@pytest.mark.slow
def test_extents_follow_when_a_batch_of_one_is_too_large(path: Path) -> None:
    assert scaled_overrides(path, max_bytes=1_000_000) == {"batch_size": 1, "dim": 65536}


def test_what_cannot_shrink_fits_at_no_step(tmp_path: Path) -> None:
    path = tmp_path / "1_Fixed.py"
    source = SOURCE.replace("batch_size = 256", "batch_size = 2048")
    path.write_text(source.replace("batch_size", "b4").replace("dim", "d4"), encoding="utf-8")
    assert scaled_overrides(path) is None
    scaled = scaled_to_fit(path)
    assert scaled.overrides is None and scaled.least is not None
    assert scaled.least.peak_bytes == 3 * 256 * 256 * 1024 * 4 * 8


def test_what_fits_at_no_step_may_be_larger(tmp_path: Path) -> None:
    path = tmp_path / "1_Fixed.py"
    path.write_text(SOURCE.replace("batch_size", "b4").replace("dim", "d4"), encoding="utf-8")
    assert scaled_overrides(path) is None and scaled_to_fit(path).overrides == {}


@pytest.mark.slow
def test_widths_that_a_file_lists_are_halved_with_the_extents(tmp_path: Path) -> None:
    path = tmp_path / "1_Layers.py"
    layers = """
import torch
from torch import nn
class Model(nn.Module):
    def __init__(self, input_size, layer_sizes):
        super().__init__()
        sizes = [input_size, *layer_sizes]
        self.layers = nn.Sequential(*[nn.Linear(a, b) for a, b in zip(sizes, sizes[1:])])
    def forward(self, x):
        return self.layers(x)
batch_size = 8
input_size = 16384
layer_sizes = [16384] * 2
def get_inputs():
    return [torch.rand(batch_size, input_size)]
def get_init_inputs():
    return [input_size, layer_sizes]
"""
    path.write_text(layers, encoding="utf-8")
    overrides = scaled_to_fit(path).overrides
    assert overrides == {"batch_size": 1, "input_size": 4096, "layer_sizes": (4096, 4096)}


RECURRENT = """
import torch
from torch import nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.{kind}(512, 512, num_layers=2)
    def forward(self, x):
        return self.cell(x)[0]
batch_size = 32
seq_len = 512
def get_inputs():
    return [torch.rand(seq_len, batch_size, 512)]
def get_init_inputs():
    return []
"""


@pytest.mark.parametrize(("kind", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_every_step_of_a_recurrence_counts(tmp_path: Path, kind: str, gates: int) -> None:
    path = tmp_path / "1_Recurrent.py"
    path.write_text(RECURRENT.replace("{kind}", kind), encoding="utf-8")
    task = load_task(path)
    flops = 2 * 512 * 32 * (2 * 2 * gates * 512 * 512)
    assert estimate_sizes(capture_task(task, task.workloads[0])).eager_ms >= flops / EAGER_FLOPS_PER_MS


def test_what_cannot_be_captured_is_sized_too(tmp_path: Path) -> None:
    path = tmp_path / "1_Stateful.py"
    source = SOURCE.replace(
        "    def forward(self, x):\n        return torch.relu(x) + 1",
        "    def __init__(self):\n        super().__init__()\n        self.hidden = torch.zeros(dim)\n"
        "    def forward(self, x):\n        self.hidden.copy_(x[0])\n"
        "        return torch.relu(x) + self.hidden",
    )
    path.write_text(source, encoding="utf-8")
    with pytest.raises(CaptureError):
        capture_task(load_task(path), Workload(overrides={"batch_size": 64}))
    size = trace_sizes(load_task(path), Workload(overrides={"batch_size": 64}))
    assert size is not None and 3 * 2**26 <= size.peak_bytes <= 3 * 2**26 + 2**21
    assert scaled_to_fit(path).overrides == {"batch_size": 64}
