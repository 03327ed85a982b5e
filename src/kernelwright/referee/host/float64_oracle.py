"""The reference in float64: the oracle that outputs are judged by."""

import copy
from typing import Any

import torch
from torch import nn


def run_in_double(model: nn.Module, args: Any) -> tuple[nn.Module, Any]:
    """Call a float64 copy of the model on float64 copies of its arguments; returns (copy, result)."""
    double = double_of(model)
    return double, call_double(double, args)


def call_double(double: nn.Module, args: Any) -> Any:
    """Call a float64 module on float64 copies of its arguments."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        return double(*doubled(args))
    finally:
        torch.set_default_dtype(before)


def double_of(model: nn.Module) -> nn.Module:
    """Return a copy whose parameters, buffers and plain tensor attributes are float64."""
    double = copy.deepcopy(model).double()
    for module in double.modules():
        for name, value in vars(module).items():
            if isinstance(value, torch.Tensor) and value.is_floating_point():
                setattr(module, name, value.double())
    return double


def doubled(value: Any) -> Any:
    """Copy the tensors in lists and tuples, floats as float64; leave everything else as it is."""
    if isinstance(value, torch.Tensor):
        return value.double() if value.is_floating_point() else value.clone()
    if isinstance(value, list | tuple):
        return type(value)(doubled(item) for item in value)
    return value


def on_processor(value: Any) -> Any:
    """Move the tensors in lists and tuples to the processor; leave everything else as it is."""
    if isinstance(value, torch.Tensor):
        return value.cpu()
    if isinstance(value, list | tuple):
        return type(value)(on_processor(item) for item in value)
    return value
