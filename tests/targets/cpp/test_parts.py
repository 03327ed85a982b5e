"""Kernels compiled apart: the same functions, and of a changed source only what has changed is compiled."""

import types
from pathlib import Path

import pytest
import torch

from kernelwright.core.machine import Machine
from kernelwright.core.task import Task, Workload
from kernelwright.ir.lower import lower
from kernelwright.targets.base import BuildSite
from kernelwright.targets.cpp.build import build_cpp, find_cpp_source
from kernelwright.targets.cpp.candidate import render_cpp_candidate
from kernelwright.targets.cpp.parts import parts_of
from kernelwright.targets.cpp.schedules import with_default_schedules
from kernelwright.tasks.capture import capture_task

SOURCE = '''
import torch
from torch import nn

class Model(nn.Module):
    """Softmax and a mean around a product that the library computes."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(40, 24)

    def forward(self, x):
        return torch.tanh(self.linear(torch.softmax(x, dim=1))).mean(dim=1)

def get_inputs():
    return [torch.randn(6, 40)]

def get_init_inputs():
    return []
'''
FOREIGN = """
static int calls = 0;
extern "C" void first(float* x) {
  x[0] = ++calls;
}
extern "C" void second(float* x) {
  x[0] = calls;
}
"""


@pytest.fixture(scope="module")
def candidate() -> str:
    task = Task(name="parts", source=SOURCE)
    captured = capture_task(task, Workload())
    program = with_default_schedules(lower(captured), Machine(cores=2))
    return render_cpp_candidate(task, {"default": (captured, program)}, "1. seed")


def text_of(candidate: str) -> str:
    found = find_cpp_source(candidate)
    assert found is not None
    return found.text


def built(candidate: str, folder: Path, *, is_in_parts: bool) -> Path:
    result = build_cpp(candidate, BuildSite(folder, 60.0, is_in_parts=is_in_parts))
    assert result is not None and result.error is None and result.library is not None
    return result.library


def result_of(candidate: str, library: Path, monkeypatch: pytest.MonkeyPatch) -> torch.Tensor:
    monkeypatch.setenv("KERNELWRIGHT_BUILD_CACHE", str(library.parent))
    module = types.ModuleType("candidate")
    exec(compile(candidate, "candidate.py", "exec"), module.__dict__)
    torch.manual_seed(0)
    model = module.ModelNew()
    result: torch.Tensor = model(torch.randn(6, 40))
    return result


def libraries(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("*.so")}


def test_each_part_has_one_kernel_and_what_it_uses(candidate: str) -> None:
    parts = parts_of(text_of(candidate))
    assert len(parts) == 2 and all(part.count('extern "C"') == 1 for part in parts)
    softmax, mean = parts
    assert "vexp(" in softmax and "vtanh(" not in softmax
    assert "vtanh(" in mean


def test_a_candidate_computes_the_same_with_its_kernels_compiled_apart(
    candidate: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = built(candidate, tmp_path / "whole", is_in_parts=False)
    apart = built(candidate, tmp_path / "apart", is_in_parts=True)
    assert len(libraries(tmp_path / "apart")) == 3 > len(libraries(tmp_path / "whole"))
    expected = result_of(candidate, whole, monkeypatch)
    assert torch.equal(result_of(candidate, apart, monkeypatch), expected)


def test_only_the_kernel_that_changed_is_compiled_again(candidate: str, tmp_path: Path) -> None:
    built(candidate, tmp_path, is_in_parts=True)
    before = libraries(tmp_path)
    head, last = candidate[: candidate.rindex('extern "C"')], candidate[candidate.rindex('extern "C"') :]
    changed = head + last.replace("{\n", "{\n  (void)0;\n", 1)
    assert changed != candidate
    built(changed, tmp_path, is_in_parts=True)
    assert len(libraries(tmp_path) - before) == 2  # one kernel, and what needs all of them


def test_what_was_built_whole_is_not_built_again(candidate: str, tmp_path: Path) -> None:
    library = built(candidate, tmp_path, is_in_parts=False)
    assert built(candidate, tmp_path, is_in_parts=True) == library and len(libraries(tmp_path)) == 1


def test_a_source_of_somebody_else_s_stays_whole(candidate: str) -> None:
    text = text_of(candidate)
    assert parts_of(FOREIGN) == (FOREIGN,)
    for changed in (
        text.replace("// ", "static int calls = 0;\n// ", 1),
        text + "static int calls = 0;\n",
        text.replace("static inline", "static", 1),
    ):
        assert parts_of(changed) == (changed,)


def test_an_error_in_one_kernel_is_told(candidate: str, tmp_path: Path) -> None:
    last = candidate.rindex('extern "C"')
    wrong = candidate[:last] + candidate[last:].replace("{\n", "{\n  nonsense;\n", 1)
    result = build_cpp(wrong, BuildSite(tmp_path, 60.0, is_in_parts=True))
    assert result is not None and result.error is not None and "nonsense" in result.error
