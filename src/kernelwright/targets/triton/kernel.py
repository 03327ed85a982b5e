"""One region as one Triton kernel: the tile, the loops over inner points, the stages inside them."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from kernelwright.ir.dag import Action, Dag, StageGroup
from kernelwright.ir.normalise import axis_sizes
from kernelwright.ir.patterns import Moments, Online, find_moments, find_online
from kernelwright.ir.program import LoopStage, StoreTo
from kernelwright.ir.text import bare, extent
from kernelwright.targets.triton.reducer import Reducer
from kernelwright.targets.triton.schedule import Decided, power_of_two
from kernelwright.targets.triton.text import REPEATS, Flat, PythonNames, TritonRenderer, joined
from kernelwright.targets.triton.writer import PythonWriter

LONG_TEXT = 76
"""Expressions longer than this get a variable of their own."""
UNROLLED_POINTS = 16
"""Windows up to this size are unrolled."""


@dataclass(frozen=True)
class Running:
    """A reduction or scan under way."""

    stage: LoopStage
    node: int
    """What is combined."""
    how: Reducer
    name: str
    """Its accumulator."""


class KernelWriter:
    """Writes the body of one kernel; ``constants`` then holds its block sizes by name."""

    def __init__(self, decided: Decided, pointers: Mapping[str, str]) -> None:
        self.how = decided
        self.region = decided.region
        self.dag = Dag(decided.region)
        self.groups = self.dag.groups
        self.sizes = axis_sizes(self.region)
        self.inner = frozenset(axis.name for axis in self.region.inner)
        self.pointers = dict(pointers)
        """Buffer -> parameter."""
        self.constants: dict[str, int] = {}
        self.out = PythonWriter(1)
        self.names = PythonNames(
            [*self.pointers.values(), "BLOCK", "LANES", "STEP", "start", "step", "block"]
        )
        self.stack = ExitStack()
        """Definitions that last to the kernel's end, dropped there where nothing used them."""
        ranges = {axis: (0, size - 1) for axis, size in self.sizes.items()}
        self.render = TritonRenderer(self.dag, self.pointers, {}, ranges, self.sizes)
        self.kept: Flat | None = None
        self.tiles: dict[tuple[str, ...], tuple[Flat, dict[str, str], dict[int, str]]] = {}
        """Inner axes -> what a tile over all of them is called, and the values known there."""
        self.is_wide = self._is_wide()
        self.written: set[str] = set()
        self.results: dict[str, str] = {}
        """Stage -> variable of what it reduced to."""

    def body(self) -> list[str]:
        """Return the lines."""
        with self.stack:
            if self.how.programs:
                head = f"for block in range(tl.program_id(0), {self.how.blocks}, {self.how.programs})"
                self.stack.enter_context(self.out.block(head))
            self._kept_head()
            pair = self._pair()
            for position, group in enumerate(self.groups):
                if pair is not None and position in pair[:2]:
                    if position == pair.first:
                        self._write_pair(pair)
                    continue
                self._barrier(group)
                self._group(position, group)
        return self.out.lines

    # -- kept points -------------------------------------------------------------------------------

    def _kept_head(self) -> None:
        axes = tuple(axis.name for axis in self.region.kept)
        block = "block" if self.how.programs else "tl.program_id(0)"
        if self.is_wide:
            block = "tl.cast(block, tl.int64)" if self.how.programs else "tl.program_id(0).to(tl.int64)"
        name = self.names.new(axes[0] if len(axes) == 1 else "point")
        if self.how.form == "row":
            self.kept = None
            if axes:
                self._define(name, block)
                self._decompose(name, axes, self.stack, self.render.axes)
                self.render.flats = [Flat(name, axes, "")]  # for the text of indices alone
            return
        self.constants["BLOCK"] = self.how.block_kept
        dim = "[:, None]" if self.how.form == "block" else ""
        self._define(name, f"{block} * BLOCK + tl.arange(0, BLOCK){dim}")
        mask = self.names.new(f"{name}_ok")
        self._define(mask, f"{name} < {self.how.kept_points}")
        self._decompose(name, axes, self.stack, self.render.axes)
        self.kept = Flat(name, axes, mask)
        self.render.flats = [self.kept]

    def _define(self, name: str, value: str, stack: ExitStack | None = None) -> None:
        """Write ``name = value``, to be dropped at the end of the block where nothing used it."""
        (stack or self.stack).enter_context(self.out.definition(name, f"{name} = {value}"))

    def _decompose(self, flat: str, axes: Sequence[str], stack: ExitStack, into: dict[str, str]) -> None:
        """Define each axis's own position in terms of the flat one."""
        if len(axes) == 1:
            into[axes[0]] = flat
            return
        step = 1
        for position, axis in reversed(list(enumerate(axes))):
            text = flat if step == 1 else f"{flat} // {step}"
            step *= self.sizes[axis]
            text = text if position == 0 else f"{text} % {self.sizes[axis]}"
            into[axis] = self.names.new(axis)
            self._define(into[axis], text, stack)

    def _is_wide(self) -> bool:
        """True when some index does not fit 32 bits."""
        indices = [n.index for n in self.dag.nodes]
        indices += [a.store.index for g in self.groups for a in g.stores if a.store is not None]
        largest = max((abs(e) for i in indices for e in extent(i, self.render.ranges)), default=0)
        return max(largest, self.how.blocks * self.how.block_kept) >= 2**31

    # -- one group ---------------------------------------------------------------------------------

    def _group(self, position: int, group: StageGroup) -> None:
        self._bind_kept(group)
        if not group.axes:
            self._straight(group.actions)
        elif self.how.form == "flat":
            self._points(group)
        elif self._points_of(group.axes) <= self.how.block_inner:
            self._whole(group)
        else:
            self._steps(position, group)

    def _points_of(self, axes: Iterable[str]) -> int:
        return math.prod(self.sizes[a] for a in axes)

    def _barrier(self, group: StageGroup) -> None:
        """Wait for values that other threads of the program stored."""
        used = self._closure([a.node for a in group.actions])
        if any(self.dag.nodes[n].kind == "load" and self.dag.nodes[n].name in self.written for n in used):
            self.out.line("tl.debug_barrier()  # reads what was stored above")
        self.written |= {a.store.buffer for a in group.stores if a.store is not None}

    def _straight(self, actions: Sequence[Action]) -> None:
        """Write stores of values that need no inner point."""
        for action in actions:
            if action.store is not None:
                self._store(action.node, action.store, ())

    def _whole(self, group: StageGroup) -> None:
        """Write a group whose inner points are all in the tile."""
        with self._whole_tile(group.axes) as flat:
            again = self._needed_again(group)
            self._bind(group.actions, lambda number: True, lambda n: self._scan_tile(n, flat), again)
            for action in group.actions:
                if action.kind == "reduce":
                    self._reduce_tile(action, flat)
                elif action.store is not None:
                    self._store(action.node, action.store, group.axes)
        for action in group.reduces:
            self._bind_result(action.stage)

    def _reduce_tile(self, action: Action, flat: Flat) -> None:
        how = Reducer(action.stage.combine or "sum", action.stage.dtype)
        name = self._name_result(action.stage)
        value = self._masked(action.node, how, flat)
        self.out.line(f"{name} = {how.over(value, self._dim, keep=self._keeps)}")

    def _masked(self, node: int, how: Reducer, flat: Flat) -> str:
        value = how.taken(bare(self.render.text(node)), self.dag.nodes[node].dtype)
        return f"tl.where({flat.mask}, {value}, {how.start})"

    @property
    def _dim(self) -> int:
        return 1 if self.how.form == "block" else 0

    @property
    def _keeps(self) -> bool:
        return self.how.form == "block"

    # -- steps over a long row ---------------------------------------------------------------------

    def _steps(self, position: int, group: StageGroup) -> None:
        """Write a loop over the inner points, so many at a time."""
        runs = self._begin(group, self._tile_shape())
        carries = self._carries(group, [self.how.block_kept, 1] if self._keeps else [])
        scans = [c.stage for c in carries.values()]
        reverse = any(s.reverse for s in scans)
        with self._loop(group.axes, reverse=reverse) as flat:
            self._set_policy(position, group)
            self._bind(group.actions, lambda number: True, lambda n: self._scan_step(n, flat, carries))
            for action in group.actions:
                if action.store is not None:
                    self._store(action.node, action.store, group.axes)
            for run in runs:
                self.out.line(run.how.step(run.name, self._masked(run.node, run.how, flat)))
            self.render.policy = {}
        for run in runs:
            name = self._name_result(run.stage)
            self.out.line(f"{name} = {run.how.over(run.name, self._dim, keep=self._keeps)}")
            self._bind_result(run.stage)

    def _tile_shape(self) -> list[int]:
        self.constants["STEP"] = self.how.block_inner
        return [self.how.block_kept, self.how.block_inner] if self._keeps else [self.how.block_inner]

    def _shape_text(self, shape: Sequence[int]) -> str:
        if not shape:
            return "()"
        if self.how.form == "flat":
            return "[BLOCK]"
        if self.how.form == "row":
            return "[STEP]"
        return f"[BLOCK, {'STEP' if shape[1] != 1 or self.how.block_inner == 1 else 1}]"

    def _begin(self, group: StageGroup, shape: Sequence[int], suffix: str = "_parts") -> list[Running]:
        """Write the start of every reduction of a group."""
        runs = []
        for action in group.reduces:
            how = Reducer(action.stage.combine or "sum", action.stage.dtype)
            name = self.names.new(self._stem(action.stage) + suffix)
            self.out.line(f"{name} = tl.full({self._shape_text(shape)}, {how.start}, {how.type_text})")
            runs.append(Running(action.stage, action.node, how, name))
        return runs

    def _set_policy(self, position: int, group: StageGroup) -> None:
        """Rows that a later pass reads again should stay in the cache; the last reading lets them go."""
        if not self.how.hints:
            return
        loads = self._loads(group)
        later = {b for g in self.groups[position + 1 :] if g.axes == group.axes for b in self._loads(g)}
        earlier = {b for g in self.groups[:position] if g.axes == group.axes for b in self._loads(g)}
        for buffer in sorted(loads & (later | earlier)):
            self.render.policy[buffer] = "evict_last" if buffer in later else "evict_first"

    def _loads(self, group: StageGroup) -> set[str]:
        nodes = (self.dag.nodes[n] for n in self._closure([a.node for a in group.actions]))
        return {n.name for n in nodes if n.kind == "load" and self.inner & {a for a, _ in n.index.terms}}

    @contextmanager
    def _loop(self, axes: tuple[str, ...], *, reverse: bool = False) -> Iterator[Flat]:
        """Open a loop over tiles of the inner points."""
        self.constants["STEP"] = self.how.block_inner
        count = self._points_of(axes)
        steps = -(-count // self.how.block_inner)
        if reverse:
            head, first = f"for step in range({steps})", f"({steps - 1} - step) * STEP"
        else:
            stages = f", num_stages={self.how.num_stages}" if self.how.num_stages > 1 else ""
            loop = f"tl.range(0, {count}, STEP{stages})" if stages else f"range(0, {count}, STEP)"
            head, first = f"for start in {loop}", "start"
        with (
            self.out.block(head),
            self.names.scope(),
            self.render.scope(),
            ExitStack() as stack,
        ):
            names: dict[str, str] = {}
            flat = self._lanes(axes, f"{first} + ", "STEP", stack, names)
            with self._inner_names(names, [flat]):
                yield flat

    @contextmanager
    def _whole_tile(self, axes: tuple[str, ...]) -> Iterator[Flat]:
        """Go back to the tile over all points of these axes; defined at its first use."""
        if axes not in self.tiles:
            constant = f"LANES_{len(self.tiles) + 1}" if self.tiles else "LANES"
            self.constants[constant] = power_of_two(self._points_of(axes))
            names: dict[str, str] = {}
            flat = self._lanes(axes, "", constant, self.stack, names)
            self.tiles[axes] = (flat, names, {})
        flat, names, known = self.tiles[axes]
        self.render.scopes.append(known)
        with self._inner_names(names, [flat]):
            yield flat
        self.render.scopes.pop()

    def _lanes(
        self, axes: tuple[str, ...], first: str, constant: str, stack: ExitStack, names: dict[str, str]
    ) -> Flat:
        name = self.names.new(axes[0] if len(axes) == 1 else "lane")
        lanes = f"tl.arange(0, {constant})" + ("[None, :]" if self._keeps else "")
        self._define(name, first + (f"{lanes}.to(tl.int64)" if self.is_wide else lanes), stack)
        mask = self.names.new(f"{name}_ok")
        self._define(mask, f"{name} < {self._points_of(axes)}", stack)
        self._decompose(name, axes, stack, names)
        return Flat(name, axes, mask)

    @contextmanager
    def _inner_names(self, names: dict[str, str], flats: list[Flat]) -> Iterator[None]:
        axes, before = dict(self.render.axes), list(self.render.flats)
        self.render.axes.update(names)
        self.render.flats = [*before, *flats]
        yield
        self.render.axes, self.render.flats = axes, before

    # -- point by point ----------------------------------------------------------------------------

    def _points(self, group: StageGroup) -> None:
        """Write loops over single inner points around a vector of kept points."""
        scans = self._scans_of(group)
        along = next((s.scan_axis for s in scans), None)
        order = [a for a in group.axes if a != along] + ([along] if along else [])
        runs = self._begin(group, [self.how.block_kept], suffix="")
        is_small = self._points_of(order) <= UNROLLED_POINTS
        self.render.serial = frozenset(order)
        with ExitStack() as stack:
            stack.enter_context(self.names.scope())
            stack.enter_context(self.render.scope())
            carries: dict[int, Running] = {}
            for axis in order:
                if axis == along or (along is None and axis == order[-1]):
                    carries = self._carries(group, [self.how.block_kept])
                self._point_loop(
                    axis, stack, unroll=is_small, reverse=any(s.reverse for s in scans) and axis == along
                )
            self._bind(group.actions, lambda number: True, lambda n: self._scan_point(n, carries))
            for action in group.actions:
                if action.store is not None:
                    self._store(action.node, action.store, group.axes)
            for run in runs:
                value = run.how.taken(bare(self.render.text(run.node)), self.dag.nodes[run.node].dtype)
                self.out.line(run.how.step(run.name, value))
        self.render.serial = frozenset()
        for run in runs:
            name = run.name
            if run.how.is_logical:
                name = self._name_result(run.stage)
                self.out.line(f"{name} = {run.name} != 0")
            self.results[run.stage.name] = name
            self._bind_result(run.stage)

    def _point_loop(self, axis: str, stack: ExitStack, *, unroll: bool, reverse: bool) -> None:
        size, name = self.sizes[axis], self.names.new(axis)
        before = self.render.axes.get(axis)
        stack.callback(lambda: self._restore_axis(axis, before))
        self.render.axes[axis] = name
        loop = "tl.static_range" if unroll else "range"
        if not reverse and not self.is_wide:
            stack.enter_context(self.out.block(f"for {name} in {loop}({size})"))
            return
        stack.enter_context(self.out.block(f"for {name}_step in {loop}({size})"))
        place = f"{size - 1} - {name}_step" if reverse else f"{name}_step"
        self.out.line(f"{name} = {f'tl.cast({place}, tl.int64)' if self.is_wide else place}")

    def _restore_axis(self, axis: str, before: str | None) -> None:
        if before is None:
            self.render.axes.pop(axis, None)
        else:
            self.render.axes[axis] = before

    # -- scans -------------------------------------------------------------------------------------

    def _scans_of(self, group: StageGroup) -> list[LoopStage]:
        used = self._closure([a.node for a in group.actions])
        wanted = {self.dag.nodes[n].name for n in used if self.dag.nodes[n].kind == "scanned"}
        wanted |= {a.stage.name for a in group.scans}
        return [s for s in self.region.stages if s.name in wanted]

    def _carries(self, group: StageGroup, shape: Sequence[int]) -> dict[int, Running]:
        """Write the start of every scan that a loop needs; by the node of its value."""
        found: dict[int, Running] = {}
        for stage in self._scans_of(group):
            how = Reducer(stage.combine or "sum", stage.dtype)
            name = self.names.new(self._stem(stage))
            self.out.line(f"{name} = tl.full({self._shape_text(shape)}, {how.start}, {how.type_text})")
            found[self._leaf(stage)] = Running(stage, self._scanned_node(stage), how, name)
        return found

    def _scan_tile(self, number: int, flat: Flat) -> None:
        stage = self._stage(number)
        how = Reducer(stage.combine or "sum", stage.dtype)
        value = self._masked(self._scanned_node(stage), how, flat)
        name = self.names.new(self._stem(stage))
        self.out.line(f"{name} = {how.scan(value, self._dim, reverse=stage.reverse)}")
        self.render.bind(number, name)

    def _scan_step(self, number: int, flat: Flat, carries: dict[int, Running]) -> None:
        run = carries[number]
        value, name = self.names.new(f"{run.name}_in"), self.names.new(f"{run.name}_at")
        self.out.line(f"{value} = {self._masked(run.node, run.how, flat)}")
        self.out.line(f"{name} = {run.how.scan(value, self._dim, reverse=run.stage.reverse)}")
        self.out.line(run.how.step(name, run.name))
        self.out.line(run.how.step(run.name, run.how.over(value, self._dim, keep=self._keeps)))
        self.render.bind(number, name)

    def _scan_point(self, number: int, carries: dict[int, Running]) -> None:
        run = carries[number]
        value = run.how.taken(bare(self.render.text(run.node)), self.dag.nodes[run.node].dtype)
        self.out.line(run.how.step(run.name, value))
        self.render.bind(number, run.name)

    def _stage(self, number: int) -> LoopStage:
        return next(s for s in self.region.stages if s.name == self.dag.nodes[number].name)

    def _scanned_node(self, stage: LoopStage) -> int:
        return next(a.node for g in self.groups for a in g.scans if a.stage.name == stage.name)

    def _leaf(self, stage: LoopStage) -> int:
        kind = "reduced" if stage.kind == "reduce" else "scanned"
        return next(i for i, n in enumerate(self.dag.nodes) if n.kind == kind and n.name == stage.name)

    # -- two reductions in one pass ----------------------------------------------------------------

    def _pair(self) -> Moments | Online | None:
        """Return the two reductions that share one pass over a row too long for the registers."""
        pair: Moments | Online | None = find_moments(self.dag) if self.how.one_pass else None
        if pair is None and self.how.online:
            pair = find_online(self.dag)
        if pair is None or self.how.form == "flat":
            return None
        return pair if self._points_of(self.groups[pair.first].axes) > self.how.block_inner else None

    def _write_pair(self, pair: Moments | Online) -> None:
        first, second = self.groups[pair.first], self.groups[pair.second]
        self._bind_kept(first)
        if isinstance(pair, Online):
            self._online(pair, first, second)
        else:
            self._moments(pair, first, second)
        for group in (first, second):
            self._bind_result(group.actions[0].stage)

    def _online(self, pair: Online, first: StageGroup, second: StageGroup) -> None:
        """Maximum and sum of exponentials, each lane with its own maximum until the end.

        Source: Milakov, Gimelshein, arXiv 1805.02867: the sum is rescaled when its maximum grows.
        """
        top_stage, total_stage = first.actions[0].stage, second.actions[0].stage
        tops, totals = (self.names.new(f"{self._stem(s)}_parts") for s in (top_stage, total_stage))
        shape = self._shape_text(self._tile_shape())
        self.out.line(f'{tops} = tl.full({shape}, float("-inf"), tl.float32)')
        self.out.line(f"{totals} = tl.full({shape}, 0.0, tl.float32)")
        how = Reducer("max", "float32")
        with self._loop(first.axes) as flat:
            self._set_policy(pair.second, first)
            self._bind(first.actions, lambda number: True)
            larger = self.names.new("larger")
            self.out.line(f"{larger} = nan_max({tops}, {self._masked(first.actions[0].node, how, flat)})")
            after = self._shift(pair, larger, "shift_after")
            before = self._shift(pair, tops, "shift_before")
            with self.render.scope():
                self.render.bind(pair.shift, after)
                self._bind(second.actions, lambda number: True)
                value = bare(self.render.text(second.actions[0].node))
                so_far = f"{totals} * tl.exp({before} - {after})"
                self.out.line(f'{totals} = tl.where({tops} == float("-inf"), 0.0, {so_far})')
                self.out.line(f"{totals} += tl.where({flat.mask}, {value}, 0.0)")
            self.out.line(f"{tops} = {larger}")
            self.render.policy = {}
        top = self._name_result(top_stage)
        self.out.line(f"{top} = {how.over(tops, self._dim, keep=self._keeps)}")
        shift = self._shift(pair, top, "shift")
        lanes = self._shift(pair, tops, "shift_parts")
        scaled = f'tl.where({tops} == float("-inf"), 0.0, {totals} * tl.exp({lanes} - {shift}))'
        total = self._name_result(total_stage)
        self.out.line(f"{total} = {Reducer('sum', 'float32').over(scaled, self._dim, keep=self._keeps)}")

    def _shift(self, pair: Online, top: str, wanted: str) -> str:
        """Write what is subtracted before the exponential, 0 where nothing but -inf was seen."""
        name = self.names.new(wanted)
        with self.render.scope():
            self.render.bind(pair.top, top)
            text = bare(self.render.text(pair.shift))
        self.out.line(f'{name} = tl.where({top} == float("-inf"), 0.0, {text})')
        return name

    def _moments(self, pair: Moments, first: StageGroup, second: StageGroup) -> None:
        """Mean and variance, each lane with its own until the end.

        Source: Chan, Golub, LeVeque, The American Statistician 37(3), 1983: moments of parts merge
        exactly, without the cancellation of sums of raw squares.
        """
        stages = [g.actions[0].stage for g in (first, second)]
        shape = self._shape_text(self._tile_shape())
        means, squares, counts = (self.names.new(n) for n in ("means", "squares_parts", "counts"))
        for name in (means, squares, counts):
            self.out.line(f"{name} = tl.full({shape}, 0.0, tl.float32)")
        with self._loop(first.axes) as flat:
            self._set_policy(pair.second, first)
            self._bind(first.actions, lambda number: True)
            value, distance = bare(self.render.text(pair.value)), self.names.new("distance")
            self.out.line(f"{counts} += tl.where({flat.mask}, 1.0, 0.0)")
            self.out.line(f"{distance} = tl.where({flat.mask}, {value} - {means}, 0.0)")
            self.out.line(f"{means} += {distance} / tl.where({counts} == 0.0, 1.0, {counts})")
            self.out.line(f"{squares} += {distance} * tl.where({flat.mask}, {value} - {means}, 0.0)")
            self.render.policy = {}
        total, spread = (self._name_result(stage) for stage in stages)
        add, keep, n = Reducer("sum", "float32"), self._keeps, self._points_of(first.axes)
        self.out.line(f"{total} = {add.over(f'{counts} * {means}', self._dim, keep=keep)}")
        self.out.line(f"{means} -= {total} / {n}")
        merged = f"{squares} + {counts} * {means} * {means}"
        self.out.line(f"{spread} = {add.over(merged, self._dim, keep=keep)}")

    # -- values ------------------------------------------------------------------------------------

    def _closure(self, roots: Sequence[int]) -> set[int]:
        """Return the nodes that the roots need, what their scans combine included."""
        found = self.dag.needed(list(roots))
        while True:
            scans = [self._scanned_node(self._stage(n)) for n in found if self.dag.nodes[n].kind == "scanned"]
            more = found | self.dag.needed(scans)
            if more == found:
                return found
            found = more

    def _bind_kept(self, group: StageGroup) -> None:
        """Compute what depends on no inner point before the loops."""
        if group.axes:
            self._bind(group.actions, lambda number: not self.dag.axes[number] & self.inner)
        else:
            self._bind(group.actions, lambda number: True)

    def _bind(
        self,
        actions: Sequence[Action],
        here: Callable[[int], bool],
        scans: Callable[[int], None] | None = None,
        again: frozenset[int] = frozenset(),
    ) -> None:
        """Write variables for loads, for what is used more than once, and for long expressions.

        ``here``: what may be computed at this place; ``scans`` writes the scan of a node that is one;
        ``again``: what later groups use too.
        """
        roots = [a.node for a in actions]
        needed = self._needed(roots)
        uses = dict.fromkeys(needed, 0)
        from_deeper: set[int] = set()
        for number in needed:
            for arg in self._args(number):
                uses[arg] = uses.get(arg, 0) + (2 if self.dag.nodes[number].name in REPEATS else 1)
                if not here(number):
                    from_deeper.add(arg)
        for root in roots:
            uses[root] = uses.get(root, 0) + 1
        for number in self._in_order(needed):
            node = self.dag.nodes[number]
            if not here(number):
                continue
            if node.kind == "scanned" and scans is not None:
                scans(number)
            elif self._is_worth(number, uses[number] > 1 or number in from_deeper | again):
                self._declare(number)

    def _needed_again(self, group: StageGroup) -> frozenset[int]:
        """Return what a group computes and later ones with the same tile use directly."""
        own = self._closure([a.node for a in group.actions])
        used: set[int] = set()
        for later in self.groups[self.groups.index(group) + 1 :]:
            if later.axes == group.axes:
                roots = [a.node for a in later.actions]
                used |= set(roots) | {a for n in self._closure(roots) - own for a in self._args(n)}
        return frozenset(n for n in used & own if self.dag.axes[n] & self.inner)

    def _args(self, number: int) -> tuple[int, ...]:
        node = self.dag.nodes[number]
        if node.kind == "scanned":
            return (self._scanned_node(self._stage(number)),)
        return self.render.live_args(number)

    def _needed(self, roots: Sequence[int]) -> set[int]:
        seen: set[int] = set()
        pending = list(roots)
        while pending:
            number = pending.pop()
            if number not in seen and self.render.bound(number) is None:
                seen.add(number)
                pending.extend(self._args(number))
        return seen

    def _in_order(self, needed: set[int]) -> list[int]:
        """Return them so that each comes after what it needs."""
        done: list[int] = []
        seen: set[int] = set()
        for root in sorted(needed):
            pending = [root]
            while pending:
                number = pending[-1]
                waiting = [a for a in self._args(number) if a in needed and a not in seen]
                if number in seen or not waiting:
                    pending.pop()
                    if number not in seen:
                        seen.add(number)
                        done.append(number)
                else:
                    pending.extend(waiting)
        return done

    def _is_worth(self, number: int, is_shared: bool) -> bool:
        node = self.dag.nodes[number]
        if node.kind in ("const", "index", "reduced", "scanned") or self.render.always_holds(number):
            return False
        text = self.render.text(number)
        if node.kind == "bound":
            return is_shared or "&" in text
        return is_shared or node.kind == "load" or len(text) > LONG_TEXT

    def _declare(self, number: int) -> None:
        node = self.dag.nodes[number]
        text = bare(self.render.text(number))
        stem = {"load": self.pointers.get(node.name, "").removesuffix("_ptr"), "bound": "inside"}.get(
            node.kind, f"{node.name}_at"
        )
        name = self.names.new(stem)
        self.out.line(f"{name} = {text}")
        self.render.bind(number, name)

    # -- results -----------------------------------------------------------------------------------

    def _stem(self, stage: LoopStage) -> str:
        return stage.name if len(stage.name) <= 16 else str(stage.combine or stage.kind)

    def _name_result(self, stage: LoopStage) -> str:
        name = self.names.new(self._stem(stage))
        self.results[stage.name] = name
        return name

    def _bind_result(self, stage: LoopStage) -> None:
        self.render.scopes[0][self._leaf(stage)] = self.results[stage.name]

    def _store(self, node: int, store: StoreTo, axes: Iterable[str]) -> None:
        needs = self.render.dims([*(a.name for a in self.region.kept), *axes])
        if self.kept is not None and self.kept not in needs:
            needs = [self.kept, *needs]
        has = self.render.dims(a for a, _ in store.index.terms)
        address = self.render.pointer(store.buffer, self.render.index(store.index), has, needs)
        value = bare(self.render.text(node))
        masks = [flat.mask for flat in needs]
        options = f", mask={joined(masks)}" if masks else ""
        is_read = any(n.kind == "load" and n.name == store.buffer for n in self.dag.nodes)
        if self.render.policy and not is_read:  # rows that are read again must not make room for results
            options += ', eviction_policy="evict_first"'
        self.out.line(f"tl.store({address}, {value}{options})")
