"""What a submodule computes, as text that is equal where two of them compute the same on other weights."""

from typing import Any

import torch
from torch import fx, nn

from kernelwright.core.errors import CaptureError
from kernelwright.core.structure import Structure, flat_result, put_together, take_apart
from kernelwright.delivery.making import ExampleCall
from kernelwright.delivery.runtime.described import digest_of
from kernelwright.tasks.capture import Captured, capture_module


class _Flat(nn.Module):
    """A submodule that takes the tensors of a call one after the other."""

    def __init__(self, part: nn.Module, structure: Structure) -> None:
        super().__init__()
        self.part, self.structure = part, structure
        self.train(part.training)

    def forward(self, *tensors: torch.Tensor) -> Any:
        args, kwargs = put_together(self.structure, tensors)
        return flat_result(self.part(*args, **kwargs), torch.is_tensor)


def graph_of(part: nn.Module, call: ExampleCall) -> str:
    """Return the operators of a call with their arguments, shapes and constants; names count for nothing.

    Raises:
        CaptureError: torch.export cannot capture it.
    """
    structure, tensors = take_apart((call.args, dict(call.kwargs)), torch.is_tensor)
    captured = capture_module(_Flat(part, structure), tensors)
    return "\n".join(_lines(captured))


def _lines(captured: Captured) -> list[str]:
    numbers = {node.name: f"%{number}" for number, node in enumerate(captured.graph.nodes)}
    sources = {
        p.node: (p.kind, digest_of(captured.constants[str(p.source)]) if p.kind == "constant" else p.source)
        for p in captured.placeholders
    }

    def value(held: Any) -> Any:
        return fx.node.map_arg(held, lambda node: numbers[node.name])

    lines = []
    for node in captured.graph.nodes:
        if node.op == "get_attr":
            raise CaptureError(f"{node.target}: a graph in a graph is not compared")
        what = sources.get(node.name, "value") if node.op == "placeholder" else str(node.target)
        lines.append(
            repr((node.op, what, value(node.args), value(node.kwargs), _facts(node.meta.get("val"))))
        )
    written = {name: numbers[node] for name, node in captured.mutations.items()}
    return [*lines, repr((written, captured.returns_tuple, [numbers.get(o or "") for o in captured.outputs]))]


def _facts(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return str(value.dtype), str(value.device), tuple(value.shape), tuple(value.stride())
    return [_facts(item) for item in value] if isinstance(value, list | tuple) else repr(value)
