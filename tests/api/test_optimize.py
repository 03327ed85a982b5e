"""The front door with everything real: a live module in, a verified drop-in out."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tests.places import settings_in
from torch import nn

import kernelwright
from kernelwright.core.budget import Budget
from kernelwright.core.errors import UserError
from kernelwright.settings import Settings


class Gate(nn.Module):
    """Pointwise work with a parameter, large enough that fusion wins."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.linspace(0.5, 1.5, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.tanh(x * self.scale) + torch.sigmoid(x)
        return y * torch.relu(x) - 0.5 * y


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return settings_in(tmp_path)


@pytest.mark.slow
def test_a_live_module_gets_a_drop_in_with_its_own_parameters(tmp_path: Path, settings: Settings) -> None:
    module, x = Gate(1024), torch.randn(1024, 1024)
    result = kernelwright.optimize(module, (x,), budget=Budget(evaluations=2), settings=settings)
    fast = result.module
    assert isinstance(fast, Gate)
    assert result.evaluation is not None and result.evaluation.is_verified
    assert list(fast.state_dict()) == list(module.state_dict())
    with torch.no_grad():
        torch.testing.assert_close(fast(x), module(x))
        module.scale.mul_(2.0)  # its own matter: the drop-in owns its parameters
        fast.load_state_dict(module.state_dict())
        torch.testing.assert_close(fast(x), module(x))
        other = torch.randn(3, 1024)  # a shape that was not verified runs the original
        torch.testing.assert_close(fast(other), module(other))
    assert "<html" in result.save_report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert result.run_id in repr(result) and "<ul>" in result._repr_html_()
    (line,) = kernelwright.runs(settings.store)
    assert (line.run_id, line.task, line.state) == (result.run_id, "Gate", "finished")
    if result.source is not None:
        assert "faster" in result._repr_html_() or "eager" in result._repr_html_()
        with torch.no_grad():
            torch.testing.assert_close(fast(x=x), module(x))
        with pytest.warns(UserWarning, match="gradients are enabled"):
            fast(x).sum().backward()
        assert fast.scale.grad is not None and module.scale.grad is None
        again = kernelwright.load(result.save(tmp_path / "saved"))
        with torch.no_grad():
            assert torch.equal(again(x), fast(x)) and again.report().kernel_calls == 1
        (tmp_path / "alone.py").write_text(result.source, encoding="utf-8")
        code = "import sys, alone; alone.ModelNew(); print('kernelwright' in sys.modules)"
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == "False"


def test_unknown_names_list_the_known_ones(settings: Settings) -> None:
    with pytest.raises(UserError, match="kernelskill"):
        kernelwright.optimize(Gate(8), (torch.randn(2, 8),), recipe="magic", settings=settings)
