"""Each fusion edit names places where it changes the program, and keeps its meaning."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from kernelwright.core.errors import LoweringError
from kernelwright.ir.edits import FusionOptions
from kernelwright.ir.fusion_edits import FUSION_EDITS
from kernelwright.ir.lower import lower
from kernelwright.tasks.capture import capture_module

from .lowering_checks import Wrap, check

X = torch.randn(64, 128, generator=torch.Generator().manual_seed(0))


def shared(x: torch.Tensor) -> Any:
    y = torch.tanh(x)
    return y.sum(0), y.sum(1)


def expensive(x: torch.Tensor) -> Any:
    y = torch.tanh(F.gelu(torch.sin(x)))
    return y.sum(0), y.sum(1)


def norm_chain(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(F.layer_norm(x, (128,)), 1)


CASES = {
    "materialise-value": shared,
    "inline-producer": expensive,
    "split-region": norm_chain,
    "keep-call": norm_chain,
}


@pytest.mark.parametrize("name", CASES)
def test_edit_changes_the_program_and_not_its_meaning(name: str) -> None:
    edit, module = FUSION_EDITS[name], Wrap(CASES[name])
    captured = capture_module(module, (X,))
    options = FusionOptions()
    site = edit.sites(captured, options)[0]
    assert any(character.isdigit() for character in site.why) and site.gain >= 1
    changed = edit.apply(options, site.region)
    assert lower(captured, changed) != lower(captured, options)
    check(module, X, options=changed)


@pytest.mark.parametrize("name", CASES)
def test_edit_has_no_sites_on_a_pointwise_chain(name: str) -> None:
    captured = capture_module(Wrap(lambda x: torch.relu(x * 2)), (X,))
    assert FUSION_EDITS[name].sites(captured, FusionOptions()) == ()


def test_edit_in_force_cannot_be_applied_again() -> None:
    options = FusionOptions(as_calls=frozenset({"mul"}))
    with pytest.raises(LoweringError, match="already"):
        FUSION_EDITS["keep-call"].apply(options, "mul")


def test_library_seed_has_no_sites() -> None:
    captured = capture_module(nn.Softmax(1), (X,))
    assert all(edit.sites(captured, FusionOptions(enabled=False)) == () for edit in FUSION_EDITS.values())
