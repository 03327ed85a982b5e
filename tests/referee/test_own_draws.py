"""Draws of one's own: every kind that a verdict may fail on, on weights of every style."""

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from kernelwright.api.explaining import STYLES, own_draws
from kernelwright.core.candidate import Candidate
from kernelwright.core.evaluation import NumericalError, Status
from kernelwright.core.task import Task
from kernelwright.core.wrong_numbers import LookedAt
from kernelwright.referee.own_draws import AS_IS, CONSTRUCTED, OwnDraws
from kernelwright.referee.point_worker import PointWorker
from kernelwright.report.sections import FAMILY_WORDS
from kernelwright.testing.fake_run import fake_evaluation

TASK = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(8) + 0.5)
    def forward(self, x, y):
        return (x.sqrt() if {is_picky} else x) * self.weight + y

def get_inputs():
    return [torch.rand(300, 8), torch.rand(300, 8)]

def get_init_inputs():
    return []
"""
CANDIDATE = """
import torch
from torch import nn

class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(8))
    def forward(self, x, y):
        out = x * self.weight + y
        {wrong}
        return out
"""


class Plain(nn.Module):
    """Remembers its inputs and weights."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(8) + 0.5)
        self.seen: list[list[torch.Tensor]] = []

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        self.seen.append([x.clone(), y.clone(), self.weight.clone()])
        return x * self.weight + y


def draw() -> list[torch.Tensor]:
    return [torch.rand(300, 8), torch.rand(300, 8)]


def seen(own: OwnDraws, family: str, weights: str = CONSTRUCTED, turn: int = 0) -> list[torch.Tensor]:
    candidate = Plain()
    assert own.outputs(candidate, family, 0, weights, turn) is not None
    return candidate.seen[0]


@pytest.mark.parametrize("family", [name for name in FAMILY_WORDS if name != AS_IS])
def test_every_family_of_a_verdict_is_drawn(family: str) -> None:
    own = OwnDraws(Plain(), draw)
    plain, changed = seen(own, AS_IS), seen(own, family)
    assert any(not torch.equal(one, other) for one, other in zip(plain, changed, strict=True))
    assert torch.equal(plain[2], changed[2])


@pytest.mark.parametrize("style", STYLES)
def test_weights_change_on_both_sides_and_change_back(style: str) -> None:
    reference = Plain()
    own, before = OwnDraws(reference, draw), reference.weight.detach().clone()
    plain, changed = seen(own, AS_IS), seen(own, AS_IS, style)
    assert torch.equal(plain[2], before) and not torch.equal(changed[2], before)
    assert torch.equal(reference.seen[-1][2], changed[2])
    assert torch.equal(reference.weight, before)


def test_turns_differ_and_an_unknown_family_is_no_draw() -> None:
    own = OwnDraws(Plain(), draw)
    assert not torch.equal(seen(own, AS_IS)[0], seen(own, AS_IS, turn=1)[0])
    assert own.outputs(Plain(), "no such family", 0, CONSTRUCTED, 0) is None


def failing(*families: str) -> Any:
    errors = [
        NumericalError(
            workload="default", family=f, output="out0", error=1.0, reference_error=0.0, allowed=1e-6
        )
        for f in families
    ]
    found = fake_evaluation(Candidate(source="x"), Task(name="t", source="s"), Status.INCORRECT_NUMERICS)
    return found.model_copy(update={"errors": tuple(errors)})


def compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: str, *families: str, is_picky: bool = False
) -> LookedAt:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(os.environ, "KERNELWRIGHT_BUILD_CACHE", str(tmp_path))
    worker = PointWorker(TASK.format(is_picky=is_picky), True, 1)
    source = CANDIDATE.format(wrong=wrong)
    worker.libraries[source] = None
    draws = [{**one.model_dump(), "label": one.label} for one in own_draws(failing(*families))]
    return LookedAt.model_validate(worker.compare(source, draws, 60.0))


@pytest.mark.parametrize(
    ("wrong", "failed", "label"),
    [
        ("out = torch.where((x == x[:, :1]).all(1, keepdim=True), 7.0, out)", "odd_rows", "odd_rows"),
        ("out = torch.where(x == x[0, 0], 0.0, out) if (x == x[0, 0]).all() else out", "flat", "flat"),
        ("out = out.nan_to_num()", "nonfinite", "nonfinite"),
        ("self.kept = getattr(self, 'kept', self.weight.detach().clone()); out = x * self.kept + y",
         "as_is", "as_is, touched weights"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_one_family_only_is_found_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: str, failed: str, label: str
) -> None:
    looked = compared(tmp_path, monkeypatch, wrong, failed)
    assert [one.family for one in looked.wrong] == [label]
    assert f"out0 on another draw of {label} inputs" in looked.lines([failed])[0]


def test_one_row_of_huge_values_hides_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = "out = torch.where(out.abs() < 2.0, out * 1.001, out) if x.max() > 100 else out"
    looked = compared(tmp_path, monkeypatch, wrong, "odd_rows")
    assert looked.wrong[0].n_wrong > 100


def test_nothing_is_claimed_of_what_was_not_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = compared(tmp_path, monkeypatch, "pass", "odd_rows", "no_such_family")
    assert not looked.wrong
    said = looked.lines(["odd_rows", "no_such_family"])
    assert said[0].startswith("Which elements are wrong is not known: other draws show none (as_is (3), ")
    assert said[1] == "Which elements are wrong on no_such_family inputs was not looked at."
    assert LookedAt().lines([]) == ()
    assert "no element" not in " ".join(said)


def test_a_reference_that_refuses_a_draw_gets_one_that_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = compared(
        tmp_path, monkeypatch, "out = x.abs().sqrt() * self.weight + y", "negated", is_picky=True
    )
    assert "negated" in looked.draws and not looked.wrong
