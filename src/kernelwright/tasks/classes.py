"""Classes and functions taken apart: their code, and what it reads. Delivered folders carry this file."""

import dis
import functools
import sys
from collections.abc import Collection, Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec, resolve_name
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import torch

from kernelwright.core.structure import is_plain

ORIGINAL = "_kernelwright_original"
"""Attribute of a class of ours that names the class it was made of."""
_FUNCTIONS = (FunctionType, staticmethod, classmethod, property, functools.cached_property)
"""Entries of classes of which the functions in them say everything."""
_READ = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})
_WRITTEN = frozenset({"STORE_GLOBAL", "DELETE_GLOBAL"})
_INSTALLED = frozenset({"site-packages", "dist-packages"})
_LOOKED_UP = frozenset({"getattr", "hasattr"})


@functools.cache
def edition(module: str) -> str | None:
    """Return which edition of a library a Python module is of; None for code of the user's own.

    Empty for torch, Python and Kernelwright.
    """
    top = module.partition(".")[0]
    if top == "kernelwright" or _is_given(module):
        return ""
    home: Any = sys.modules.get(top)
    places = (getattr(home, "__file__", None), *getattr(home, "__path__", ()))
    is_installed = any(_INSTALLED & {*Path(str(place)).parts} for place in places if place)
    return str(getattr(home, "__version__", "")) if is_installed and top != "__main__" else None


def _is_given(module: str) -> bool:
    top = module.partition(".")[0]
    return top == "torch" or (top in sys.stdlib_module_names and top != "__main__")


def own_bases(kind: type) -> list[type]:
    """Return the classes in a class's order of lookup that are neither torch's nor Python's, nor ours."""
    bases = [base for base in kind.__mro__ if ORIGINAL not in vars(base)]
    return [base for base in bases if not _is_given(str(base.__module__))]


# -- names -------------------------------------------------------------------------------------------


@functools.cache
def names_read(kind: type) -> frozenset[str]:
    """Return the names that a class's code may look up in its instances: its own, and those it speaks of."""
    return frozenset(dir(kind)).union(names_spoken_of(kind))


@functools.cache
def names_spoken_of(kind: type) -> frozenset[str]:
    """Return the names in a class's own code."""
    return frozenset[str]().union(*map(_names_in_class, own_bases(kind)))


@functools.cache
def names_run(kind: type) -> frozenset[str]:
    """Return them without those of constructors, which have run; functions made there may run later."""
    return frozenset(name for code in _codes_run(kind) for name in _names_in(code))


@functools.cache
def makes_names(kind: type) -> bool:
    """Say whether a class's code may look up names that stand nowhere in it, such as ``f"alpha_{i}"``."""
    return any(_makes_names(part) for code in _codes_run(kind) for part in (code, *_inner(code)))


def _makes_names(code: CodeType) -> bool:
    """True where ``getattr`` is called with what is no constant, or attributes are looked up in a dict."""
    if {"__dict__", "vars"} & {*code.co_names}:
        return True
    steps = [step for step in dis.get_instructions(code) if step.opname not in ("PRECALL", "CACHE")]
    starts = (i for i, step in enumerate(steps) if step.opname in _READ and step.argval in _LOOKED_UP)
    return not all(_has_constant_name(steps[start:]) for start in starts)


def _has_constant_name(steps: list[dis.Instruction]) -> bool:
    """Say whether a call of ``getattr``, with which the steps begin, has a constant for a name."""
    call = next((i for i, step in enumerate(steps) if step.opname.startswith("CALL")), 0)
    n_given = steps[call].arg or 0
    return n_given in (2, 3) and steps[call + 1 - n_given].opname == "LOAD_CONST"


def _names_in_class(base: type) -> set[str]:
    return {
        name
        for value in vars(base).values()
        for function in functions_in(value)
        for name in _names_in(function.__code__)
    }


def _codes_run(kind: type) -> list[CodeType]:
    """Return the code of a class's own functions, and of those that its constructors make."""
    found: list[CodeType] = []
    for base in own_bases(kind):
        for name, value in vars(base).items():
            codes = [function.__code__ for function in functions_in(value)]
            found += [part for code in codes for part in _inner(code)] if name == "__init__" else codes
    return found


@functools.cache
def _names_in(code: CodeType) -> frozenset[str]:
    """Return the names and texts in code, that of inner functions included."""
    parts = (code, *_inner(code))
    texts = (text for part in parts for text in part.co_consts if isinstance(text, str))
    return frozenset(name for part in parts for name in part.co_names).union(texts)


def _inner(code: CodeType) -> Iterator[CodeType]:
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield part
            yield from _inner(part)


# -- what classes and functions hold -----------------------------------------------------------------


def functions_in(value: Any) -> Iterator[FunctionType]:
    """Yield the functions of a class's entry: a method, a property, a wrapper around one."""
    if isinstance(value, type):
        return
    wrapped = ("__func__", "fget", "fset", "func", "__wrapped__")
    for inner in (value, *(getattr(value, name, None) for name in wrapped)):
        while isinstance(inner, FunctionType):
            yield inner
            inner = getattr(inner, "__wrapped__", None)


def entries_of(kind: type, *, is_open: bool) -> Iterator[tuple[str, list[FunctionType], list[Any]]]:
    """Yield what a class has: names, the functions there, and values that functions do not say whole.

    Values count where the class's code speaks of their names; ``is_open``: and where these are public, as
    others read them.
    """
    spoken = names_spoken_of(kind)
    for number, base in enumerate(own_bases(kind)):
        for name, value in sorted(vars(base).items()):
            functions = [*functions_in(value)]
            is_read = name in spoken or (is_open and not name.startswith("_"))
            is_whole = (functions and isinstance(value, _FUNCTIONS)) or name.startswith("__")
            inner = value.__func__ if isinstance(value, staticmethod | classmethod) else value
            values = [inner] if is_read and not is_whole else []
            if functions or values:
                yield f"{number} {name}", functions, values


def code_text(function: FunctionType) -> str:
    """Return a function's code, the same wherever it stands and whatever is said about it."""
    return _code(function.__code__, function.__doc__)


def _code(code: CodeType, doc: str | None = None) -> str:
    start = int(code.co_consts[:1] in ((doc,), (None,)))  # where a docstring stands, or would
    consts = [_constant(value) for value in code.co_consts[start:]]
    return f"{code.co_code.hex()} {code.co_names} {code.co_varnames} {consts}"


def _constant(value: Any) -> str:
    if isinstance(value, CodeType):
        return _code(value)
    if isinstance(value, tuple):
        return repr([*map(_constant, value)])
    return repr(sorted(map(repr, value))) if isinstance(value, frozenset) else repr(value)


def closure_of(function: FunctionType) -> list[Any]:
    """Return what a function has of those around it; of a library's function as ``globals_read`` does."""
    found: list[Any] = []
    for cell in function.__closure__ or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:  # not there yet
            found.append(None)
    return found if _is_own(function) else [value for value in found if _is_told(value)]


def globals_read(function: FunctionType, *, is_made: bool = False) -> dict[str, Any]:
    """Return what a function reads outside of itself, by name; in the user's own modules, what it may read.

    Of a library's function the plain values, tensors, functions and classes: the rest is its own affair.

    Args:
        function: whose code is looked at; names that it assigns to itself are left out.
        is_made: it is a constructor that has run: only functions made there are looked at.
    """
    code = function.__code__
    codes = [*_inner(code)] if is_made else [code, *_inner(code)]
    names = dict.fromkeys(name for part in codes for name in _globals_in(part))
    spoken = sorted(_names_in(code))
    found = dict(_found(function.__globals__, names, spoken, frozenset()))
    if not _is_own(function):
        return {name: value for name, value in found.items() if _is_told(value)}
    for name in dict.fromkeys(name for part in codes for name in _imports_in(part)):
        if (module := _own_module(name, function)) is not None:
            found |= _found(vars(module), spoken, spoken, frozenset({id(module)}), f"{name}.")
    return found


def globals_written(kind: type) -> dict[str, Any]:
    """Return what a class's own functions, and others of their modules, assign there, as it is now."""
    entries = (value for base in own_bases(kind) for value in vars(base).values())
    scopes = {id(f.__globals__): f.__globals__ for value in entries for f in functions_in(value)}
    found: dict[str, Any] = {}
    for scope in scopes.values():
        values = [*scope.values(), *(entry for base in own_bases(kind) for entry in vars(base).values())]
        codes = [f.__code__ for value in values for f in functions_in(value) if f.__globals__ is scope]
        names = {name for code in codes for part in (code, *_inner(code)) for name in _written_in(part)}
        found |= {name: scope.get(name) for name in sorted(names)}
    return found


@functools.cache
def _written_in(code: CodeType) -> frozenset[str]:
    return frozenset(str(step.argval) for step in dis.get_instructions(code) if step.opname in _WRITTEN)


@functools.cache
def _globals_in(code: CodeType) -> tuple[str, ...]:
    read = dict.fromkeys(step.argval for step in dis.get_instructions(code) if step.opname in _READ)
    return tuple(name for name in read if name not in _written_in(code))


@functools.cache
def _imports_in(code: CodeType) -> tuple[str, ...]:
    """Return the modules that code imports when it runs, with a dot for each level of a relative import."""
    steps = [step for step in dis.get_instructions(code) if step.opname != "CACHE"]
    imports = (i for i, step in enumerate(steps) if step.opname == "IMPORT_NAME")
    return tuple(dict.fromkeys("." * (steps[i - 2].argval or 0) + str(steps[i].argval) for i in imports))


def _own_module(name: str, function: FunctionType) -> ModuleType | None:
    """Return a module of the user's that a function imports; None for a library's, or where there is none."""
    try:
        whole = resolve_name(name, str(function.__globals__.get("__package__") or ""))
        if whole not in sys.modules and _is_elsewhere(whole.partition(".")[0]):
            return None
        module = sys.modules.get(whole) or import_module(whole)
    except Exception:  # whatever a module raises when it is imported
        return None
    return module if edition(whole) is None else None


def _is_elsewhere(top: str) -> bool:
    """Say whether a module that may not be imported yet is of Python, torch or an installed library."""
    spec = None if _is_given(top) else find_spec(top)
    return spec is None or bool(_INSTALLED & {*Path(str(spec.origin)).parts})


def _found(
    scope: Mapping[str, Any],
    names: Collection[str],
    spoken: Collection[str],
    above: frozenset[int],
    path: str = "",
) -> Iterator[tuple[str, Any]]:
    for name in names:
        if name not in scope or name.startswith("__"):
            continue
        value = scope[name]
        if not isinstance(value, ModuleType) or edition(value.__name__) is not None:
            yield f"{path}{name}", value
        elif id(value) not in above:
            yield from _found(vars(value), spoken, spoken, above | {id(value)}, f"{path}{name}.")


def _is_own(function: FunctionType) -> bool:
    return edition(str(function.__globals__.get("__name__", ""))) is None


def _is_told(value: Any) -> bool:
    return is_plain(value) or isinstance(value, FunctionType | type | torch.Tensor)
