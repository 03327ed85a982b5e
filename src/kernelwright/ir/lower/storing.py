"""Which computed values are cheaper to write to memory once than to compute again."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from math import prod

from kernelwright.ir.lower.expressions import loads, walk
from kernelwright.ir.lower.fuse import Fusion, FusionGroup, is_root
from kernelwright.ir.lower.translate import TranslatedNode, Translation
from kernelwright.ir.lower.values import Inline, Stored, Value, sources
from kernelwright.ir.program import TRANSCENDENTALS, Expr, Op

BYTES = {"float64": 8, "int64": 8, "int32": 4, "float32": 4, "int16": 2, "int8": 1, "uint8": 1, "bool": 1}
TRANSCENDENTAL_BYTES = 4
"""Memory traffic that costs about as much as one vectorised transcendental."""
SLOW = TRANSCENDENTALS | {"div", "sqrt", "rsqrt", "reciprocal"}
MIN_ELEMENTS = 1024
"""Smaller values are computed again without asking."""
MUCH_SMALLER = 16
"""A statistic is stored, ready for use, when its readers have at least this many points per element."""
MAX_WEIGHT = 64
"""Operations, counted as a tree, up to which a value with several readers is inlined unseen."""
MAX_DEPTH = 150
"""Values inlined into each other; bounds the recursion of reading."""


def too_deep(graph: Translation, stored: Collection[Value]) -> list[Value]:
    """Return values to store before fusion, because chains of inlined ones would grow without bound."""
    readers: dict[Value, int] = {}
    for item in graph.made:
        for source in () if isinstance(item, TranslatedNode) else sources(item):
            readers[source] = readers.get(source, 0) + 1
    weight: dict[Value, int] = {}
    depth: dict[Value, int] = {}
    chosen: list[Value] = []
    for item in graph.made:
        if not isinstance(item, Inline) or item in stored:
            continue
        weight[item] = (not item.is_view) + sum(weight.get(s, 1) for s in item.inputs)
        depth[item] = 1 + max((depth.get(s, 0) for s in item.inputs), default=0)
        shared = weight[item] > MAX_WEIGHT and readers.get(item, 0) > 1 and not item.is_view
        if shared or depth[item] > MAX_DEPTH:
            chosen.append(item)
            weight[item], depth[item] = 1, 0
    return chosen


def worth_storing(graph: Translation, fusion: Fusion, inline: Collection[str]) -> list[Value]:
    """Return values that the regions of ``fusion`` compute again and again; never of nodes in ``inline``."""
    sizes = {v.buffer: prod(v.shape) for v in _stored(graph)}
    sizes |= {v.name: prod(v.shape) for v in graph.made if isinstance(v, Value)}
    uses = _uses(fusion)
    chosen: list[Value] = []
    covered: set[Value] = set()
    for item in reversed(graph.made):
        if not isinstance(item, Inline) or item not in uses or item in covered:
            continue
        if item.is_view or item.node in inline:
            continue
        if _repeated(item, uses[item], sizes) or _is_statistic(item, uses[item]):
            chosen.append(item)
            covered |= _ancestors(item)
    return chosen


class _Use:
    """One region's computing of a value."""

    def __init__(self, expr: Expr, group: FusionGroup, overlaps: bool) -> None:
        self.expr = expr
        self.group = group
        self.overlaps = overlaps
        """An overlapping window reads it, so every element is computed several times."""


def _uses(fusion: Fusion) -> dict[Value, list[_Use]]:
    uses: dict[Value, list[_Use]] = {}
    for group in fusion.groups:
        windowed = {
            source
            for value in group.draft.evaluated
            if isinstance(value, Inline) and value.window
            for source in value.inputs
        }
        for value, expr in group.draft.evaluated.items():
            uses.setdefault(value, []).append(_Use(expr, group, value in windowed))
    return uses


def _repeated(value: Inline, uses: list[_Use], sizes: Mapping[str, int]) -> bool:
    """Return whether computing it per reader moves more bytes than writing it once and reading it."""
    elements = prod(value.shape)
    if len(uses) + any(use.overlaps for use in uses) < 2 or elements < MIN_ELEMENTS:
        return False
    found = list(walk([uses[0].expr]))
    read = {load.buffer: min(elements, sizes[load.buffer]) * BYTES[load.dtype] for load in loads(found)}
    heavy = sum(isinstance(e, Op) and e.name in TRANSCENDENTALS for e in found)
    work = any(isinstance(e, Op) for e in found)
    again = sum(read.values()) + elements * heavy * TRANSCENDENTAL_BYTES
    return work and again > 2 * elements * BYTES[value.dtype]


def _is_statistic(value: Inline, uses: list[_Use]) -> bool:
    """Return whether it is a small, slow function of another region's reduction (a norm's deviation)."""
    elements = prod(value.shape)
    for use in uses:
        small = elements * MUCH_SMALLER <= _points(use.group)
        if small and any(isinstance(e, Op) and e.name in SLOW for e in walk([use.expr])):
            reduced = set(_reductions_below(value))
            if reduced and not reduced & set(use.group.values):
                return True
    return False


def _reductions_below(value: Value) -> Iterator[Value]:
    for source in sources(value):
        if is_root(source):
            yield source
        else:
            yield from _reductions_below(source)


def _points(group: FusionGroup) -> int:
    sizes = {axis.name: axis.size for axis in group.draft.inner}
    inner = max(prod(sizes[name] for name in stage.axes) for stage in group.draft.stages)
    return prod(axis.size for axis in group.draft.kept) * inner


def _ancestors(value: Value) -> set[Value]:
    found: set[Value] = set()
    pending: list[Value] = [value]
    while pending:
        for source in sources(pending.pop()):
            if source not in found:
                found.add(source)
                pending.append(source)
    return found


def _stored(graph: Translation) -> Iterable[Stored]:
    return (v for v in graph.values.values() if isinstance(v, Stored))
