"""What a live module computes, as a word that is the same for other weights and inputs of the same kind."""

import hashlib
import io
import types
from typing import Any

import cloudpickle
import torch
from torch import nn

from kernelwright.tasks.described import code_of, description_of, digest_of


def likeness(module: nn.Module, calls: Any) -> str | None:
    """Return a hash of a module's classes, what their code reads, its attributes and what it is called with.

    Of weights and inputs only shape, strides, type and device count; of other tensors the values, too. None
    where a part cannot be told: then nothing is alike.
    """
    held = {id(tensor) for tensor in module.state_dict(keep_vars=True).values()}
    held |= {id(tensor) for tensor in _tensors_in(calls)}
    written = io.BytesIO()
    pickler = _Pickler(written, held)
    try:
        pickler.dump((module, calls, torch.get_default_dtype()))
    except Exception:  # whatever a user's __reduce__ raises; the module's own pickling has said it by then
        return None
    return hashlib.sha256(written.getvalue()).hexdigest()[:20]


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle has no types
    """Names tensors, classes and functions in the place of what they hold."""

    def __init__(self, file: io.BytesIO, held: set[int]) -> None:
        super().__init__(file)
        self.held = held
        self._places: dict[int, int] = {}

    def persistent_id(self, value: Any) -> Any:
        """Return what stands for a value; None: it is pickled."""
        if isinstance(value, torch.Tensor):
            place = self._places.setdefault(id(value), len(self._places))  # tied weights are no others
            facts = (place, str(value.dtype), str(value.device), tuple(value.shape), tuple(value.stride()))
            is_parameter = isinstance(value, nn.Parameter)
            return ("tensor", is_parameter, *facts, "" if id(value) in self.held else digest_of(value))
        if isinstance(value, type):
            return ("code", value.__module__, value.__qualname__, code_of(value, is_open=True))
        if isinstance(value, types.FunctionType):
            return ("code", value.__module__, value.__qualname__, _known(description_of(value)))
        if isinstance(value, types.ModuleType):
            return ("module", value.__name__)
        return None


def _known(description: str) -> str:
    if not description:
        raise ValueError("nobody can describe a function")
    return description


def _tensors_in(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return [tensor for item in items for tensor in _tensors_in(item)]
