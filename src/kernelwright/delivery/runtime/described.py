"""Hashes of what objects hold: equal for a copy, in this process and in others."""

import copyreg
import functools
import hashlib
import inspect
import secrets
from collections.abc import Iterator, Mapping
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
_UNBOUND = (type, ModuleType, type(None))
"""What functions belong to that are no methods."""
NAMELESS: Mapping[int, str] = MappingProxyType({})
MOST = 100_000
"""So many objects inside an object are described."""
UNKNOWABLE = f"? {secrets.token_hex(8)}"
"""Stands for what nobody can describe: it is like itself in this process, and like nothing in others."""


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
        return _Description(names, set() if met is None else met, iter(range(MOST))).of(value)
    except Exception:  # whatever a user's __reduce__ raises
        return ""


def code_text(function: FunctionType) -> str:
    """Return what a function does: its code, and what its defaults hold."""
    defaults = description_of([function.__defaults__, function.__kwdefaults__]) or UNKNOWABLE
    return f"{_code(function.__code__, function.__doc__)} {defaults}"


def _code(code: CodeType, doc: str | None = None) -> str:
    start = int(code.co_consts[:1] in ((doc,), (None,)))  # where a docstring stands, or would
    consts = [_constant(value) for value in code.co_consts[start:]]
    return f"{code.co_code.hex()} {code.co_names} {code.co_varnames} {consts}"


def _constant(value: Any) -> str:
    if isinstance(value, CodeType):
        return _code(value)
    return repr(sorted(map(repr, value))) if isinstance(value, frozenset) else repr(value)


def hash_of(text: str) -> str:
    """Return a hash of a text."""
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()


class _Description:
    """What an object holds, a line for each object inside it.

    Objects are named by the numbers of their first visits: that stays as short as the object is, and tells
    what is shared. Tuples, frozen sets and methods, of which a copy is as good, are told by their content.

    Args:
        names: as in ``description_of``.
        met: as in ``description_of``.
        left: has an item for each object that may still be described.
        inside: the identities of the sets of which this describes a member.
    """

    def __init__(
        self,
        names: Mapping[int, str],
        met: set[int],
        left: Iterator[int],
        inside: frozenset[int] = frozenset(),
    ) -> None:
        self.names, self.met, self.left, self.inside = names, met, left, inside
        self.objects: list[Any] = []
        """By number. While they are kept, no other objects have their identities."""
        self.numbers: dict[int, int] = {}
        self.contents: dict[int, tuple[Any, str]] = {}
        """Of tuples and such, by identity: the object, which is kept, and a hash."""

    def of(self, value: Any) -> str:
        """Return a hash of an object; raises TypeError where nobody can tell."""
        lines = [self._name(value)]
        for number, part in enumerate(self.objects):  # grows meanwhile
            lines.append(f"{number} {self._line(part)}")
        return hash_of("\n".join(lines))

    def _name(self, value: Any) -> str:
        if is_plain(value) or isinstance(value, bytes | complex):
            return repr(value)
        if isinstance(value, torch.Tensor | nn.Module):
            self.met.add(id(value))
        if id(value) in self.names:
            return f"the module's {self.names[id(value)]}"
        is_bound = isinstance(value, BuiltinFunctionType) and not isinstance(value.__self__, _UNBOUND)
        if isinstance(value, type | BuiltinFunctionType) and not is_bound:
            return name_of(value)
        if isinstance(value, FunctionType) and is_found(value):
            return name_of(value)
        if is_bound or type(value) in (tuple, frozenset) or isinstance(value, MethodType):
            if id(value) not in self.contents:
                self._count()
                self.contents[id(value)] = value, hash_of(self._content(value))
            return self.contents[id(value)][1]
        if id(value) not in self.numbers:
            self._count()
            self.numbers[id(value)] = len(self.objects)
            self.objects.append(value)
        return f"#{self.numbers[id(value)]}"

    def _count(self) -> None:
        if next(self.left, None) is None:
            raise TypeError("too many objects")

    def _content(self, value: Any) -> str:
        if isinstance(value, MethodType):
            return f"{self._name(value.__func__)} of {self._name(value.__self__)}"
        if isinstance(value, BuiltinFunctionType):
            return f"{value.__qualname__} of {self._name(value.__self__)}"
        return f"{name_of(type(value))} {self._items(value)}"

    def _line(self, value: Any) -> str:
        name = name_of(type(value))
        if isinstance(value, torch.Tensor):
            return f"{name} {tuple(value.shape)} {value.dtype} {value.device} {digest_of(value)}"
        if isinstance(value, FunctionType):
            cells = [cell.cell_contents for cell in value.__closure__ or ()]
            return f"{code_text(value)} {self._items(cells)}"
        if type(value) in (set, dict, list):
            return f"{name} {self._items(value)}"
        if isinstance(value, nn.Module):
            held = {k: v for k, v in vars(value).items() if k not in not_held(value)}
            return f"{name} {self._items(held)}"
        return f"{name} {self._reduced(value)}"

    def _items(self, value: Any) -> list[Any]:
        if isinstance(value, dict):
            return [(self._name(key), self._name(item)) for key, item in value.items()]
        if isinstance(value, set | frozenset):
            return ["a set around it"] if id(value) in self.inside else sorted(self._members(value))
        return [self._name(item) for item in value]

    def _members(self, value: set[Any] | frozenset[Any]) -> list[str]:
        """Return the members of a set, each by itself, as they have no order."""
        inside = self.inside | {id(value)}
        return [_Description(self.names, self.met, self.left, inside).of(member) for member in value]

    def _reduced(self, value: Any) -> list[Any]:
        reduced = value.__reduce_ex__(4)
        if isinstance(reduced, str):
            return [reduced]
        made, given, state, *rest = (*reduced, None, None, None)[:5]
        listed, mapped = (
            None if part is None else self._items(list(part)) for part in (*rest, None, None)[:2]
        )
        is_usual = made is copyreg.__newobj__  # type: ignore[attr-defined]
        return [None if is_usual else self._name(made), self._name(given), self._name(state), listed, mapped]
