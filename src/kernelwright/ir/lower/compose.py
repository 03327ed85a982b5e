"""Arranges values as the stages of one region, or finds that they do not fit together.

Every value starts with loop axes of its own, one per dimension. Reading another value of the region
at some index identifies axes of both; axes are split until the identification is one to one.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kernelwright.ir import dag
from kernelwright.ir.lower.affine import (
    Index,
    NeedSplitError,
    contiguous_strides,
    flatten,
    linear,
    refine,
)
from kernelwright.ir.lower.reader import StageReader
from kernelwright.ir.lower.values import Inline, Reader, Reduce, Scan, Value, domain, placement
from kernelwright.ir.program import Affine, Axis, DType, Expr, LoopStage, StoreTo

MAX_SPLITS = 40
"""Splits tried for one region; reshapes of real models need fewer than ten."""


class RefusedError(Exception):
    """The values cannot share a region."""


@dataclass(frozen=True)
class Draft:
    """A region whose stages all store; the planner drops the stores that nobody needs."""

    kept: tuple[Axis, ...]
    inner: tuple[Axis, ...]
    stages: tuple[LoopStage, ...]
    evaluated: Mapping[Value, Expr]
    """Values computed inside the stages without being stages."""
    sequence: str | None = None
    """As ``Region.sequence``."""


@dataclass
class _Member:
    """One value of the region and the axes its domain is iterated by."""

    value: Value
    tag: str
    factors: list[list[int]] = field(default_factory=list)
    """Per dimension of the domain: sizes of its axes, outermost first; a dimension of size 1 has none."""

    def names(self, dim: int) -> list[str]:
        return [f"{self.tag}.{dim}.{k}" for k in range(len(self.factors[dim]))]

    def inner_dims(self) -> tuple[int, ...]:
        if isinstance(self.value, Reduce):
            return self.value.dims
        return (self.value.dim,) if isinstance(self.value, Scan) else ()

    def axes(self, *, inner: bool | None = None) -> list[str]:
        wanted = [d for d in range(len(self.factors)) if inner is None or (d in self.inner_dims()) == inner]
        return [name for d in wanted for name in self.names(d)]

    def result_dims(self) -> list[int]:
        """Dimensions of the domain that the value's shape has."""
        gone = self.value.dims if isinstance(self.value, Reduce) else ()
        return [d for d in range(len(self.factors)) if d not in gone]

    def split(self, axis: str, sizes: Sequence[int]) -> None:
        _, dim, position = axis.rsplit(".", 2)
        self.factors[int(dim)][int(position) : int(position) + 1] = list(sizes)


class _SplitError(Exception):
    """An axis was split, so all values must be arranged again."""


def compose(
    values: Sequence[Value],
    stored: Mapping[Value, tuple[str, tuple[int, ...]]],
    interned: dict[Expr, Expr],
) -> Draft:
    """Return the region of ``values`` (producers first).

    Raises RefusedError when they need different loops, BlockedError when a value that is read must be
    stored first.
    """
    members = {
        v: _Member(v, f"m{k}", [[n] if n > 1 else [] for n in domain(v)]) for k, v in enumerate(values)
    }
    for _ in range(MAX_SPLITS):
        try:
            return _Layout(members, stored, interned).draft()
        except _SplitError:
            continue
    raise RefusedError("the axes keep splitting")


class _Layout:
    """One attempt with fixed axes; raises _SplitError after having split one."""

    def __init__(
        self,
        members: Mapping[Value, _Member],
        stored: Mapping[Value, tuple[str, tuple[int, ...]]],
        interned: dict[Expr, Expr],
    ) -> None:
        self._members = members
        self._stored = stored
        self._interned = interned
        self._size = {
            name: size
            for m in members.values()
            for d, sizes in enumerate(m.factors)
            for name, size in zip(m.names(d), sizes, strict=True)
        }
        self._parent = {name: name for name in self._size}

    def draft(self) -> Draft:
        self._identify_accesses()
        kept, inner, stage_axes = self._arrange()
        final = {n: f"i{k}" for k, n in enumerate(kept)} | {n: f"r{k}" for k, n in enumerate(inner)}
        evaluated: dict[Value, Expr] = {}
        stages = []
        for value, member in self._members.items():
            reader = self._reader(value, {final[c]: self._size[c] for c in final})
            index = self._index(member, lambda name: final[self._find(name)])
            axes = tuple(final[c] for c in stage_axes[value])
            stages.append(self._stage(member, _expression(reader, value, index), index, axes))
            evaluated |= {v: e for v, e in reader.evaluated.items() if v is not value}
        if dag.reads_scan_later(tuple(stages)):
            raise RefusedError("a scan is read after a reduction: its values are kept in memory between")
        return Draft(
            tuple(Axis(final[c], self._size[c]) for c in kept),
            tuple(Axis(final[c], self._size[c]) for c in inner),
            tuple(stages),
            evaluated,
        )

    def _stage(self, member: _Member, expr: Expr, index: Index, axes: tuple[str, ...]) -> LoopStage:
        value = member.value
        result = [index[d] for d in member.result_dims()]
        store = StoreTo(value.name, flatten(result, placement(value)[1]))
        dtype: DType = value.dtype  # type: ignore[assignment]  # only Stored values have other dtypes
        if isinstance(value, Reduce):
            position = value.position(index) if value.position else None
            return LoopStage(
                value.name, "reduce", axes, expr, dtype, value.combine, position, stores=(store,)
            )
        if isinstance(value, Scan):
            along = axes[0] if axes else None
            return LoopStage(
                value.name, "scan", axes, expr, dtype, value.combine, None, along, value.reverse, (store,)
            )
        return LoopStage(value.name, "map", axes, expr, dtype, stores=(store,))

    def _reader(self, value: Value, sizes: Mapping[str, int]) -> StageReader:
        reader = StageReader(self._stored, self._members, value, self._interned)
        reader.sizes.update(sizes)
        return reader

    def _index(self, member: _Member, name_of: Callable[[str], str]) -> Index:
        parts = []
        for dim, sizes in enumerate(member.factors):
            strides = contiguous_strides(sizes)
            parts.append(linear({name_of(n): s for n, s in zip(member.names(dim), strides, strict=True)}))
        return tuple(parts)

    def _identify_accesses(self) -> None:
        for value, member in self._members.items():
            reader = self._reader(value, {n: self._size[n] for n in member.axes()})
            try:
                _expression(reader, value, self._index(member, str))
            except NeedSplitError as need:
                if need.axis.startswith("@"):
                    raise RefusedError(str(need)) from need
                size = self._size[need.axis]
                member.split(need.axis, (size // need.factor, need.factor))
                raise _SplitError from need
            for target, index in reader.accesses:
                self._identify(self._members[target], index)

    def _identify(self, target: _Member, index: Index) -> None:
        for part, dim in zip(index, target.result_dims(), strict=True):
            mine = self._digits(part, domain(target.value)[dim])
            aligned = mine is not None and self._align(mine, target.names(dim))
            if not aligned and not isinstance(target.value, Inline):
                raise RefusedError(f"{target.value.name} is read at another point")

    def _digits(self, part: Affine, size: int) -> list[str] | None:
        """Return the axes whose mixed-radix number ``part`` is; None when it is not one."""
        step, names = 1, []
        for name, coefficient in sorted(part.terms, key=lambda term: term[1]):
            if coefficient != step or name.startswith("@"):
                return None
            names.append(name)
            step *= self._size[name]
        return list(reversed(names)) if step == size and part.offset == 0 else None

    def _align(self, left: Sequence[str], right: Sequence[str]) -> bool:
        """Identify two row-major lists of axes, splitting where they differ; False when impossible."""
        common = refine([self._size[n] for n in left], [self._size[n] for n in right])
        if common is None:
            return False
        changed = [self._split_to(names, common) for names in (left, right)]
        if any(changed):
            raise _SplitError
        for a, b in zip(left, right, strict=True):
            self._parent[self._find(a)] = self._find(b)
        return True

    def _split_to(self, names: Sequence[str], common: Sequence[int]) -> bool:
        sizes = iter(common)
        pieces = []
        for name in names:
            taken, product = [], 1
            while product < self._size[name]:
                taken.append(next(sizes))
                product *= taken[-1]
            pieces.append((name, taken))
        # Within one dimension later positions shift when an earlier axis splits: go from the back.
        for name, taken in reversed(pieces):
            if len(taken) > 1:
                self._owner(name).split(name, taken)
        # Classes that were already identified split together on the next attempt, through their accesses.
        return any(len(taken) > 1 for _, taken in pieces)

    def _owner(self, name: str) -> _Member:
        tag = name.split(".", 1)[0]
        return next(m for m in self._members.values() if m.tag == tag)

    def _find(self, name: str) -> str:
        while self._parent[name] != name:
            name = self._parent[name]
        return name

    def _arrange(self) -> tuple[list[str], list[str], dict[Value, list[str]]]:
        """Return the classes of kept and inner axes, and each stage's inner classes."""
        members = list(self._members.values())
        seed = next((m for m in members if not isinstance(m.value, Inline)), members[0])
        is_map = isinstance(seed.value, Inline)
        kept_names = seed.axes(inner=None if is_map else False)
        inner_names = [] if is_map else seed.axes(inner=True)
        for member in members:
            if member is not seed:
                self._fit(member, seed, kept_names, inner_names)
        kept = [self._find(n) for n in kept_names]
        inner: list[str] = []
        stage_axes: dict[Value, list[str]] = {}
        for member in [seed, *members]:
            classes = [self._find(n) for n in member.axes()]
            mine = [c for c in classes if c not in kept]
            _check(member, classes, kept, mine)
            inner += [c for c in mine if c not in inner]
            stage_axes[member.value] = mine
        self._check_points(kept, stage_axes)
        return kept, inner, {v: [c for c in inner if c in axes] for v, axes in stage_axes.items()}

    def _fit(self, member: _Member, seed: _Member, kept_names: list[str], inner_names: list[str]) -> None:
        """Identify a member's axes with the region's kept axes, then with its inner axes if they agree."""
        is_map = isinstance(member.value, Inline)
        outer = member.axes(inner=None if is_map else False)
        free, missing = self._unmatched(outer, kept_names)
        if missing:
            apart = len(missing) == len(kept_names) and domain(member.value) == domain(seed.value)
            if is_map and apart and inner_names:
                for dim in range(len(member.factors)):
                    self._align(member.names(dim), seed.names(dim))
            elif not self._align(free, missing):
                raise RefusedError("the kept points differ")
        mine = [n for n in member.axes() if not self._is_among(n, kept_names)]
        free, missing = self._unmatched(mine, inner_names)
        if not missing or not self._align(free, missing):
            inner_names += free

    def _unmatched(self, names: Sequence[str], region: Sequence[str]) -> tuple[list[str], list[str]]:
        classes = {self._find(n) for n in names}
        return (
            [n for n in names if not self._is_among(n, region)],
            [n for n in region if self._find(n) not in classes],
        )

    def _is_among(self, name: str, names: Sequence[str]) -> bool:
        return self._find(name) in {self._find(n) for n in names}

    def _check_points(self, kept: Sequence[str], stage_axes: Mapping[Value, list[str]]) -> None:
        """Refuse maps over a whole tensor at a single kept point: alone they run in parallel."""
        for value, axes in stage_axes.items():
            if isinstance(value, Inline) and axes and not kept:
                raise RefusedError("one kept point")
        if len({value.reverse for value in self._members if isinstance(value, Scan)}) > 1:
            raise RefusedError("scans of both directions")
        for value, member in self._members.items():
            for scan in _scans_read(value, self._members):
                if stage_axes[scan] != stage_axes[member.value]:
                    raise RefusedError("a scan is read over other axes")


def _check(member: _Member, classes: Sequence[str], kept: Sequence[str], mine: Sequence[str]) -> None:
    if len(set(classes)) != len(classes):
        raise RefusedError(f"{member.value.name} is read along a diagonal")
    if len(classes) - len(mine) != len(kept):
        raise RefusedError(f"{member.value.name} lacks a kept axis")
    expected = len(member.axes(inner=True))
    if not isinstance(member.value, Inline) and len(mine) != expected:
        raise RefusedError(f"{member.value.name} combines over other axes")
    if isinstance(member.value, Scan) and expected != 1:
        raise RefusedError("a scan along a split axis")


def _scans_read(value: Value, members: Mapping[Value, _Member]) -> Iterator[Scan]:
    seen: set[Value] = set()
    pending = [value]
    while pending:
        current = pending.pop()
        for source in _direct(current):
            if isinstance(source, Scan) and source in members:
                yield source
            elif isinstance(source, Inline) and source not in seen:
                seen.add(source)
                pending.append(source)


def _direct(value: Value) -> tuple[Value, ...]:
    return value.inputs if isinstance(value, Inline) else (value.source,)  # type: ignore[attr-defined]


def _expression(reader: Reader, value: Value, index: Index) -> Expr:
    if isinstance(value, Reduce | Scan):
        return reader.read(value.source, index)
    assert isinstance(value, Inline)
    return value.compute(reader, index)
