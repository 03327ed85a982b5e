"""Where in a loop nest each value is computed: hoisted, bound to a variable, inlined or kept in scratch."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from kernelwright.ir.dag import COST_CACHED, Action, Dag, StageGroup
from kernelwright.ir.extents import Extent
from kernelwright.ir.normalise import axis_sizes
from kernelwright.ir.program import Affine
from kernelwright.ir.text import Names, bare
from kernelwright.ir.writer import Writer
from kernelwright.targets.cpp.choices import SCRATCH_BYTES, Choices
from kernelwright.targets.cpp.strided_loads import TransposedLoad
from kernelwright.targets.cpp.text import CTYPES, CppRenderer

LONG_TEXT = 70
"""Expressions longer than this get a variable of their own."""


@dataclass
class Loop:
    """A sequential loop around the lanes."""

    variable: str
    start: str
    stop: str
    count: int
    """Iterations."""
    step: int = 1
    axis: str | None = None
    """The axis that its variable runs along; None for a loop over blocks or chunks."""


@dataclass(frozen=True)
class Kept:
    """A value that one group leaves in scratch for a later one, at every inner point."""

    node: int
    axes: tuple[str, ...]
    group: int
    """The group that computes it."""
    name: str


class ValueWriter:
    """Decides where values live and writes their declarations."""

    def __init__(
        self, choices: Choices, dag: Dag, renderer: CppRenderer, names: Names, writer: Writer
    ) -> None:
        self.choices = choices
        self.dag = dag
        self.render = renderer
        self.names = names
        self.out = writer
        self.sizes = axis_sizes(choices.region)
        self.lane_axis = choices.lane_axis or ""
        self.lanes = "LANES" if choices.is_column else str(choices.lanes)
        """Text of the number of lanes."""
        self.lane_start = ""
        """Column form: text of the block's first point along the lane axis."""
        self.transposed: dict[TransposedLoad, str] = {}
        """Loads that lie in scratch, lanes side by side, with its name."""
        self.kept: list[Kept] = []
        self.merged: tuple[int, ...] = ()
        """Groups that are written together in one pass: they leave nothing in scratch."""

    # -- values that later groups need at the same inner point -------------------------------------

    def plan_kept(self) -> None:
        """Choose the values to keep and declare their scratch.

        Values of the earliest group come first, so that what it computes is not computed again inside a
        larger expression that only later groups share; within a group the largest expressions.
        """
        groups = self.dag.groups
        for number in self._by_first_use():
            users = [i for i, g in enumerate(groups) if i not in self.merged and number in self._needs(g)]
            if len(users) < 2 or not self._worth_keeping(number, [groups[i] for i in users]):
                continue
            group = groups[users[0]]
            if not self._fits_scratch(group.axes):
                continue
            kept = Kept(number, group.axes, users[0], self.names.new("kept"))
            self.kept.append(kept)
            size = str(self._points(group.axes))
            lanes = " * LANES" if self.choices.is_column else ""
            ctype = CTYPES[self.dag.nodes[number].dtype]
            self.out.line(f"alignas(64) {ctype} {kept.name}[{size}{lanes}];")

    def kept_place(self, kept: Kept) -> str:
        """Return the scratch element of the current point."""
        terms, stride = [], 1
        for axis in reversed(kept.axes):
            terms.append((axis, stride))
            stride *= self.sizes[axis]
        index = self.render.index(Affine(tuple(terms[::-1])))
        return f"{kept.name}[{_in_lanes(index) if self.choices.is_column else index}]"

    def transposed_place(self, load: TransposedLoad) -> str:
        """Return the scratch element of the current point."""
        point = self.render.axes[load.axis]
        return f"{self.transposed[load]}[{_in_lanes(f'{point} - {point}_start' if load.is_kept else point)}]"

    def transpose(self, loads: Iterable[TransposedLoad]) -> None:
        """Bring loads into scratch; along a kept axis from its point ``AXIS_start`` on."""
        for load in loads:
            node = self.dag.nodes[load.node]
            pointer, first = self.render.buffers[node.name], f"{self.render.axes[load.axis]}_start"
            name = self.transposed[load] = self.names.new(f"{pointer}_transposed")
            terms = tuple(term for term in node.index.terms if load.is_kept or term[0] != load.axis)
            with self.axis_at(self.lane_axis, self.lane_start), self.axis_at(load.axis, first):
                address = f"&{pointer}[{self.render.index(Affine(terms, node.index.offset))}]"
            size = self.sizes[load.axis]
            count = f"{load.count}" if size % load.count == 0 else f"least({load.count}, {size} - {first})"
            self.out.line(f"alignas(64) float {name}[{load.count} * LANES];")
            self.out.line(f"transpose_lanes<LANES>({address}, {load.step}, {count}, {name});")

    def _by_first_use(self) -> list[int]:
        first: dict[int, int] = {}
        for position, group in enumerate(self.dag.groups):
            if position not in self.merged:
                for number in self.dag.needed([a.node for a in group.actions]):
                    first.setdefault(number, position)
        return sorted(first, key=lambda number: (first[number], -number))

    def _cost(self, number: int) -> int:
        """Return the instruction count of an expression, kept values taken as known."""
        stops = frozenset(k.node for k in self.kept)
        return sum(self.dag.own_cost(n) for n in self.dag.needed([number], stops) - stops)

    def _needs(self, group: StageGroup) -> set[int]:
        stops = frozenset(k.node for k in self.kept)
        roots = [a.node for a in group.actions]
        return self.dag.needed(roots, stops)

    def _worth_keeping(self, number: int, users: list[StageGroup]) -> bool:
        node = self.dag.nodes[number]
        axes = users[0].axes
        if not axes or any(g.axes != axes for g in users) or not set(axes) <= self.dag.axes[number]:
            return False
        if node.kind == "scanned":
            return True
        is_costly = node.kind == "op" and self._cost(number) >= COST_CACHED
        return is_costly and self.choices.cache_rows

    def _points(self, axes: Iterable[str]) -> int:
        return math.prod(self.sizes[a] for a in axes)

    def _fits_scratch(self, axes: tuple[str, ...]) -> bool:
        if isinstance(self._points(axes), Extent):
            return False
        lanes = self.choices.lanes if self.choices.is_column else 1
        return self._points(axes) * lanes * 4 * (len(self.kept) + 1) <= SCRATCH_BYTES

    # -- values bound to variables -----------------------------------------------------------------

    def level(self, number: int, loops: Sequence[Loop]) -> int:
        """Return at which depth a value is first known; lanes are one deeper than the last loop."""
        axes = self.dag.axes[number]
        if self.lane_axis in axes:
            return len(loops) + 1
        return max((i + 1 for i, loop in enumerate(loops) if loop.axis in axes), default=0)

    def bind_level(self, group: StageGroup, level: int, loops: Sequence[Loop]) -> None:
        """Compute what deeper levels need and what depends on nothing deeper than this one."""
        self._bind(group.actions, lambda number: self.level(number, loops) == level)

    def bind_all(self, actions: Sequence[Action]) -> None:
        """Compute everything that is used more than once or too long to stand in one line."""
        self._bind(actions, lambda number: True)

    def _bind(self, actions: Sequence[Action], here: Callable[[int], bool]) -> None:
        roots = [a.node for a in actions]
        needed = self.render.needed(roots)
        uses = dict.fromkeys(needed, 0)
        from_deeper: set[int] = set()
        for number in needed:
            for arg in self.render.live_args(number):
                uses[arg] = uses.get(arg, 0) + 1
                if not here(number):
                    from_deeper.add(arg)
        for root in roots:
            uses[root] = uses.get(root, 0) + 1
        chosen = self._loads_of_choices(needed)
        for number in sorted(needed):
            if not here(number) or self._is_trivial(number):
                continue
            text = self.render.text(number)
            if uses[number] > 1 or number in from_deeper or number in chosen or len(text) > LONG_TEXT:
                self._declare(number, text)

    def _loads_of_choices(self, needed: set[int]) -> set[int]:
        """Return unguarded loads below a ``where``: done always, lest the compiler branch around them."""
        nodes = self.dag.nodes
        below = [
            a for n in needed if nodes[n].kind == "op" and nodes[n].name == "where" for a in nodes[n].args
        ]
        return {n for n in self.dag.needed(below) & needed if nodes[n].kind == "load" and not nodes[n].args}

    def _declare(self, number: int, text: str) -> None:
        node = self.dag.nodes[number]
        stem = {"load": f"{self.render.buffers.get(node.name, 'x')}_at", "bound": "inside"}.get(
            node.kind, node.name + "_at"
        )
        name = self.names.new(stem)
        self.out.line(f"const {CTYPES[node.dtype]} {name} = {bare(text)};")
        self.render.bind(number, name)

    def _is_trivial(self, number: int) -> bool:
        node = self.dag.nodes[number]
        return node.kind in ("const", "index", "reduced", "scanned") or self.render.always_holds(number)

    # -- column form: values per lane that no loop changes -----------------------------------------

    def hoist_lane_values(self, group: StageGroup) -> None:
        """Compute costly values that depend on the lane alone once per lane, before the loops."""
        if not self.choices.is_column or not group.axes:
            return
        roots = [a.node for a in group.actions]
        needed = self.render.needed(roots)
        fixed = {
            n for n in needed if self.lane_axis in self.dag.axes[n] and not self.dag.axes[n] & set(group.axes)
        }
        used_inside = {arg for n in needed - fixed for arg in self.render.live_args(n)} | set(roots)
        for number in sorted(fixed & used_inside):
            if self.dag.nodes[number].kind == "op" and self.dag.cost(number) > 1:
                self._lane_array(number)

    def _lane_array(self, number: int) -> None:
        node = self.dag.nodes[number]
        name = self.names.new(node.name + "_each")
        self.out.line(f"{CTYPES[node.dtype]} {name}[LANES];")
        self.pragma_simd()
        head = "for (int l = 0; l < LANES; ++l)"
        with self.out.block(head), self.lane_position(f"{self.lane_start} + l"):
            self.out.line(f"{name}[l] = {bare(self.render.text(number))};")
        self.render.bind(number, f"{name}[l]")

    @contextmanager
    def axis_at(self, axis: str, text: str) -> Iterator[None]:
        """Let indices be printed for another place on an axis."""
        saved = self.render.axes[axis]
        self.render.axes[axis] = text
        yield
        self.render.axes[axis] = saved

    def lane_position(self, place: str) -> AbstractContextManager[None]:
        """Define the position along the vector axis, if what is written inside uses it."""
        variable = self.render.axes[self.lane_axis]
        return self.out.definition(variable, f"const int {variable} = {place};")

    def pragma_simd(self) -> None:
        """Ask for vectors."""
        width = f" simdlen({self.choices.simdlen})" if self.choices.simdlen else ""
        self.out.line(f"#pragma omp simd{width}")


def _in_lanes(point: str) -> str:
    """Return the index of a point's element for the current lane."""
    return f"{point if point.isidentifier() else f'({point})'} * LANES + l"
