"""Hashes of what objects hold and of what classes do: equal for a copy, in this process and in others."""

import copyreg
import functools
import hashlib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from types import BuiltinFunctionType, CodeType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any

import torch
from torch import nn

from .structure import is_found, is_plain, name_of

OWN = "_kernelwright"
"""Attribute of a delivered module that holds its state of ours."""
ORIGINAL = "_kernelwright_original"
"""Attribute of a class of ours that names the class it was made of."""
NOT_HELD = frozenset({OWN, "_compiled_call_impl"})
FOLLOWED = frozenset({"_flat_weights", "_flat_weight_refs"})
"""What torch's recurrent modules note of their weights, and note again in each call after a change."""
NAMELESS: Mapping[int, str] = MappingProxyType({})
DEEPEST = 40
"""So many objects inside each other are described."""


def digest_of(tensor: torch.Tensor) -> str:
    """Return a hash of a tensor's values."""
    flat = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    return hashlib.sha256(flat.numpy().tobytes()).hexdigest()


def not_held(part: nn.Module) -> frozenset[str]:
    """Return the entries of a module that are no attributes of its own."""
    return NOT_HELD | FOLLOWED if isinstance(part, nn.RNNBase) else NOT_HELD


def tensors_inside(value: Any) -> list[torch.Tensor]:
    """Return the tensors that an object holds, however deep: in containers, attributes and closures."""
    found: list[torch.Tensor] = []
    pending, seen = [value], {id(value)}
    while pending:
        part = pending.pop()
        if isinstance(part, torch.Tensor):
            found.append(part)
            continue
        for item in _items_of(part):
            if id(item) not in seen and not is_plain(item):
                seen.add(id(item))
                pending.append(item)
    return found


def _items_of(value: Any) -> list[Any]:
    """Return what an object refers to, classes and Python modules aside."""
    if isinstance(value, type | ModuleType):
        return []
    items = [*getattr(value, "__dict__", {}).values()]
    items += [getattr(value, name, None) for name in copyreg._slotnames(type(value))]  # type: ignore[attr-defined]
    if isinstance(value, dict):
        items += [*value, *value.values()]
    elif isinstance(value, list | tuple | set | frozenset):
        items += value
    elif isinstance(value, FunctionType):
        items += [*inspect.getclosurevars(value).nonlocals.values(), value.__defaults__, value.__kwdefaults__]
    elif isinstance(value, MethodType):
        items += [value.__self__, value.__func__]
    elif isinstance(value, functools.partial):
        items += [value.func, value.args, value.keywords]
    return items


def description_of(value: Any, names: Mapping[int, str] = NAMELESS, met: set[int] | None = None) -> str:
    """Return a hash of what an object holds; empty where nobody can tell.

    ``names`` are those of tensors, by identity, that are described by their names. The identities of tensors
    and modules in the object are added to ``met``.
    """
    try:
        return _hash(_described(value, (), names, set() if met is None else met))
    except Exception:  # whatever a user's __reduce__ raises
        return ""


@functools.cache
def code_of(kind: type) -> str:
    """Return which code a class has: the Python version, and a hash. Empty for classes of torch."""
    parts = []
    for base in _own_bases(kind):
        read = _names_in(base)
        for name, value in sorted(vars(base).items()):
            functions = [_code_text(function) for function in _functions_in(value)]
            is_read = is_plain(value) and name in read and not name.startswith("__")
            if functions or is_read:
                parts.append(f"{name} = {functions or repr(value)}")
    return f"{_python()} {_hash(chr(10).join(parts))}" if _own_bases(kind) else ""


def is_same_class(kind: type, name: str, code: str) -> bool:
    """Say whether a class is the one that was verified: of the same name, with the same code."""
    module, _, qualname = name.partition(":")
    own = code_of(kind)
    if kind.__qualname__ != qualname or bool(own) != bool(code):
        return False
    if own.split()[:1] == code.split()[:1] and own:
        return own == code
    return bool(own) or kind.__module__ == module


@functools.cache
def names_read(kind: type) -> frozenset[str]:
    """Return the names that a class's code may look up in its instances: its own, and those it speaks of."""
    return frozenset(dir(kind)).union(names_spoken_of(kind))


@functools.cache
def names_spoken_of(kind: type) -> frozenset[str]:
    """Return the names in a class's own code."""
    return frozenset[str]().union(*map(_names_in, _own_bases(kind)))


@functools.cache
def names_run(kind: type) -> frozenset[str]:
    """Return them without those of constructors, which have run; functions made there may run later."""
    return frozenset[str]().union(*(_names_in(base, is_made=True) for base in _own_bases(kind)))


def _own_bases(kind: type) -> list[type]:
    """Return the classes that a user wrote."""
    bases = [base for base in kind.__mro__ if base is not object and ORIGINAL not in vars(base)]
    return [base for base in bases if base.__module__.partition(".")[0] != "torch"]


def _python() -> str:
    return f"{sys.implementation.name}-{sys.version_info.major}.{sys.version_info.minor}"


def _names_in(base: type, *, is_made: bool = False) -> set[str]:
    """Return the names in a class's own functions; ``is_made``: without those of its constructor itself."""
    pending: list[CodeType] = []
    for name, value in vars(base).items():
        for function in _functions_in(value):
            code = function.__code__
            pending += _codes_in(code) if is_made and name == "__init__" else [code]
    found: set[str] = set()
    while pending:
        code = pending.pop()
        found.update(code.co_names, (text for text in code.co_consts if isinstance(text, str)))
        pending += _codes_in(code)
    return found


def _codes_in(code: CodeType) -> list[CodeType]:
    return [inner for inner in code.co_consts if isinstance(inner, CodeType)]


def _functions_in(value: Any) -> Iterator[FunctionType]:
    """Yield the functions of a class's entry: a method, a property, a wrapper around one."""
    for inner in (value, *(getattr(value, name, None) for name in ("__func__", "fget", "fset", "func"))):
        while isinstance(inner, FunctionType):
            yield inner
            inner = getattr(inner, "__wrapped__", None)


def _code_text(function: FunctionType) -> str:
    try:
        defaults = _described([function.__defaults__, function.__kwdefaults__], (), NAMELESS, set())
    except Exception:  # a default that nobody can describe
        defaults = "?"
    return f"{_code(function.__code__, function.__doc__)} {defaults}"


def _code(code: CodeType, doc: str | None = None) -> str:
    start = int(code.co_consts[:1] in ((doc,), (None,)))  # where a docstring stands, or would
    consts = [_constant(value) for value in code.co_consts[start:]]
    return f"{code.co_code.hex()} {code.co_names} {code.co_varnames} {consts}"


def _constant(value: Any) -> str:
    if isinstance(value, CodeType):
        return _code(value)
    return repr(sorted(map(repr, value))) if isinstance(value, frozenset) else repr(value)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()


def _described(value: Any, above: tuple[int, ...], names: Mapping[int, str], met: set[int]) -> str:
    """Return an object in words; raises TypeError where it has none."""
    if is_plain(value) or isinstance(value, bytes | complex):
        return repr(value)
    if id(value) in above:
        return f"<{len(above) - above.index(id(value))} up>"
    if len(above) > DEEPEST:
        raise TypeError("too deep")
    inner: Callable[[Any], str] = functools.partial(
        _described, above=(*above, id(value)), names=names, met=met
    )
    if isinstance(value, torch.Tensor | nn.Module):
        met.add(id(value))
    if id(value) in names:
        return f"the module's {names[id(value)]}"
    if isinstance(value, torch.Tensor):
        return f"{type(value).__name__} {tuple(value.shape)} {value.dtype} {value.device} {digest_of(value)}"
    if isinstance(value, type | BuiltinFunctionType):
        return name_of(value)
    if isinstance(value, FunctionType | MethodType):
        return _described_function(value, inner)
    name = name_of(type(value))
    if type(value) in (set, frozenset, dict, list, tuple):
        return f"{name} {_described_items(value, inner)}"
    if isinstance(value, nn.Module):
        return f"{name} {inner({k: v for k, v in vars(value).items() if k not in not_held(value)})}"
    return f"{name} {inner(_reduced(value))}"


def _described_items(value: Any, inner: Callable[[Any], str]) -> list[Any]:
    if isinstance(value, dict):
        return [(inner(key), inner(item)) for key, item in value.items()]
    items = [inner(item) for item in value]
    return sorted(items) if isinstance(value, set | frozenset) else items


def _described_function(value: FunctionType | MethodType, inner: Callable[[Any], str]) -> str:
    if isinstance(value, MethodType):
        return f"{value.__name__} of {inner(value.__self__)}"
    cells = [cell.cell_contents for cell in value.__closure__ or ()]
    return name_of(value) if is_found(value) else f"{_code_text(value)} {inner(cells)}"


def _reduced(value: Any) -> list[Any]:
    reduced = value.__reduce_ex__(4)
    if isinstance(reduced, str):
        return [reduced]
    made, given, state, *rest = (*reduced, None, None, None)[:5]
    listed, mapped = (None if part is None else list(part) for part in (*rest, None, None)[:2])
    return [None if made is copyreg.__newobj__ else made, given, state, listed, mapped]  # type: ignore[attr-defined]
