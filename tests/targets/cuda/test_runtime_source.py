"""A CUDA candidate finds what was built ahead of it, builds what was not, and needs only torch."""

import ast
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.targets.cuda.candidates import render_cuda_candidate

from kernelwright.targets.cuda.nvcc.form import CudaSource, launcher_text
from kernelwright.targets.cuda.nvcc.launcher import build_launcher
from kernelwright.targets.cuda.nvcc.outcome import Product
from kernelwright.targets.cuda.nvcc.read import read_cuda_source

needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc on PATH")
KERNEL = """
extern "C" __global__ void scale(const float* x, float* y, float by, long long n) {
  const long long i = blockIdx.x * 256ll + threadIdx.x;
  if (i < n) y[i] = x[i] * by;
}
"""
LAUNCHES: tuple[dict[str, Any], ...] = (
    {
        "name": "scale", "kernel": "scale", "grid": (4, 1, 1), "block": (256, 1, 1),
        "arguments": ("tensor", "tensor", "float32", "int64"),
    },
    {
        "name": "large", "kernel": "scale", "grid": (4, 2, 1), "block": (256, 1, 1), "shared_bytes": 65536,
        "arguments": ("tensor", "tensor", "float32", "int64"),
    },
)  # fmt: skip
MODEL = """
class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        _launch["scale"](x, y, 2.0, x.numel())
        return y
"""


def candidate() -> str:
    return render_cuda_candidate(KERNEL, LAUNCHES, MODEL)


def read() -> CudaSource:
    found = read_cuda_source(candidate())
    assert isinstance(found, CudaSource)
    return found


def load(without_device: SimpleNamespace) -> dict[str, Any]:
    """Execute the candidate with a stand-in for what it asks torch.cuda."""
    tree = ast.parse(candidate())
    tree.body = [
        s for s in tree.body if "torch" not in ast.unparse(s)[:12] and not isinstance(s, ast.ClassDef)
    ]
    namespace: dict[str, Any] = {"torch": without_device}
    exec(compile(tree, "candidate.py", "exec"), namespace)
    return namespace


@pytest.fixture
def stand_in() -> SimpleNamespace:
    return SimpleNamespace(
        Tensor=SimpleNamespace,
        cuda=SimpleNamespace(
            get_device_capability=lambda: (9, 0),
            current_stream=lambda: SimpleNamespace(cuda_stream=0),
        ),
    )


def test_what_is_written_is_what_is_read() -> None:
    assert read().text == KERNEL
    assert [launch.shared_bytes for launch in read().launches] == [0, 65536]


@needs_nvcc
def test_it_finds_the_launcher_that_was_built_ahead(
    stand_in: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = build_launcher(read(), "sm_90a", tmp_path)
    assert isinstance(built, Product), built
    monkeypatch.setenv("KERNELWRIGHT_BUILD_CACHE", str(built.path.parent))
    monkeypatch.setenv("NVCC", "/nonexistent/nvcc")
    namespace = load(stand_in)
    assert namespace["_library"]._name == str(built.path)
    assert "\n".join(namespace["_wrapper"](one) for one in LAUNCHES) in launcher_text(read())
    if not Path("/dev/nvidia0").exists():
        tensor = SimpleNamespace(data_ptr=lambda: 0)
        with pytest.raises(RuntimeError, match=r"launch large: CUDA error (35|100)"):
            namespace["_launch"]["large"](tensor, tensor, 2.0, 0)


@needs_nvcc
def test_alone_it_compiles_its_kernels_once(
    stand_in: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KERNELWRIGHT_BUILD_CACHE", raising=False)
    first = load(stand_in)["_library"]._name
    monkeypatch.setenv("NVCC", "/nonexistent/nvcc")
    assert load(stand_in)["_library"]._name == first and Path(first).is_relative_to(tmp_path)


@pytest.mark.gpu
def test_on_a_device_it_computes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # lazy: only this test needs it
    import torch

    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    monkeypatch.setenv("HOME", str(tmp_path))
    namespace: dict[str, Any] = {}
    exec(candidate(), namespace)
    x = torch.randn(1000, device="cuda")
    assert torch.equal(namespace["ModelNew"]()(x), x * 2)
