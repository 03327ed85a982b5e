"""What the tests of the lowering share: capture, lower, interpret, compare with eager."""

from collections.abc import Callable
from typing import Any

import torch
from lab.interpret import interpret
from torch import nn

from kernelwright.ir.edits import FusionOptions
from kernelwright.ir.lower import lower
from kernelwright.ir.program import Call, Program, Region
from kernelwright.tasks.capture import Captured, capture_module


class Wrap(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def tensors_of(captured: Captured, module: nn.Module, inputs: tuple[Any, ...]) -> dict[str, torch.Tensor]:
    """Return the program's tensors by buffer name."""
    state = dict(module.named_parameters()) | dict(module.named_buffers())
    found: dict[str, torch.Tensor] = {}
    for p in captured.placeholders:
        if p.kind == "input":
            found[p.node] = inputs[int(p.source)]
        elif p.kind == "constant":
            found[p.node] = captured.constants[str(p.source)]
        else:
            found[p.node] = state[str(p.source)].detach().clone()
    return found


def check(module: nn.Module, *inputs: Any, options: FusionOptions | None = None) -> Program:
    """Lower, interpret, compare outputs and buffer updates with eager; return the program."""
    captured = capture_module(module, inputs)
    program = lower(captured, options or FusionOptions())
    done = interpret(program, tensors_of(captured, module, inputs))
    with torch.no_grad():
        expected = module(*inputs)
    expected = list(expected) if isinstance(expected, list | tuple) else [expected]
    assert program.returns_tuple == (len(expected) > 1)
    for got, want in zip(done.outputs, expected, strict=True):
        if want is None:
            assert got is None
            continue
        assert got is not None and got.shape == want.shape and got.dtype == want.dtype
        torch.testing.assert_close(got, want, rtol=2e-4, atol=2e-5, equal_nan=True)
    for name, value in done.mutations.items():
        torch.testing.assert_close(value, dict(module.named_buffers())[name], rtol=1e-4, atol=1e-5)
    return program


def regions(program: Program) -> list[Region]:
    return [step for step in program.steps if isinstance(step, Region)]


def calls(program: Program) -> list[Call]:
    return [step for step in program.steps if isinstance(step, Call) and not step.is_view]
