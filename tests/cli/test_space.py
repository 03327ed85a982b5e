"""What ``kernelwright space`` prints, and says of bad input."""

import json
from pathlib import Path
from typing import Any

TASK = """
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(torch.relu(x), 1)

def get_inputs():
    return [torch.randn(64, 300)]

def get_init_inputs():
    return []
"""


def test_space_tells_sizes_decisions_points_and_what_is_illegal(cli: Any, tmp_path: Path) -> None:
    task = tmp_path / "small.py"
    task.write_text(TASK)
    result = cli("space", task, "--sample", "5", "--json")
    assert result.code == 0
    found = json.loads(result.out)
    assert found["target"] == "cpu/cpp" and found["log10"] > 2
    assert abs(sum(row["log10"] for row in found["factors"]) - found["log10"]) < 0.01
    assert all(d["default"] in d["values"] and d["why"] for d in found["decisions"])
    assert all(row["why"] and row["decision"] for row in found["illegal"]) and found["illegal"]
    assert len(found["sample"]) == 5
    assert all(bool(point["candidate"]) != bool(point["illegal"]) for point in found["sample"])
    shown = cli("space", task, "--sample", "5")
    assert shown.code == 0 and "decisions" in shown.out and "illegal" in shown.out


def test_bad_input_is_one_line(cli: Any, tmp_path: Path) -> None:
    task = tmp_path / "small.py"
    task.write_text(TASK)
    broken = tmp_path / "broken.py"
    broken.write_text("class Model: pass\n")
    for arguments in (("space", tmp_path / "none.py"), ("space", task, "--target", "cpu/none"),
                      ("space", task, "--sample", "-1"), ("space", broken)):  # fmt: skip
        result = cli(*arguments)
        assert result.code == 2 and result.err.strip(), arguments
        assert "Traceback" not in result.err
