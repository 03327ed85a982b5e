"""What is delivered for models that people have computes what they compute."""

import contextlib
import copy
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from lab.gallery import CASES, SMALL, Entry, cast, made
from tests.delivery.delivering import delivered
from tests.marks import mostly_slow
from torch import nn
from torch.utils._pytree import tree_leaves

import kernelwright
from kernelwright.core.errors import UserError
from kernelwright.delivery.making import Delivery
from kernelwright.delivery.saving import save

QUICK = ("rms norm, bfloat16", "mixture gate, float32", "lstm cell, float32")
NEAR = {torch.float32: (1e-4, 1e-5), torch.bfloat16: (3e-2, 3e-2), torch.float16: (1e-2, 1e-2)}
"""Relative and absolute, by dtype: intermediate results are rounded in eager, and in float32 in a kernel."""


@contextlib.contextmanager
def delivering(case: str, folder: Path) -> Iterator[tuple[Entry, torch.dtype, nn.Module, Delivery]]:
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            entry, dtype, module = made(case, SMALL)
        except ImportError as error:
            pytest.skip(f"{error}: the extra gallery")
        yield entry, dtype, module, delivered(module, cast(entry.inputs(SMALL, 2), dtype), folder)


def same(got: Any, want: Any, dtype: torch.dtype) -> None:
    rtol, atol = NEAR[dtype]
    for one, other in zip(tree_leaves(got), tree_leaves(want), strict=True):
        torch.testing.assert_close(one, other, rtol=rtol, atol=atol)


def runs_kernel_then_original(fast: Any, module: nn.Module, entry: Entry, dtype: torch.dtype) -> None:
    with torch.no_grad():
        for batch in (2, 3):
            args = cast(entry.inputs(SMALL, batch), dtype)
            same(fast(*args), module(*args), dtype)
    report = fast.report()
    assert (report.kernel_calls, report.original_calls) == (1, 1), report
    assert all("verified with" in reason for reason in report.reasons)


@pytest.mark.parametrize("case", mostly_slow(CASES, *QUICK))
def test_it_is_right_wherever_it_is_used(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with delivering(case, tmp_path) as (entry, dtype, module, delivery):
        fast: Any = delivery.module
        runs_kernel_then_original(fast, module, entry, dtype)
        gradients_are_the_original_s(copy.deepcopy(fast), copy.deepcopy(module), entry, dtype)
        folder = save(delivery, tmp_path / "saved", cache_dir=tmp_path)
        runs_kernel_then_original(kernelwright.load(folder, module), module, entry, dtype)
        try:
            alone = kernelwright.load(folder)
        except UserError as error:  # it holds an object, a configuration say, that no folder keeps
            assert "is not kept in a folder; give the original: load(folder, module)" in str(error)
            assert "\n" not in str(error) and "config" in str(error)
        else:
            runs_kernel_then_original(alone, module, entry, dtype)


def gradients_are_the_original_s(fast: Any, module: nn.Module, entry: Entry, dtype: torch.dtype) -> None:
    """Compare gradients of all parameters and float inputs, on the verified shape."""
    found = []
    for one in (fast, module):
        args = cast(entry.inputs(SMALL, 2), dtype)
        leaves = [x.requires_grad_() for x in tree_leaves(args) if is_float(x)]
        loss = sum(out.float().pow(2).sum() for out in tree_leaves(one(*args)) if out.requires_grad)
        assert isinstance(loss, torch.Tensor)
        loss.backward()
        found.append([x.grad for x in (*leaves, *one.parameters())])
    assert any(grad is not None for grad in found[1])
    same(*found, dtype)


def is_float(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.is_floating_point()
