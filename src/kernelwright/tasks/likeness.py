"""What a live module computes, as a word that is the same for other weights and inputs of the same kind."""

import hashlib
import inspect
import io
import types
from typing import Any
from weakref import WeakKeyDictionary

import cloudpickle
import torch
from torch import nn


def likeness(module: nn.Module, calls: Any) -> str | None:
    """Return a hash of a module's classes, their source, its attributes and what it is called with.

    Of weights and inputs only shape, strides, type and device count; of other tensors the values, too. None
    where a part cannot be told: then nothing is alike. What a class's methods call in other modules is not
    looked at beyond the names and sources of the module's own classes.
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
            return ("tensor", is_parameter, *facts, "" if id(value) in self.held else _digest(value))
        if isinstance(value, type | types.FunctionType):
            return ("code", value.__module__, value.__qualname__, *_sources(value))
        if isinstance(value, types.ModuleType):
            return ("module", value.__name__)
        return None


_KNOWN: WeakKeyDictionary[Any, list[str]] = WeakKeyDictionary()
"""Classes and functions whose sources were read: to find a class, Python parses its whole file."""


def _sources(code: Any) -> list[str]:
    """Return hashes of a class's or function's source and of what it inherits from."""
    if code not in _KNOWN:
        _KNOWN[code] = _read_sources(code)
    return _KNOWN[code]


def _read_sources(code: Any) -> list[str]:
    found = []
    for part in inspect.getmro(code) if isinstance(code, type) else (code,):
        if part.__module__.partition(".")[0] in ("torch", "builtins", "abc", "typing"):
            continue
        try:
            text = inspect.getsource(part)
        except (OSError, TypeError):
            text = _bytecode(part)
        found.append(hashlib.sha256(text.encode()).hexdigest()[:16])
    return found


def _bytecode(part: Any) -> str:
    functions = vars(part).values() if isinstance(part, type) else (part,)
    codes = [f.__code__ for f in functions if isinstance(f, types.FunctionType)]
    return repr([(c.co_name, c.co_code, c.co_names, [k for k in c.co_consts if is_text(k)]) for c in codes])


def is_text(constant: object) -> bool:
    """True for constants whose text is the same in every process."""
    return isinstance(constant, bool | int | float | str | bytes | None)


def _digest(tensor: torch.Tensor) -> str:
    flat = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    return hashlib.sha256(flat.numpy().tobytes()).hexdigest()[:16]


def _tensors_in(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return [tensor for item in items for tensor in _tensors_in(item)]
