"""The winner of a run as a module that takes the original's place."""

import inspect
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from kernelwright.core.candidate import Candidate
from kernelwright.core.errors import TaskError


def load_winner(winner: Candidate, original: nn.Module) -> nn.Module:
    """Return the candidate's module with the original's own parameters and a way back to it.

    It is an instance of the original's class, too. Calls that need gradients, and shapes that were not
    verified, go to the original.
    """
    namespace: dict[str, Any] = {"__name__": f"kernelwright_{winner.id}"}
    exec(compile(winner.program, f"<kernelwright {winner.id}>", "exec"), namespace)
    fast: nn.Module = namespace["ModelNew"]()
    fast.load_state_dict(original.state_dict(keep_vars=True), assign=True)
    fast.train(original.training)
    _join_class(fast, type(original))
    for name, value in vars(original).items():
        vars(fast).setdefault(name, value)
    _attach_original(fast, original)
    return fast


def _join_class(fast: nn.Module, original: type[nn.Module]) -> None:
    """Make the module an instance of the original's class; the kernel's own methods come first."""
    own = type(fast)
    if not issubclass(own, original):
        fast.__class__ = type(original.__name__, (own, original), {"__module__": original.__module__})


def _attach_original(fast: nn.Module, original: nn.Module) -> None:
    kernel_forward = fast.forward
    signature = inspect.signature(original.forward)

    def forward(*args: Any, **kwargs: Any) -> Any:
        if torch.is_grad_enabled() and _needs_grad(fast, args, kwargs):
            warnings.warn(
                "gradients are enabled: the original module runs; use torch.no_grad() for the fast one",
                stacklevel=2,
            )
            return original(*args, **kwargs)
        try:
            return kernel_forward(*(_positional(signature, args, kwargs) if kwargs else args))
        except (ValueError, TypeError):  # shapes or arguments that the kernels were not made for
            return original(*args, **kwargs)

    fast.forward = forward


def _needs_grad(module: nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    tensors = [a for a in (*args, *kwargs.values()) if isinstance(a, torch.Tensor)]
    return any(t.requires_grad for t in (*tensors, *module.parameters()))


def _positional(
    signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Any, ...]:
    """Return the arguments as positional ones; raises TypeError where some have no position."""
    bound = signature.bind(*args, **kwargs)
    if bound.kwargs:
        raise TypeError(f"by keyword only: {', '.join(bound.kwargs)}")
    return bound.args


def positional_inputs(module: nn.Module, inputs: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return example inputs as positional arguments of ``forward``.

    Raises:
        TaskError: ``forward`` does not take them, or takes some by keyword only.
    """
    given = (inputs,) if isinstance(inputs, torch.Tensor) else inputs
    try:
        return _positional(inspect.signature(module.forward), given, kwargs)
    except TypeError as error:
        raise TaskError(
            f"{type(module).__name__}.forward: {error}; give every input that it takes by position"
        ) from error
