"""Decide which values share a region."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kernelwright.ir.lower.attention import attention_draft
from kernelwright.ir.lower.compose import Draft, RefusedError, compose
from kernelwright.ir.lower.recurrence import recurrence_draft
from kernelwright.ir.lower.translate import TranslatedNode
from kernelwright.ir.lower.values import (
    Attention,
    BlockedError,
    CellState,
    Recurrence,
    Reduce,
    Scan,
    Value,
    domain,
    placement,
    sources,
)
from kernelwright.ir.program import Expr

MAX_MEMBERS = 32
"""Values computed by one region."""
MAX_CANDIDATES = 6
"""Regions tried for one value, most recent first."""
Placement = tuple[str, tuple[int, ...]]
"""Buffer and strides."""
WORTH_SHARING = 128
"""Two results that read a tensor of at least this many elements get a common region."""


@dataclass(eq=False)
class FusionGroup:
    """Values that one region computes, producers first."""

    values: list[Value]
    draft: Draft
    number: int = 0


@dataclass
class Fusion:
    """Groups and steps with their dependencies."""

    groups: list[FusionGroup] = field(default_factory=list)
    order: list[FusionGroup | TranslatedNode] = field(default_factory=list)
    """In an order in which they can run."""


@dataclass
class MemoryPlan:
    """State shared by all attempts to fuse one graph."""

    interned: dict[Expr, Expr] = field(default_factory=dict)
    drafts: dict[tuple[tuple[Value, ...], frozenset[tuple[Value, Placement]]], Draft | None] = field(
        default_factory=dict
    )
    """Values, what they read from memory and where that is -> their region, None when they share none."""


class Fuser:
    """Assigns roots to groups, greedily and in the graph's order."""

    def __init__(
        self,
        roots: Collection[Value],
        stored: Iterable[Value],
        memory: MemoryPlan,
        apart: Collection[str] = (),
    ) -> None:
        self._memory = memory
        self._apart = apart
        self._stored = {v: placement(v) for v in [*stored, *roots]}
        self._frontiers: dict[Value, frozenset[Value]] = {}
        self._unit_of: dict[Value, int] = {}
        self._units: list[FusionGroup | TranslatedNode] = []
        self._before: list[int] = []
        """Per unit: bit set of the units that have to run before it."""

    def run(
        self, items: Iterable[Value | TranslatedNode], reads: Mapping[TranslatedNode, Sequence[Value]]
    ) -> Fusion:
        """Return the groups; ``reads`` are the values in memory that a step reads.

        Raises BlockedError when a value cannot be generated as things are.
        """
        for item in items:
            if isinstance(item, TranslatedNode):
                self._add(item, self._needs(reads[item]))
                for result in item.results:
                    if result is not None:
                        self._unit_of[result] = len(self._units) - 1
            else:
                self._place(item)
        groups = [unit for unit in self._units if isinstance(unit, FusionGroup)]
        return Fusion(groups, list(self._sorted()))

    def frontier(self, value: Value) -> frozenset[Value]:
        """Return the values in memory, or in stages, that computing a value reads."""
        if value not in self._frontiers:
            found: set[Value] = set()
            for source in sources(value):
                if source in self._stored:
                    found.add(source)
                else:
                    found |= self.frontier(source)
            self._frontiers[value] = frozenset(found)
        return self._frontiers[value]

    def _place(self, value: Value) -> None:
        if value in self._unit_of:  # a cell state, which its layer's region has
            return
        needs = self._needs(self.frontier(value))
        for number in self._candidates(value, needs):
            group = self._units[number]
            if isinstance(group, FusionGroup) and self._may_join(number, needs) and self._join(group, value):
                self._unit_of[value] = number
                self._require(number, needs & ~(1 << number))
                return
        values = [value, value.state] if isinstance(value, Recurrence) and value.state else [value]
        try:
            draft = self._draft(tuple(values)) or self._compose(values)
        except RefusedError as error:
            raise BlockedError(value, value, str(error)) from error
        self._add(FusionGroup(values, draft, len(self._units)), needs)
        self._unit_of.update(dict.fromkeys(values, len(self._units) - 1))

    def _join(self, group: FusionGroup, value: Value) -> bool:
        if len(group.values) >= MAX_MEMBERS:
            return False
        draft = self._draft((*group.values, value))
        if draft is None:
            return False
        if any(map(_is_product, (*group.values, value))) and not _is_with_each_sum(draft):
            return False
        group.values.append(value)
        group.draft = draft
        return True

    def _draft(self, values: tuple[Value, ...]) -> Draft | None:
        touched = {v for value in values for v in (value, *self.frontier(value))}
        key = (values, frozenset((v, placement(v)) for v in touched))
        if key not in self._memory.drafts:
            try:
                self._memory.drafts[key] = self._compose(values)
            except (RefusedError, BlockedError):
                self._memory.drafts[key] = None
        return self._memory.drafts[key]

    def _compose(self, values: Sequence[Value]) -> Draft:
        first, *others = values
        if isinstance(first, Recurrence) and others in ([], [first.state]):
            return recurrence_draft(first, self._stored, self._memory.interned)
        if isinstance(first, Attention) and not others:
            return attention_draft(first, self._stored, self._memory.interned)
        if any(isinstance(value, Attention | Recurrence) for value in values):
            raise RefusedError("attention and recurrent layers have regions of their own")
        return compose(values, self._stored, self._memory.interned)

    def _candidates(self, value: Value, needs: int) -> list[int]:
        producers = [n for n in range(len(self._units)) if needs >> n & 1]
        producers = [n for n in producers if isinstance(self._units[n], FusionGroup)]
        if value.node in self._apart:
            return [n for n in reversed(producers) if self._is_of_node(n, value.node)]
        recent = range(max(0, len(self._units) - 3 * MAX_CANDIDATES), len(self._units))
        siblings = [n for n in recent if n not in producers and self._shares_input(n, value)]
        return [*reversed(producers), *reversed(siblings)][:MAX_CANDIDATES]

    def _is_of_node(self, number: int, node: str) -> bool:
        unit = self._units[number]
        return isinstance(unit, FusionGroup) and unit.values[0].node == node

    def _shares_input(self, number: int, value: Value) -> bool:
        unit = self._units[number]
        if not isinstance(unit, FusionGroup) or _is_product(value) or any(map(_is_product, unit.values)):
            return False
        wanted = {v for v in self.frontier(value) if _elements(v) >= WORTH_SHARING}
        return any(domain(other) == domain(value) and wanted & self.frontier(other) for other in unit.values)

    def _needs(self, values: Iterable[Value]) -> int:
        bits = 0
        for value in values:
            if value in self._unit_of:
                bits |= 1 << self._unit_of[value]
        return bits

    def _closure(self, needs: int) -> int:
        bits = needs
        for n in range(len(self._units)):
            if needs >> n & 1:
                bits |= self._before[n]
        return bits

    def _may_join(self, number: int, needs: int) -> bool:
        """Return whether nothing that ``needs`` names has to run after the unit."""
        others = needs & ~(1 << number)
        return not any(others >> n & 1 and self._before[n] >> number & 1 for n in range(len(self._units)))

    def _require(self, number: int, needs: int) -> None:
        more = self._closure(needs)
        self._before[number] |= more
        for n in range(len(self._units)):
            if self._before[n] >> number & 1:
                self._before[n] |= more

    def _add(self, unit: FusionGroup | TranslatedNode, needs: int) -> None:
        self._units.append(unit)
        self._before.append(self._closure(needs))

    def _sorted(self) -> Iterator[FusionGroup | TranslatedNode]:
        done, waiting = 0, list(range(len(self._units)))
        while waiting:
            ready = next(n for n in waiting if self._before[n] & ~done == 0)
            waiting.remove(ready)
            done |= 1 << ready
            yield self._units[ready]


def _elements(value: Value) -> int:
    total = 1
    for size in value.shape:
        total *= size
    return total


def _is_product(value: Value) -> bool:
    return isinstance(value, Attention | Recurrence) or (isinstance(value, Reduce) and value.is_product)


def _is_with_each_sum(draft: Draft) -> bool:
    """Tell whether a region adds products up once, and does all else with each sum: so tiles can do it."""
    sums = [stage for stage in draft.stages if stage.kind != "map"]
    return len(sums) == 1 and not any(stage.axes for stage in draft.stages if stage.kind == "map")


def is_root(value: Value) -> bool:
    """Return whether a value is never computed again where it is read."""
    return isinstance(value, Reduce | Scan | Attention | Recurrence | CellState)
