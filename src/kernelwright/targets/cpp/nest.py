"""Loop nests: one group of stages at one kept point (row form) or one block of them (column form)."""

from collections.abc import Sequence
from dataclasses import dataclass

from kernelwright.ir.dag import Action, DagNode, StageGroup
from kernelwright.ir.normalise import coefficient
from kernelwright.ir.patterns import Moments, Online, find_moments, find_online
from kernelwright.ir.program import Affine
from kernelwright.ir.text import bare
from kernelwright.targets.cpp.accumulate import Accumulator, running
from kernelwright.targets.cpp.choices import PARTS
from kernelwright.targets.cpp.one_pass import write_moments, write_online
from kernelwright.targets.cpp.prefetch import prefetch_call, reads_ahead
from kernelwright.targets.cpp.text import CTYPES
from kernelwright.targets.cpp.values import Kept, Loop, ValueWriter

SCAN_BLOCK = 64
"""Values per block of a scan along the vector axis."""
LONG_NAME = 12
"""Stages with longer names (graph nodes) are called by what they combine."""
STREAM_BLOCK = 1024
"""Values computed into level 1 cache before they are streamed out together."""


@dataclass
class NestReduction:
    """A reduction under way: its names in the code."""

    action: Action
    how: Accumulator
    name: str
    """The result: a scalar, or in column form an array over lanes."""
    lanes: str
    """Array of one accumulator per lane."""
    target: str
    """Array that the code being printed adds to: ``lanes``, or the partial sums of a chunk."""


class NestWriter(ValueWriter):
    """Writes groups one after another into the body of one function."""

    runs: dict[str, tuple[str, Accumulator]]
    ahead: dict[int, tuple[tuple[DagNode, Affine], ...]]
    """Loads to prefetch, by position of the group that does it."""
    _part: tuple[str, str] | None = None
    """Row form over one axis: the part of that axis that the current thread works on."""
    _now: tuple[Kept, ...] = ()
    """Scratch that the current group fills."""

    def write(self) -> None:
        """Write all groups."""
        self.runs = {}
        self.transpose(load for load in self.choices.transposed if not load.is_kept)
        self.ahead = reads_ahead(self.choices, self.dag)
        pair = self._pair()
        self.merged = () if pair is None else pair[:2]
        self.plan_kept()
        for position, group in enumerate(self.dag.groups):
            if pair is not None and position in self.merged:
                if position == pair.first:
                    self._write_pair(pair)
                continue
            self._now = tuple(k for k in self.kept if k.group == position)
            with self.render.scope():
                self._bind_kept(group)
                reductions = self._group(group)
            for reduction in reductions:
                place = f"{reduction.name}[l]" if self.choices.is_column else reduction.name
                self.render.bind(self._leaf(reduction.action), place)

    def _bind_kept(self, group: StageGroup) -> None:
        """Read what lies in scratch at the current point: transposed loads, and what earlier groups kept."""
        for load in self.transposed:
            if load.is_kept or load.axis in group.axes:
                self.render.bind(load.node, self.transposed_place(load))
        for kept in self.kept:
            if kept.group < self.dag.groups.index(group) and kept.axes == group.axes:
                self.render.bind(kept.node, self.kept_place(kept))

    def _pair(self) -> Moments | Online | None:
        """Return the two reductions that the schedule wants in one pass."""
        choices = self.choices
        if choices.is_column or choices.parallel == "inner":
            return None
        pair: Moments | Online | None = find_moments(self.dag) if choices.one_pass else None
        if pair is None and choices.online:
            pair = find_online(self.dag)
        return pair if pair and self.lane_axis in self.dag.groups[pair.first].axes else None

    def _write_pair(self, pair: Moments | Online) -> None:
        actions = [self.dag.groups[i].actions[0] for i in (pair.first, pair.second)]
        names = (self._short_name(actions[0]), self._short_name(actions[1]))
        loops = self._loops(self.dag.groups[pair.first])
        with self.render.scope():
            if isinstance(pair, Moments):
                write_moments(self, pair, loops, names)
            else:
                write_online(self, pair, loops, names)
        for action, name in zip(actions, names, strict=True):
            self.render.bind(self._leaf(action), name)

    def _short_name(self, action: Action) -> str:
        """Return a name for a stage's result: the stage's own unless that is long."""
        name = action.stage.name
        return self.names.new(name if len(name) <= LONG_NAME else action.stage.combine or "value")

    def _group(self, group: StageGroup) -> list[NestReduction]:
        if not group.axes and not self.choices.is_column:
            self.bind_level(group, 0, [])
            self._actions(group.actions, {}, {})
            return []
        reductions = [self._reduction(a) for a in group.reduces]
        self.hoist_lane_values(group)
        loops = self._loops(group)
        if group.scans and not self.choices.is_column:
            for r in reductions:
                self._declare_lanes(r.lanes, r.how.total_ctype, r.how.start, str(self._scanned_together))
            self._scan_along_lanes(group, loops, reductions)
            for reduction in reductions:
                self._finish(reduction)
        elif self.choices.parallel == "inner" and group.axes and not group.scans:
            self._in_parts(group, loops, reductions)
        else:
            self._accumulate(group, loops, reductions)
            for reduction in reductions:
                self._finish(reduction)
        return reductions

    def _leaf(self, action: Action) -> int:
        kind = "reduced" if action.kind == "reduce" else "scanned"
        nodes = self.dag.nodes
        return next(i for i, n in enumerate(nodes) if n.kind == kind and n.name == action.stage.name)

    def _reduction(self, action: Action) -> NestReduction:
        how = Accumulator(action.stage.combine or "sum", action.stage.dtype)
        name = self._short_name(action)
        lanes = self.names.new(f"{name}_lanes")
        return NestReduction(action, how, name, lanes, lanes)

    def _loops(self, group: StageGroup) -> list[Loop]:
        """Return the sequential loops, outermost first; the axis of a scan goes innermost."""
        scan_axes = {a.stage.scan_axis for a in group.scans}
        axes = [a for a in group.axes if a != self.lane_axis]
        axes.sort(key=lambda axis: axis in scan_axes)
        return [Loop(self.render.axes[a], "0", str(self.sizes[a]), self.sizes[a], axis=a) for a in axes]

    # -- accumulators ------------------------------------------------------------------------------

    def _accumulate(self, group: StageGroup, loops: list[Loop], reductions: list[NestReduction]) -> None:
        """Declare accumulators and write the nest that fills them."""
        if self._is_blocked(group):
            loops = [*loops, self._block_loop(group)]
        flush = self._flush_level(loops, reductions)
        for reduction in reductions:
            how = reduction.how
            is_total = flush is not None and how.needs_total
            self._declare_lanes(reduction.lanes, how.total_ctype if is_total else how.ctype, how.start)
        self._walk(group, loops, 0, flush, reductions)

    def _declare_lanes(self, name: str, ctype: str, start: str, lanes: str = "") -> None:
        lanes = lanes or self.lanes
        if start in ("0.0f", "0.0", "0", "false"):
            self.out.line(f"{ctype} {name}[{lanes}] = {{}};")
            return
        self.out.line(f"{ctype} {name}[{lanes}];")
        self._each_lane(f"{name}[l] = {start};", lanes)

    def _each_lane(self, statement: str, lanes: str = "") -> None:
        self.out.line(f"for (int l = 0; l < {lanes or self.lanes}; ++l) {statement}")

    def _finish(self, reduction: NestReduction) -> None:
        """Combine the lanes; in column form each lane is a result."""
        how, name = reduction.how, reduction.name
        if not self.choices.is_column:
            value = f"{how.lanes_function}({reduction.lanes})"
            value = f"({how.ctype}){value}" if how.needs_total else value
            self.out.line(f"const {how.ctype} {name} = {value};")
        elif how.needs_total:
            self.out.line(f"{how.ctype} {name}[LANES];")
            self._each_lane(f"{name}[l] = ({how.ctype}){reduction.lanes}[l];")
        else:
            reduction.name = reduction.lanes

    def _flush_level(self, loops: list[Loop], reductions: list[NestReduction]) -> int | None:
        """Return the depth whose body ends with moving partial sums to float64; None: no need.

        A long innermost loop is cut into chunks for it; otherwise whole inner loops are taken
        together as long as a lane adds at most ``chunk`` values.
        """
        total = 1
        for loop in loops:
            total *= loop.count
        chunk = self.choices.chunk
        if not any(r.how.needs_total for r in reductions) or total <= 2 * chunk:
            return None
        if loops[-1].count > chunk:
            self._cut_into_chunks(loops, chunk)
            return len(loops) - 1
        level, inside = len(loops), 1
        while level > 1 and inside * loops[level - 1].count <= chunk:
            level -= 1
            inside *= loops[level].count
        return max(level, 1)

    def _cut_into_chunks(self, loops: list[Loop], chunk: int) -> None:
        inner = loops.pop()
        step = chunk * inner.step
        variable = self.names.new(f"{inner.variable.removesuffix('_block')}_chunk")
        loops.append(Loop(variable, inner.start, inner.stop, inner.count // chunk, step))
        inner.start = variable
        end = f"{variable} + {step}"
        exact = inner.stop.isdigit() and inner.start == variable and inner.count % chunk == 0
        inner.stop = end if exact and self._part is None else f"least({end}, {inner.stop})"
        loops.append(inner)

    # -- threads over parts of the first loop ------------------------------------------------------

    def _in_parts(self, group: StageGroup, loops: list[Loop], reductions: list[NestReduction]) -> None:
        parts = {r.name: self.names.new(f"{r.name}_parts") for r in reductions}
        for reduction in reductions:
            self.out.line(f"{reduction.how.total_ctype} {parts[reduction.name]}[{PARTS}][{self.lanes}];")
        threads = f" num_threads({self.choices.threads})" if self.choices.threads else ""
        self.out.line(f"#pragma omp parallel for schedule(static){threads}")
        with self.out.block(f"for (int part = 0; part < {PARTS}; ++part)"), self.render.scope():
            self._declare_part(group, loops)
            self._accumulate(group, loops, reductions)
            for reduction in reductions:
                self._each_lane(f"{parts[reduction.name]}[part][l] = {reduction.lanes}[l];")
        self._part = None
        for reduction in reductions:
            how = reduction.how
            self._declare_lanes(reduction.lanes, how.total_ctype, how.start)
            with self.out.block(f"for (int part = 0; part < {PARTS}; ++part)"):
                self._each_lane(how.step(f"{reduction.lanes}[l]", f"{parts[reduction.name]}[part][l]"))
            self._finish(reduction)

    def _declare_part(self, group: StageGroup, loops: list[Loop]) -> None:
        """Declare the part's share of the outermost loop (of its blocks, when there is no other)."""
        unit = 1 if loops or not self._is_blocked(group) else self._block(group)
        count = loops[0].count if loops else self.sizes[self.lane_axis] // unit
        share = -(-count // PARTS)
        end = count * unit
        self.out.line(f"const int begin = least(part * {share * unit}, {end});")
        self.out.line(f"const int end = least(begin + {share * unit}, {end});")
        if loops:
            loops[0].start, loops[0].stop, loops[0].count = "begin", "end", share
        else:
            self._part = ("begin", "end")

    # -- the loops ---------------------------------------------------------------------------------

    def _is_blocked(self, group: StageGroup) -> bool:
        """Row form: the vector axis is cut into blocks where lanes accumulate or stores are streamed."""
        in_row = not self.choices.is_column and self.lane_axis in group.axes
        return in_row and (bool(group.reduces) or any(self._can_stream(a) for a in group.stores))

    def _block(self, group: StageGroup) -> int:
        lanes = self.choices.lanes
        return lanes if group.reduces else min(STREAM_BLOCK, self.sizes[self.lane_axis])

    def _block_loop(self, group: StageGroup) -> Loop:
        block, size = self._block(group), self.sizes[self.lane_axis]
        start, stop = self._part or ("0", str(size // block * block))
        count = size // block if self._part is None else -(-size // block // PARTS)
        variable = self.names.new(f"{self.render.axes[self.lane_axis]}_block")
        return Loop(variable, start, stop, count, block)

    def _walk(
        self,
        group: StageGroup,
        loops: list[Loop],
        level: int,
        flush: int | None,
        reductions: list[NestReduction],
    ) -> None:
        """Write the loops from this level inwards."""
        self.bind_level(group, level, loops)
        self._skip_outside(group, level, loops)
        summed = [r for r in reductions if r.how.needs_total] if flush == level else []
        for reduction in summed:
            reduction.target = self.names.new(f"{reduction.name}_part")
            self._declare_lanes(reduction.target, reduction.how.ctype, reduction.how.start)
        if level == len(loops):
            self._innermost(group, loops, reductions)
        else:
            self._loop(group, loops, level, flush, reductions)
        for reduction in summed:
            self._each_lane(f"{reduction.lanes}[l] += {reduction.target}[l];")
            reduction.target = reduction.lanes

    def _loop(
        self,
        group: StageGroup,
        loops: list[Loop],
        level: int,
        flush: int | None,
        reductions: list[NestReduction],
    ) -> None:
        loop = loops[level]
        if self._is_jammed(group, loops, level, flush):
            self._jammed(group, loops, reductions)
            return
        scans = [a for a in group.scans if a.stage.scan_axis == loop.axis]
        if scans:
            self._declare_runs(scans)
        head = _head(loop, reverse=any(a.stage.reverse for a in scans))
        with self.out.block(head), self.names.scope(), self.render.scope():
            self._walk(group, loops, level + 1, flush, reductions)
        outside_chunks = loop.axis is None and (level == 0 or loops[level - 1].axis is not None)
        if outside_chunks and self._is_blocked(group):
            self._tail(group, reductions)

    def _is_jammed(self, group: StageGroup, loops: list[Loop], level: int, flush: int | None) -> bool:
        """Tell whether several points of the innermost loop share a pass over the lanes."""
        choices, loop = self.choices, loops[level]
        is_innermost = level == len(loops) - 1 and flush != len(loops) and loop.step == 1
        fits = choices.is_column and 1 < choices.jam <= loop.count and loop.axis is not None
        return is_innermost and fits and bool(group.reduces) and not group.scans

    def _jammed(self, group: StageGroup, loops: list[Loop], reductions: list[NestReduction]) -> None:
        """Unroll the innermost loop and jam it into the lanes: accumulators are read and written once."""
        loop, jam = loops[-1], self.choices.jam
        v, axis = loop.variable, loop.axis or ""
        with self.out.block(""):
            self.out.line(f"int {v} = {loop.start};")
            with self.out.block(f"for (; {v} + {jam} <= {loop.stop}; {v} += {jam})"):
                self.pragma_simd()
                head = "for (int l = 0; l < LANES; ++l)"
                with self.out.block(head), self.lane_position(f"{self.lane_start} + l"):
                    for ahead in range(jam):
                        place = f"({v} + {ahead})" if ahead else v
                        with self.out.block(""), self.axis_at(axis, place), self.render.scope():
                            self._bind_kept(group)
                            self._lane_body(group.actions, reductions, {})
            rest = f"for (; {v} < {loop.stop}; ++{v})"
            with self.out.block(rest), self.names.scope(), self.render.scope():
                self.bind_level(group, len(loops), loops)
                self._innermost(group, loops, reductions)

    def _tail(self, group: StageGroup, reductions: list[NestReduction]) -> None:
        """Write the last, incomplete block of the vector axis."""
        size = self.sizes[self.lane_axis]
        rest = size % self._block(group)
        if rest and self._part is None:
            self._lane_loop(group.actions, reductions, str(size - rest), str(rest))
        elif rest:
            with self.out.block(f"if (part == {PARTS - 1})"):
                self._lane_loop(group.actions, reductions, str(size - rest), str(rest))

    def _innermost(self, group: StageGroup, loops: list[Loop], reductions: list[NestReduction]) -> None:
        if self.choices.is_column:
            self._lane_loop(group.actions, reductions, self.lane_start, "LANES")
        elif self._is_blocked(group):
            self._read_ahead(group, loops[-1].variable)
            self._lane_loop(group.actions, reductions, loops[-1].variable, str(self._block(group)))
        elif self.lane_axis in group.axes:
            self._axis_loop(group.actions)
        else:
            with self.out.block("for (int l = 0; l < 1; ++l)"):
                self._lane_body(group.actions, reductions, {})

    def _read_ahead(self, group: StageGroup, start: str) -> None:
        """Ask for the values that the next kept point needs at this block."""
        row = self._points(group.axes)
        for node, index in self.ahead.get(self.dag.groups.index(group), ()):
            with self.axis_at(self.lane_axis, start):
                address = f"{self.render.buffers[node.name]}[{self.render.index(index)}]"
            self.out.line(prefetch_call(address, self._block(group), row))

    def _axis_loop(self, actions: Sequence[Action]) -> None:
        """Write a vectorised loop over the whole vector axis."""
        start, stop = self._part or ("0", str(self.sizes[self.lane_axis]))
        variable = self.render.axes[self.lane_axis]
        self.pragma_simd()
        with self.out.block(f"for (int {variable} = {start}; {variable} < {stop}; ++{variable})"):
            self._lane_body(actions, [], {})

    def _lane_loop(
        self,
        actions: Sequence[Action],
        reductions: list[NestReduction],
        start: str,
        lanes: str,
    ) -> None:
        """Write the vectorised loop over one block that starts at a position of the vector axis."""
        streams = self._stream_blocks(actions, start, lanes)
        self.pragma_simd()
        with self.out.block(f"for (int l = 0; l < {lanes}; ++l)"), self.lane_position(f"{start} + l"):
            self._lane_body(actions, reductions, {i: block for i, (_, block) in streams.items()})
        for target, block in streams.values():
            self.out.line(f"stream_out(&{target}, {block}, {lanes});")

    def _lane_body(
        self, actions: Sequence[Action], reductions: list[NestReduction], streams: dict[int, str]
    ) -> None:
        with self.names.scope(), self.render.scope():
            self._scan_steps([a for a in actions if a.kind == "scan"])
            self.bind_all([a for a in actions if a.kind != "scan"])
            self._keep()
            self._actions(actions, {r.action.stage.name: r for r in reductions}, streams)

    # -- actions -----------------------------------------------------------------------------------

    def _scan_steps(self, scans: Sequence[Action]) -> None:
        """Column form: move the running values on before anything reads them."""
        for action in scans:
            self.bind_all([action])
            name, how = self.runs[action.stage.name]
            value = bare(self.render.text(action.node))
            self.out.line(how.step(f"{name}[l]", f"({how.ctype})({value})"))

    def _keep(self) -> None:
        for kept in self._now:
            place = self.kept_place(kept)
            self.out.line(f"{place} = {bare(self.render.text(kept.node))};")
            self.render.bind(kept.node, place)

    def _actions(
        self,
        actions: Sequence[Action],
        reductions: dict[str, NestReduction],
        streams: dict[int, str],
    ) -> None:
        for position, action in enumerate(actions):
            if action.kind == "scan":
                continue
            value = bare(self.render.text(action.node))
            if action.kind == "reduce":
                reduction = reductions[action.stage.name]
                value = self._converted(value, action)
                self.out.line(reduction.how.step(f"{reduction.target}[l]", value))
            else:
                self.out.line(f"{self._store_target(action, position, streams)} = {value};")

    def _store_target(self, action: Action, position: int, streams: dict[int, str]) -> str:
        assert action.store is not None
        if position in streams:
            return f"{streams[position]}[l]"
        return f"{self.render.buffers[action.store.buffer]}[{self.render.index(action.store.index)}]"

    def _converted(self, value: str, action: Action) -> str:
        dtype = self.dag.nodes[action.node].dtype
        return value if dtype == action.stage.dtype else f"({CTYPES[action.stage.dtype]})({value})"

    def _can_stream(self, action: Action) -> bool:
        if not self.choices.stream or action.store is None or action.stage.dtype != "float32":
            return False
        return coefficient(action.store.index, self.lane_axis) == 1

    def _stream_blocks(self, actions: Sequence[Action], start: str, lanes: str) -> dict[int, tuple[str, str]]:
        """Declare a block per streamed store; return (place of lane 0, block) by action position."""
        streams: dict[int, tuple[str, str]] = {}
        for position, action in enumerate(actions):
            if action.kind != "store" or action.store is None or not self._can_stream(action):
                continue
            pointer = self.render.buffers[action.store.buffer]
            block = self.names.new(f"{pointer}_block")
            self.out.line(f"alignas(64) float {block}[{lanes}];")
            with self.axis_at(self.lane_axis, start):
                streams[position] = (f"{pointer}[{self.render.index(action.store.index)}]", block)
        return streams

    def _skip_outside(self, group: StageGroup, level: int, loops: Sequence[Loop]) -> None:
        """Window reductions: go on with the next window row when this one adds nothing."""
        if level == 0 or len(group.actions) != 1 or not group.reduces:
            return
        action = group.actions[0]
        node = self.dag.nodes[action.node]
        how = Accumulator(action.stage.combine or "sum", action.stage.dtype)
        if node.kind != "load" or node.strides or not how.absorbs(node.value):
            return
        for arg in self.render.live_args(action.node):
            if self.level(arg, loops) == level and self.render.bound(arg) != "true":
                self.out.line(f"if (!{self.render.text(arg)}) continue;")
                self.render.bind(arg, "true")

    # -- scans -------------------------------------------------------------------------------------

    def _declare_runs(self, scans: Sequence[Action]) -> None:
        """Column form: the running values of scans, one per lane."""
        for action in scans:
            how = running(action.stage)
            name = self.names.new(f"{action.stage.name}_run")
            self._declare_lanes(name, how.ctype, how.start)
            self.runs[action.stage.name] = (name, how)
            self.render.bind(self._leaf(action), f"({CTYPES[action.stage.dtype]}){name}[l]")

    @property
    def _scanned_together(self) -> int:
        """Row form: values per block of a scan, and lanes of the reductions beside it."""
        return min(SCAN_BLOCK, -(-self.sizes[self.lane_axis] // 8) * 8)

    def _scan_along_lanes(
        self, group: StageGroup, loops: list[Loop], reductions: list[NestReduction], level: int = 0
    ) -> None:
        """Row form: blocks of values, their running sums in registers, then everything after."""
        self.bind_level(group, level, loops)
        if level < len(loops):
            with self.out.block(_head(loops[level], reverse=False)), self.render.scope():
                self._scan_along_lanes(group, loops, reductions, level + 1)
            return
        for action in group.scans:
            how = running(action.stage)
            carry = self.names.new(f"{action.stage.name}_carry")
            self.out.line(f"{how.ctype} {carry} = {how.start};")
            self.runs[action.stage.name] = (carry, how)
        size, block = self.sizes[self.lane_axis], self._scanned_together
        whole = size // block * block
        start = self.names.new(f"{self.render.axes[self.lane_axis]}_block")
        if whole:
            with self.out.block(f"for (int {start} = 0; {start} < {whole}; {start} += {block})"):
                self._scan_block(group, start, block, reductions)
        if size > whole:
            with self.out.block(""):
                self._scan_block(group, str(whole), size - whole, reductions)

    def _scan_block(self, group: StageGroup, start: str, count: int, reductions: list[NestReduction]) -> None:
        block = self._scanned_together
        place = f"{start} + l"
        if group.scans[0].stage.reverse:
            place = f"{self.sizes[self.lane_axis] - 1} - {start} - l"
        with self.names.scope(), self.render.scope():
            for action in group.scans:
                carry, how = self.runs[action.stage.name]
                run = self.names.new(f"{action.stage.name}_run")
                fill = "" if count == block else " = {}"
                self.out.line(f"alignas(64) {how.ctype} {run}[{block}]{fill};")
                self.pragma_simd()
                with (
                    self.out.block(f"for (int l = 0; l < {count}; ++l)"),
                    self.lane_position(place),
                    self.names.scope(),
                    self.render.scope(),
                ):
                    self.bind_all([action])
                    self.out.line(f"{run}[l] = {bare(self.render.text(action.node))};")
                self.out.line(f"prefix_{how.combine}({run}, {carry});")
                self.render.bind(self._leaf(action), f"({CTYPES[action.stage.dtype]}){run}[l]")
            rest = [a for a in group.actions if a.kind != "scan"]
            if (rest or self._now) and group.scans[0].stage.reverse:
                self.pragma_simd()
                with self.out.block(f"for (int l = 0; l < {count}; ++l)"), self.lane_position(place):
                    self._lane_body(rest, reductions, {})
            elif rest or self._now:
                self._lane_loop(rest, reductions, start, str(count))


def _head(loop: Loop, *, reverse: bool) -> str:
    v = loop.variable
    if reverse:
        return f"for (int {v} = {loop.count - 1}; {v} >= 0; --{v})"
    step = f"++{v}" if loop.step == 1 else f"{v} += {loop.step}"
    return f"for (int {v} = {loop.start}; {v} < {loop.stop}; {step})"
