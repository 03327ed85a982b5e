"""The example of a third-party target, installed beside the product: found, planned for, judged."""

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from lab.example_target import EXAMPLE, install

from kernelwright.core.plan import Plan
from kernelwright.core.target import TargetName
from kernelwright.ir.plan_lowering import lower_plan, write_source
from kernelwright.ir.program import Region
from kernelwright.store.sqlstore import open_store
from kernelwright.targets import registry
from kernelwright.tasks.capture import capture_task
from kernelwright.tasks.namespace import construct_model, load_namespace
from kernelwright.tasks.suite import suite_tasks

SMALL = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(features))
    def forward(self, x):
        return torch.softmax(torch.relu(x + self.bias) * 2.0, dim=1)

def get_inputs():
    return [torch.randn(16, 24)]
def get_init_inputs():
    return [24]
"""
PRINTED = ("1_", "7_", "12_", "21_", "24_", "25_", "27_")
"""Suite tasks that cover pointwise work, sums, norms, windows with guards, scans both ways and softmax."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = install(tmp_path_factory.mktemp("site"))
    sys.path.insert(0, str(folder))
    _forget()
    yield folder
    sys.path.remove(str(folder))
    _forget()


def _forget() -> None:
    importlib.invalidate_caches()
    registry.forget()


def test_nothing_of_the_product_knows_it() -> None:
    source = Path(registry.__file__).parents[1]
    named = [path.name for path in source.rglob("*.py") if "numpy_target" in path.read_text(encoding="utf-8")]
    assert named == []


def test_it_is_small_and_found_by_its_entry_point(site: Path) -> None:
    lines = sum(len(path.read_text().splitlines()) for path in (EXAMPLE / "src").rglob("*.py"))
    assert lines < 300
    found = registry.find_target("cpu/numpy")
    assert found.name == TargetName(device="cpu", language="numpy") and found.build is None


@pytest.mark.parametrize("number", PRINTED)
def test_what_it_prints_computes_the_same(number: str, site: Path) -> None:
    task = next(task for task in suite_tasks() if task.name.startswith(number))
    target = registry.find_target("cpu/numpy")
    assert target.writer is not None
    workload = task.workloads[0]
    carried = lower_plan(capture_task(task, workload), Plan(), {}, target.lowering)
    assert any(isinstance(step, Region) for step in carried.program.steps)
    source = write_source(task, {workload.name: carried}, Plan(), target.writer)
    namespace: dict[str, Any] = {"__name__": "candidate"}
    exec(compile(source, "candidate.py", "exec"), namespace)
    reference = load_namespace(task, workload)
    model = construct_model(task, reference, seed=0)
    fast = namespace["ModelNew"](*reference.get_init_inputs())
    fast.load_state_dict(model.state_dict())
    fast.train(model.training)
    torch.manual_seed(1)
    inputs = reference.get_inputs()
    with torch.no_grad():
        wanted, got = model(*inputs), fast(*inputs)
    torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5, equal_nan=True)


def run(site: Path, folder: Path, *words: str) -> dict[str, object]:
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "KERNELWRIGHT_DATA": str(folder / "data"),
        "KERNELWRIGHT_CACHE": str(folder / "cache"),
    }
    done = subprocess.run(
        [sys.executable, "-m", "kernelwright", *words, "--json"],
        capture_output=True, text=True, env=environment, cwd=folder, check=False,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.mark.slow
def test_it_is_optimised_for_and_judged_like_any_other(site: Path, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(SMALL)
    found = run(site, tmp_path, "optimize", "model.py", "--target", "cpu/numpy", "--budget-evaluations", "3")
    store, run_id = open_store(str(tmp_path / "data" / "runs.db")), str(found["run_id"])
    ours = [c for c in store.iter_candidates(run_id) if "import numpy" in c.source]
    assert ours and {str(candidate.target) for candidate in ours} == {"cpu/numpy"}
    verdicts = [store.find_evaluation(run_id, candidate.id) for candidate in ours]
    kernel = next(c for c, verdict in zip(ours, verdicts, strict=True) if verdict and verdict.is_verified)
    (tmp_path / "kernel.py").write_text(kernel.source)
    verdict = run(site, tmp_path, "evaluate", "model.py", "kernel.py")
    assert verdict["status"] == "verified"
