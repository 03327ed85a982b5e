"""The file that the command line writes: right, or one clear error."""

import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.delivery.delivering import printed
from tests.delivery.test_folder import FILE

from kernelwright.core.task import Task
from kernelwright.delivery.single_file import file_text


@pytest.fixture(scope="module")
def new(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        module = types.ModuleType("written")
        exec(compile(file_text(printed(Task(name="scaled", source=FILE))), "f.py", "exec"), module.__dict__)
        yield module.ModelNew


def x() -> torch.Tensor:
    return torch.ones(4, 32)


def test_it_computes_what_was_verified(new: Any) -> None:
    model = new(3.0)
    with torch.no_grad():
        torch.testing.assert_close(model(x()), torch.relu(x() * model.scale) * 3)
    assert model.requires_grad_(False)(x()).shape == (4, 32)


BAD: dict[str, tuple[Callable[[Any], Any], str]] = {
    "gradients of weights": (lambda m: m(x()), "computes no gradients: call it under torch.no_grad"),
    "gradients of inputs": (
        lambda m: m.requires_grad_(False)(x().requires_grad_()),
        "computes no gradients",
    ),
    "another type": (lambda m: m.requires_grad_(False).bfloat16()(x()), "scale has type torch.bfloat16"),
    "another device": (lambda m: m.requires_grad_(False)(x().to("meta")), "verified on cpu"),
    "a module elsewhere": (lambda m: m.requires_grad_(False).to("meta")(x()), "verified on cpu"),
}


@pytest.mark.parametrize(("call", "why"), BAD.values(), ids=BAD.keys())
def test_everything_else_is_one_clear_error(new: Any, call: Callable[[Any], Any], why: str) -> None:
    with pytest.raises(RuntimeError, match=why):
        call(new(3.0))


def test_another_shape_is_an_error_of_the_kernel_s_own(new: Any, tmp_path: Path) -> None:
    with torch.no_grad(), pytest.raises(ValueError, match=r"made for \(4, 32\)"):
        new(3.0)(torch.ones(2, 32))
