"""Hashes of what objects, classes and functions hold: equal for a copy, in this process and in others.

Delivered folders carry this file.
"""

import copyreg
import functools
import hashlib
import inspect
import secrets
import sys
from collections.abc import Iterator, Mapping
from types import BuiltinFunctionType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any

import torch
from torch import nn

from kernelwright.core.structure import is_found, is_plain, name_of
from kernelwright.tasks.classes import (
    ORIGINAL,
    closure_of,
    code_text,
    edition,
    entries_of,
    functions_in,
    globals_read,
    makes_names,
    names_read,
    names_run,
    names_spoken_of,
    own_bases,
)

OWN = "_kernelwright"
"""Attribute of a delivered module that holds its state of ours."""
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


@functools.cache
def code_of(kind: type, *, is_open: bool = False) -> str:
    """Return which code a class has: the Python version, and a hash. Empty for classes of torch and Python.

    What the code reads is part of it, as it was when this was first asked: class attributes, closures,
    defaults, globals. What nobody can describe makes it another in each process.

    Args:
        kind: the class.
        is_open: public class attributes count in any case, as other code may read them.
    """
    if not own_bases(kind):
        return ""
    try:
        found = _Description(NAMELESS, set(), iter(range(MOST)), root=kind, is_open=is_open).of(kind)
    except Exception:  # too many objects
        found = hash_of(UNKNOWABLE)
    return f"{_python()} {found}"


def forget_classes() -> None:
    """Describe classes anew from now on: attributes, globals and functions that they read may be others."""
    for known in (code_of, names_read, names_spoken_of, names_run, makes_names):
        known.cache_clear()


def is_same_class(kind: type, name: str, code: str) -> bool:
    """Say whether a class is the one that was verified: of the same name, with the same code."""
    module, _, qualname = name.partition(":")
    own = code_of(kind)
    if kind.__qualname__ != qualname or bool(own) != bool(code):
        return False
    if own.split()[:1] == code.split()[:1] and own:
        return own == code
    return bool(own) or kind.__module__ == module


def _python() -> str:
    return f"{sys.implementation.name}-{sys.version_info.major}.{sys.version_info.minor}"


def hash_of(text: str) -> str:
    """Return a hash of a text."""
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()


class _Description:
    """What an object holds, a line for each object inside it.

    Objects are named by the numbers of their first visits: that stays as short as the object is, and tells
    what is shared. Tuples, frozen sets and methods, of which a copy is as good, are told by their content.
    Classes and functions are told by their code and what it reads, those of libraries by their names.

    Args:
        names: as in ``description_of``.
        met: as in ``description_of``.
        left: has an item for each object that may still be described.
        inside: the identities of the sets of which this describes a member.
        root: a class whose code is described; None: classes are told by ``code_of``.
        is_open: as in ``code_of``.
    """

    def __init__(
        self,
        names: Mapping[int, str],
        met: set[int],
        left: Iterator[int],
        inside: frozenset[int] = frozenset(),
        root: type | None = None,
        *,
        is_open: bool = True,
    ) -> None:
        self.names, self.met, self.left, self.inside = names, met, left, inside
        self.root, self.is_open = root, is_open
        self.objects: list[Any] = []
        """By number. While they are kept, no other objects have their identities."""
        self.numbers: dict[int, int] = {}
        self.contents: dict[int, tuple[Any, str]] = {}
        """Of tuples and such, by identity: the object, which is kept, and a hash."""
        self.is_loose = root is not None
        """What is met now is read by code: where nobody can describe it, the code is another."""
        self.loose: list[bool] = []
        """By number: whether it was met so."""
        self.made: set[int] = set()
        """Identities of constructors of a module's class, which have run."""

    def of(self, value: Any) -> str:
        """Return a hash of an object; raises TypeError where nobody can tell."""
        lines = [self._name(value)]
        for number, part in enumerate(self.objects):  # grows meanwhile
            self.is_loose = self.loose[number]
            lines.append(f"{number} {self._line_or_none(part)}")
        return hash_of("\n".join(lines))

    def _name(self, value: Any) -> str:
        if is_plain(value) or isinstance(value, bytes | complex):
            return repr(value)
        if isinstance(value, torch.Tensor | nn.Module):
            self.met.add(id(value))
        if id(value) in self.names:
            return f"the module's {self.names[id(value)]}"
        if isinstance(value, type):
            return self._class_name(vars(value).get(ORIGINAL, value))
        if isinstance(value, ModuleType):
            return f"module {value.__name__} {edition(value.__name__)}"
        if isinstance(value, FunctionType):
            known = edition(value.__module__ or "")
            is_named = known is not None and is_found(value)
            return f"{name_of(value)} {known}" if is_named else self._number(value)
        is_bound = isinstance(value, BuiltinFunctionType) and not isinstance(value.__self__, _UNBOUND)
        if isinstance(value, BuiltinFunctionType) and not is_bound:
            return name_of(value)
        if is_bound or type(value) in (tuple, frozenset) or isinstance(value, MethodType):
            if id(value) not in self.contents:
                self._count()
                self.contents[id(value)] = value, hash_of(self._content(value))
            return self.contents[id(value)][1]
        return self._number(value)

    def _class_name(self, kind: type) -> str:
        known = edition(str(kind.__module__))
        if kind is self.root:
            return self._number(kind)
        if known is not None:
            return f"{name_of(kind)} {known}"
        if self.root is None:
            return f"{kind.__qualname__} {code_of(kind, is_open=True)}"
        return f"base {self.root.__mro__.index(kind)}" if kind in self.root.__mro__ else self._number(kind)

    def _number(self, value: Any) -> str:
        if id(value) not in self.numbers:
            self._count()
            self.numbers[id(value)] = len(self.objects)
            self.objects.append(value)
            self.loose.append(self.is_loose)
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

    def _line_or_none(self, value: Any) -> str:
        """Return an object's line; where nobody can tell, that of its functions, if code reads it."""
        try:
            return self._line(value)
        except Exception:  # whatever a user's __reduce__ raises
            if not self.is_loose:
                raise
        functions = [] if isinstance(value, FunctionType) else [*functions_in(value)]
        return f"{type(value).__qualname__} {[*map(self._number, functions)] or UNKNOWABLE}"

    def _line(self, value: Any) -> str:
        if isinstance(value, type):
            return self._class(value)
        if isinstance(value, FunctionType):
            return self._function(value)
        name = self._name(type(value))
        if isinstance(value, torch.Tensor):
            return f"{name} {tuple(value.shape)} {value.dtype} {value.device} {digest_of(value)}"
        if isinstance(value, torch.jit.ScriptFunction):
            return f"{name} {value.code}"
        if type(value) in (set, dict, list):
            return f"{name} {self._items(value)}"
        if isinstance(value, nn.Module):
            held = {k: v for k, v in vars(value).items() if k not in not_held(value)}
            return f"{name} {self._items(held)}"
        return f"{name} {self._reduced(value)}"

    def _class(self, kind: type) -> str:
        is_root = kind is self.root
        entries = [*entries_of(kind, is_open=self.is_open or not is_root)]
        if is_root and not self.is_open:
            made = (functions for name, functions, _ in entries if name.endswith(" __init__"))
            self.made = {id(function) for functions in made for function in functions}
        told = [
            (name, [*map(self._number, functions)], self._items(values))
            for name, functions, values in entries
        ]
        return f"class {'' if is_root else kind.__qualname__} {told}"

    def _function(self, value: FunctionType) -> str:
        held = self._items(closure_of(value))
        self.is_loose = True
        given = self._items([value.__defaults__, value.__kwdefaults__, getattr(value, "__wrapped__", None)])
        read = self._items(globals_read(value, is_made=id(value) in self.made))
        return f"{code_text(value)} {held} {given} {read}"

    def _items(self, value: Any) -> list[Any]:
        if isinstance(value, dict):
            return [(self._name(key), self._name(item)) for key, item in value.items()]
        if isinstance(value, set | frozenset):
            return ["a set around it"] if id(value) in self.inside else sorted(self._members(value))
        return [self._name(item) for item in value]

    def _members(self, value: set[Any] | frozenset[Any]) -> list[str]:
        """Return the members of a set, each by itself, as they have no order."""
        inside = self.inside | {id(value)}
        return [
            _Description(self.names, self.met, self.left, inside, self.root, is_open=self.is_open).of(member)
            for member in value
        ]

    def _reduced(self, value: Any) -> list[Any]:
        registered = copyreg.dispatch_table.get(type(value))  # of patterns and unions, for example
        reduced = value.__reduce_ex__(4) if registered is None else registered(value)
        if isinstance(reduced, str):
            return [reduced, *map(self._number, functions_in(value))]
        made, given, state, *rest = (*reduced, None, None, None)[:5]
        listed, mapped = (
            None if part is None else self._items(list(part)) for part in (*rest, None, None)[:2]
        )
        is_usual = made is copyreg.__newobj__  # type: ignore[attr-defined]
        return [None if is_usual else self._name(made), self._name(given), self._name(state), listed, mapped]
