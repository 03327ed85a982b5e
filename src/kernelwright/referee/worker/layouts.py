"""Slots of an encoded value. Needs no torch, so parent and worker can both use it."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

Slot: TypeAlias = dict[str, Any]
"""Where a tensor lies: ``{"dtype", "shape", "stride", "offset"}``, offset in bytes into an arena.
Elements may share memory (an expanded axis has stride 0), and there may be gaps between them."""
Json: TypeAlias = Any


def extent(shape: Sequence[int], stride: Sequence[int]) -> int:
    """Return how many elements' memory a tensor spans, gaps included."""
    if 0 in shape:
        return 0
    return 1 + sum((n - 1) * step for n, step in zip(shape, stride, strict=True))


def slots_in(value: Json) -> list[Slot]:
    """Return the slots of an encoded value in order."""
    if not isinstance(value, dict):
        return []
    ((kind, content),) = value.items()
    if kind == "tensor":
        return [content]
    if kind in ("list", "tuple"):
        return [slot for item in content for slot in slots_in(item)]
    if kind == "dict":
        return [slot for item in content.values() for slot in slots_in(item)]
    return []


def shifted(value: Json, by: int | Callable[[Slot], int]) -> Json:
    """Return an encoded value with all its tensors moved by so many bytes; a function says it per tensor."""
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "tensor":
        return {kind: {**content, "offset": content["offset"] + (by if isinstance(by, int) else by(content))}}
    if kind in ("list", "tuple"):
        return {kind: [shifted(item, by) for item in content]}
    if kind == "dict":
        return {kind: {key: shifted(item, by) for key, item in content.items()}}
    return value


def lanes_of(arena: str, count: int) -> list[str]:
    """Return the names of the ``count`` argument sets that hold copies of one arena's values."""
    return [f"{arena}:{i}" if i else arena for i in range(count)]


def arena_of(name: str) -> str:
    """Return the arena that holds an argument set."""
    return name.partition(":")[0]
