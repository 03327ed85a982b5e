"""Hashes of what classes do: equal for the same class, in this process and in others."""

import functools
import sys
from collections.abc import Collection, Iterator
from types import CodeType, FunctionType
from typing import Any

from .described import ORIGINAL, UNKNOWABLE, code_text, description_of, hash_of

_FUNCTIONS = (FunctionType, staticmethod, classmethod, property, functools.cached_property)
"""Entries of classes of which the functions in them say everything."""


@functools.cache
def code_of(kind: type) -> str:
    """Return which code a class has: the Python version, and a hash. Empty for classes of torch.

    Class attributes that the code reads are part of it; one that nobody can describe makes it another in each
    process.
    """
    bases, read = _own_bases(kind), names_spoken_of(kind)
    texts = [text for base in bases for text in _texts(base, read)]
    return f"{_python()} {hash_of(chr(10).join(texts))}" if bases else ""


def _texts(base: type, read: Collection[str], *, is_outer: bool = True) -> Iterator[str]:
    """Yield what a class has under its names: all functions, and the values of those that are read."""
    for name, value in sorted(vars(base).items()):
        functions = [code_text(function) for function in _functions_in(value)]
        is_function = functions and isinstance(value, _FUNCTIONS)
        is_read = name in read and not name.startswith("__") and not is_function
        if functions or is_read:
            known = _value_text(value, is_outer=is_outer) if is_read else ""
            yield f"{name} = {functions} {known or ('' if functions else UNKNOWABLE)}"


def _value_text(value: Any, *, is_outer: bool) -> str:
    """Return a hash of a class attribute, empty where nobody can tell.

    A class is told by what it holds, such as options; classes inside it by their names.
    """
    inner = value.__func__ if isinstance(value, staticmethod | classmethod) else value
    held: list[str] = []
    if isinstance(inner, type) and is_outer:
        for base in _own_bases(inner):
            public = [name for name in vars(base) if not name.startswith("_")]
            if base.__module__.partition(".")[0] not in sys.stdlib_module_names:
                held += _texts(base, public, is_outer=False)
    described = description_of(inner)
    return described and hash_of("\n".join([described, *held]))


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
    if isinstance(value, type):
        return
    wrapped = ("__func__", "fget", "fset", "func", "__wrapped__")
    for inner in (value, *(getattr(value, name, None) for name in wrapped)):
        while isinstance(inner, FunctionType):
            yield inner
            inner = getattr(inner, "__wrapped__", None)
