"""The classes of a live module are shown where they can be read."""

from pathlib import Path

import pytest
import torch
from torch import nn

from kernelwright.tasks import class_source
from kernelwright.tasks.class_source import class_sources
from kernelwright.tasks.live import task_from_module


class Inner(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x)


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.Sequential(Inner(), nn.ReLU(), Inner())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.parts(x))


def test_each_class_is_shown_once_its_own_first_and_torchs_never() -> None:
    source = class_sources(Outer())
    assert source is not None
    assert source.startswith("class Outer(nn.Module):") and source.count("class Inner(nn.Module):") == 1
    assert "class ReLU" not in source and "class Sequential" not in source


def test_a_module_of_torch_alone_has_no_source_to_show() -> None:
    assert class_sources(nn.Linear(2, 2)) is None


def test_a_class_without_a_file_is_left_out() -> None:
    namespace: dict[str, type] = {}
    exec("class Typed(nn.Module):\n    pass", {"nn": nn, "__name__": "console"}, namespace)
    assert class_sources(namespace["Typed"]()) is None


def test_a_class_inside_a_function_is_shown_from_the_margin() -> None:
    class Local(nn.Module):
        pass

    assert (class_sources(Local()) or "").startswith("class Local(nn.Module):\n    pass")


def test_long_sources_are_cut_at_a_class(monkeypatch: pytest.MonkeyPatch) -> None:
    outer = class_sources(Outer()) or ""
    monkeypatch.setattr(class_source, "MAX_CHARACTERS", len(outer) - 10)
    cut = class_sources(Outer()) or ""
    assert cut and outer.startswith(cut) and "class Inner" not in cut


def test_the_source_is_no_part_of_the_tasks_identity(tmp_path: Path) -> None:
    task = task_from_module(Outer().eval(), (torch.randn(2, 2),), name="outer", folder=tmp_path)
    assert task.class_source is not None and "class Inner" in task.class_source
    assert task.model_copy(update={"class_source": None}).id == task.id
