"""Which submodules of a model are blocks, to be optimised each kind once. Pure."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Submodule:
    """One submodule as a profile found it."""

    path: str
    kind: str
    """Equal for submodules that compute the same on other weights; empty: it cannot be a block."""
    ms: float = 0.0
    """Time in it during one call of the model, submodules included."""
    is_plain: bool = False
    """A module of torch's own that holds no other one: a layer, no block."""
    why_not: str = ""
    """Why it cannot be a block."""


@dataclass(frozen=True)
class BlockKind:
    """Blocks that one kernel serves."""

    kind: str
    paths: tuple[str, ...]
    """In the model's order; the first stands for all."""
    ms: float
    """Time in all of them during one call of the model."""


def find_blocks(parts: Sequence[Submodule]) -> tuple[BlockKind, ...]:
    """Return the kinds of blocks, the one that takes most time first. No block lies in another one.

    A block is an outermost submodule of a kind that occurs at least twice. What holds no such submodule and
    lies in none is a block of its own. Plain layers of torch count only where nothing else occurs twice.

    Args:
        parts: every submodule but the model itself, in the order of ``named_modules``.
    """
    repeated = repeated_kinds(parts) or repeated_kinds(parts, with_plain=True)
    by_path = {part.path: part for part in parts}
    children: dict[str, list[str]] = {}
    for part in parts:
        children.setdefault(part.path.rpartition(".")[0], []).append(part.path)

    def holds_repeated(path: str) -> bool:
        return any(by_path[c].kind in repeated or holds_repeated(c) for c in children.get(path, ()))

    taken: list[str] = []

    def visit(path: str) -> None:
        for child in children.get(path, ()):
            part = by_path[child]
            is_own = part.kind and not part.is_plain and not holds_repeated(child)
            if part.kind in repeated or is_own:
                taken.append(child)
            else:
                visit(child)

    visit("")
    kinds: dict[str, list[Submodule]] = {}
    for path in taken:
        kinds.setdefault(by_path[path].kind, []).append(by_path[path])
    found = [
        BlockKind(kind, tuple(part.path for part in members), sum(part.ms for part in members))
        for kind, members in kinds.items()
    ]
    return tuple(sorted(found, key=lambda block: -block.ms))


def repeated_kinds(parts: Sequence[Submodule], *, with_plain: bool = False) -> frozenset[str]:
    """Return the kinds that occur at least twice."""
    counted = Counter(part.kind for part in parts if part.kind and (with_plain or not part.is_plain))
    return frozenset(kind for kind, count in counted.items() if count > 1)
