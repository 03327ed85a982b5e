"""The way back through a module, as a module: gradients of results in, all other gradients out."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from .contract import Gradients, arguments_from
from .kernel import tensors_of
from .structure import Structure


class BackwardModule(nn.Module):
    """Computes an original's gradients, by computing its results again.

    ``forward`` takes the tensors of a call, then the gradients of its results. It returns the gradients that
    ``gradients`` names, and where gradients are on these have gradients themselves.

    Args:
        original: whose gradients; it is not called in another mode than its own.
        arguments: how a call's tensors become arguments of its ``forward``.
        spread: as in ``Contract``.
        gradients: which gradients.
    """

    def __init__(
        self, original: nn.Module, arguments: Mapping[str, Structure], spread: str, gradients: Gradients
    ) -> None:
        super().__init__()
        self.original = original
        self.arguments, self.spread, self.gradients = dict(arguments), spread, gradients
        self.graphs: tuple[tuple[tuple[torch.Size, ...], Any], ...] = ()
        """Shapes of ``forward``'s tensors -> the same computation as operators, for tracers."""
        self.training = original.training

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return gradients of inputs, then of parameters."""
        if torch.compiler.is_compiling():
            shapes = tuple(tensor.shape for tensor in tensors)
            for known, graph in self.graphs:
                if known == shapes:
                    return tuple(graph(*tensors, *held_by(self).values()))
        return self._differentiated(tensors)

    def _differentiated(self, tensors: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        is_recorded = torch.is_grad_enabled()
        gradients, n_given = self.gradients, len(self.gradients.results)
        own = dict(self.original.named_parameters(remove_duplicate=False))
        with torch.enable_grad():
            inputs = [
                _differentiable(tensor) if i in gradients.inputs else tensor
                for i, tensor in enumerate(tensors[: len(tensors) - n_given])
            ]
            asked = {name: _differentiable(own[name]) for name in gradients.parameters}
            positional, named = arguments_from(self.arguments, self.spread, inputs)
            if all(asked[name] is own[name] for name in asked):
                result = self.original.forward(*positional, **named)
            else:
                result = forward_on(self.original, asked, positional, named)
            results = tensors_of(result)
            return torch.autograd.grad(
                [results[i] for i in gradients.results],
                [*(inputs[i] for i in gradients.inputs), *asked.values()],
                list(tensors[len(tensors) - n_given :]),
                create_graph=is_recorded,
            )


class ForwardAlone(nn.Module):
    """Calls a module's forward without its hooks, and without a ``__call__`` of its own."""

    def __init__(self, original: nn.Module) -> None:
        super().__init__()
        self.original = original

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call it."""
        return self.original.forward(*args, **kwargs)


def forward_on(
    module: nn.Module,
    weights: Mapping[str, torch.Tensor],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> Any:
    """Return what a module's own forward makes of other weights than its own."""
    held = {f"original.{name}": tensor for name, tensor in weights.items()}
    return torch.func.functional_call(ForwardAlone(module), held, tuple(args), dict(kwargs))


def held_by(module: nn.Module) -> dict[str, torch.Tensor]:
    """Return a module's parameters and buffers by name; tied ones once."""
    return dict(module.named_parameters()) | dict(module.named_buffers())


def _differentiable(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor.requires_grad else tensor.detach().requires_grad_()
