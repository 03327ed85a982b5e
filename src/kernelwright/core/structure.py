"""What holds the tensors of a call: nested arguments and results, told apart from the tensors in them.

Uses the standard library alone and imports nothing of Kernelwright: delivered folders carry this file.
"""

import dataclasses
import importlib
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

PLAIN = (type(None), bool, int, float, str)
"""Types of values that a kernel may have been made for, compared by type and value."""


class UnstructuredError(TypeError):
    """A value that is neither a tensor, nor plain, nor a container of such."""


@dataclass(frozen=True)
class TensorAt:
    """The tensor with this position in the flat list."""

    position: int


@dataclass(frozen=True)
class Fixed:
    """A plain value, the same in every call."""

    value: Any


@dataclass(frozen=True)
class Container:
    """A tuple, list, dict, named tuple or dataclass, with what it holds under its keys."""

    type: type
    keys: tuple[Any, ...]
    items: tuple["Structure", ...]


Structure: TypeAlias = TensorAt | Fixed | Container


def take_apart(value: Any, is_tensor: Callable[[Any], bool]) -> tuple[Structure, list[Any]]:
    """Return a value's structure and its tensors, in order.

    Raises:
        UnstructuredError: it holds something else than tensors, plain values and containers of such.
    """
    tensors: list[Any] = []
    return _without_tensors(value, is_tensor, tensors), tensors


def _without_tensors(part: Any, is_tensor: Callable[[Any], bool], tensors: list[Any]) -> Structure:
    """Return a part's structure, and add its tensors.

    A function inside ``take_apart`` would refer to itself, and tensors would live until a garbage collection.
    """
    if is_tensor(part):
        tensors.append(part)
        return TensorAt(len(tensors) - 1)
    if is_plain(part):
        return Fixed(part)
    keys = keys_of(part)
    if keys is None:
        raise UnstructuredError(f"a {type(part).__qualname__}")
    items = (_without_tensors(item_of(part, key), is_tensor, tensors) for key in keys)
    return Container(type(part), keys, tuple(items))


def take_apart_and_back(value: Any, is_tensor: Callable[[Any], bool]) -> tuple[Structure, list[Any]]:
    """Take a value apart that ``put_together`` makes again.

    Raises:
        UnstructuredError: as ``take_apart``, or it makes another, as a constructor changes what it is given.
    """
    found = take_apart(value, is_tensor)
    odd = _made_otherwise(value, is_tensor)
    if odd is not None:
        raise UnstructuredError(f"a {odd.__qualname__}, whose constructor changes what it is given")
    return found


def _made_otherwise(part: Any, is_tensor: Callable[[Any], bool]) -> type | None:
    """Return the class of the first container, from the inside, that its constructor does not make again."""
    keys = None if is_tensor(part) or is_plain(part) else keys_of(part)
    items = [item_of(part, key) for key in keys or ()]
    found = next((kind for item in items if (kind := _made_otherwise(item, is_tensor))), None)
    if found is not None or keys is None or type(part) in (tuple, list, dict, OrderedDict):
        return found
    try:
        known, tensors = take_apart(part, is_tensor)
        structure, again = take_apart(_built(type(part), keys, items), is_tensor)
    except Exception:  # whatever a user's constructor raises
        return type(part)
    is_made_again = repr(structure) == repr(known) and [*map(id, again)] == [*map(id, tensors)]
    return None if is_made_again else type(part)


def put_together(structure: Structure, tensors: Sequence[Any]) -> Any:
    """Invert ``take_apart``."""
    if isinstance(structure, TensorAt):
        return tensors[structure.position]
    if isinstance(structure, Fixed):
        return structure.value
    items = [put_together(item, tensors) for item in structure.items]
    return _built(structure.type, structure.keys, items)


def _built(kind: Any, keys: Sequence[Any], items: list[Any]) -> Any:
    if kind in (tuple, list):
        return kind(items)
    if issubclass(kind, tuple):
        return kind(*items)
    named = dict(zip(keys, items, strict=True))
    return (
        kind(named) if issubclass(kind, dict) and not hasattr(kind, "__dataclass_fields__") else kind(**named)
    )


def flat_result(value: Any, is_tensor: Callable[[Any], bool]) -> Any:
    """Return a result as a tensor or a tuple of tensors, whatever holds them."""
    if is_tensor(value) or (type(value) is tuple and all(map(is_tensor, value))):
        return value
    return tuple(take_apart(value, is_tensor)[1])


def is_plain(value: Any) -> bool:
    """True for what is compared by value: numbers, texts, None, dtypes, devices."""
    kind = type(value)
    return kind in PLAIN or (kind.__module__ == "torch" and kind.__name__ in ("dtype", "device", "layout"))


def is_same(value: Any, fixed: Any) -> bool:
    """True for two plain values of one type that are equal; NaN equals NaN, and -0.0 is not 0.0."""
    if value is fixed:
        return True
    if type(value) is not type(fixed):
        return False
    return repr(value) == repr(fixed) if isinstance(fixed, float) else bool(value == fixed)


def keys_of(value: Any) -> tuple[Any, ...] | None:
    """Return the keys of what a container holds, None for what is no container of ours."""
    kind = type(value)
    if kind in (tuple, list) or (isinstance(value, tuple) and hasattr(kind, "_fields")):
        return tuple(range(len(value)))
    if kind in (dict, OrderedDict):
        return tuple(value) if all(type(key) in (str, int, bool) for key in value) else None
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return tuple(field.name for field in fields) if all(field.init for field in fields) else None
    return None


def item_of(container: Any, key: Any) -> Any:
    """Return what a container holds under one of its keys."""
    is_object = dataclasses.is_dataclass(container)
    return getattr(container, key) if is_object else container[key]


def is_alike(value: Any, structure: Structure, is_tensor: Callable[[Any], bool]) -> bool:
    """True when a value has exactly this structure."""
    return next(differences(value, structure, is_tensor), None) is None


def _typed(keys: Sequence[Any] | None) -> list[tuple[type, Any]]:
    """Return keys with their types: 1, 1.0 and True are equal."""
    return [(type(key), key) for key in keys or ()]


def differences(
    value: Any, structure: Structure, is_tensor: Callable[[Any], bool], path: str = ""
) -> Iterator[str]:
    """Yield, in words, where a value has another structure."""
    if isinstance(structure, TensorAt):
        if not is_tensor(value):
            yield f"{path} is {shown(value)}, not a tensor"
    elif isinstance(structure, Fixed):
        if not is_plain(value) or not is_same(value, structure.value):
            yield f"{path} is {shown(value)}, not {structure.value!r}"
    elif type(value) is not structure.type or keys_of(value) is None:
        yield f"{path} is {shown(value)}, not a {structure.type.__name__}"
    elif _typed(keys_of(value)) != _typed(structure.keys):
        yield f"{path} holds {keys_of(value)}, not {structure.keys}"
    else:
        for key, item in zip(structure.keys, structure.items, strict=True):
            yield from differences(item_of(value, key), item, is_tensor, f"{path}[{key!r}]")


def tensors_in(structure: Structure) -> int:
    """Return how many tensors a structure has."""
    if isinstance(structure, Container):
        return sum(tensors_in(item) for item in structure.items)
    return int(isinstance(structure, TensorAt))


def shown(value: Any) -> str:
    """Return a short word for any value."""
    return repr(value) if is_plain(value) else f"a {type(value).__name__}"


def to_data(structure: Structure) -> Any:
    """Return a structure as JSON-ready data."""
    if isinstance(structure, TensorAt):
        return {"tensor": structure.position}
    if isinstance(structure, Fixed):
        return {"value": plain_to_data(structure.value)}
    items = [[key, to_data(item)] for key, item in zip(structure.keys, structure.items, strict=True)]
    return {"type": name_of(structure.type), "items": items}


def from_data(data: Any) -> Structure:
    """Invert ``to_data``; raises UnstructuredError where a class cannot be imported."""
    if "tensor" in data:
        return TensorAt(int(data["tensor"]))
    if "value" in data:
        return Fixed(plain_from_data(data["value"]))
    keys, items = tuple(key for key, _ in data["items"]), tuple(from_data(item) for _, item in data["items"])
    return Container(find(data["type"]), keys, items)


def plain_to_data(value: Any) -> Any:
    """Return a plain value, or a tuple, list or dict of such, as JSON-ready data.

    Raises:
        UnstructuredError: it is something else.
    """
    kind = type(value)
    if kind in (type(None), bool, int, str):
        return value
    if kind is float:
        return {"float": value.hex()}
    if kind.__module__ == "torch" and is_plain(value):
        return {f"torch.{kind.__name__}": str(value).removeprefix("torch.")}
    if kind in (tuple, list, frozenset, set) or (kind.__module__ == "torch" and kind.__name__ == "Size"):
        word = kind.__name__
        return {word: [plain_to_data(item) for item in (_in_order(value) if "set" in word else value)]}
    if kind in (dict, OrderedDict) and all(type(key) is str for key in value):
        return {kind.__name__: [[key, plain_to_data(item)] for key, item in value.items()]}
    if kind in (dict, OrderedDict):
        word = "pairs" if kind is dict else "ordered_pairs"
        return {word: [[plain_to_data(key), plain_to_data(item)] for key, item in value.items()]}
    if callable(value) and is_found(value):
        return {"named": name_of(value)}
    raise UnstructuredError(f"a {kind.__qualname__}")


def _in_order(members: Iterable[Any]) -> list[Any]:
    """Return the members of a set in an order that every process finds."""
    kinds = {type(member) for member in members}
    is_ordered = kinds <= {str} or kinds <= {bool, int, float}
    return sorted(members) if is_ordered else sorted(members, key=lambda member: repr(plain_to_data(member)))


def plain_from_data(data: Any) -> Any:
    """Invert ``plain_to_data``."""
    if not isinstance(data, dict):
        return data
    ((word, content),) = data.items()
    if word == "float":
        return float.fromhex(content)
    if word == "named":
        return find(content)
    if word.startswith("torch."):
        torch = importlib.import_module("torch")
        return torch.device(content) if word == "torch.device" else getattr(torch, content)
    if word in ("dict", "OrderedDict"):
        kind = dict if word == "dict" else OrderedDict
        return kind((key, plain_from_data(item)) for key, item in content)
    if word in ("pairs", "ordered_pairs"):
        pairs = [(plain_from_data(key), plain_from_data(item)) for key, item in content]
        return dict(pairs) if word == "pairs" else OrderedDict(pairs)
    if word == "Size":
        return importlib.import_module("torch").Size(content)
    kinds: dict[str, Callable[[Iterable[Any]], Any]] = {
        "tuple": tuple, "list": list, "set": set, "frozenset": frozenset
    }  # fmt: skip
    return kinds[word](plain_from_data(item) for item in content)


def name_of(thing: Any) -> str:
    """Return where a class or function is found: ``MODULE:NAME``."""
    return f"{thing.__module__}:{thing.__qualname__}"


def find(name: str) -> Any:
    """Return the class or function of that name; raises UnstructuredError where it is not to be had."""
    module, _, path = name.partition(":")
    try:
        found: Any = sys.modules.get(module) or importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise UnstructuredError(f"{path} of {module} cannot be imported") from error
    return found


def is_found(thing: Any) -> bool:
    """True for what an import of its own name gives."""
    try:
        return find(name_of(thing)) is thing
    except (AttributeError, UnstructuredError):
        return False
