"""One region as one C function: signature, threads, tiles; the nests inside are ``nest.py``'s."""

import dataclasses
from contextlib import ExitStack

from kernelwright.core.errors import LoweringError
from kernelwright.core.machine import UNKNOWN_MACHINE
from kernelwright.ir.arguments import Argument, signature
from kernelwright.ir.by_loops import by_region
from kernelwright.ir.dag import Dag
from kernelwright.ir.extents import Extent, dims_in
from kernelwright.ir.lanes import LANES_PER_VECTOR
from kernelwright.ir.normalise import axis_sizes, coefficient
from kernelwright.ir.program import Region
from kernelwright.ir.separable import ROW, Separated, find_separable
from kernelwright.ir.text import Names, extent, wrapped
from kernelwright.ir.writer import Writer
from kernelwright.targets.cpp.attention_printer import AttentionPrinter
from kernelwright.targets.cpp.choices import Choices, resolve
from kernelwright.targets.cpp.nest import NestWriter
from kernelwright.targets.cpp.prelude import prelude_for
from kernelwright.targets.cpp.product import ProductPrinter
from kernelwright.targets.cpp.recurrence_printer import RecurrencePrinter
from kernelwright.targets.cpp.text import ELEMENT_CTYPES, CppRenderer
from kernelwright.targets.cpp.window_printer import WindowPrinter
from kernelwright.targets.cpp.winograd import WinogradTiling
from kernelwright.targets.cpp.winograd_printer import WinogradPrinter

MOST_LANES = 1024
"""Lanes of a block of a step of a separable window."""
MOST_JAMMED = 8
"""Points of a window's axis that a step takes in one pass over its lanes."""


def declaration(argument: Argument) -> str:
    """Return the C++ parameter of an argument."""
    const = "" if argument.is_written else "const "
    return f"{const}{ELEMENT_CTYPES[argument.dtype]}* __restrict {argument.name}"


def print_source(regions: tuple[Region, ...]) -> str:
    """Return a complete C++ file with one function per region, and the prelude they need."""
    functions = "\n".join(print_region(region) for region in regions)
    return prelude_for(functions) + "\n" + functions


@by_region
def print_region(region: Region) -> str:
    """Return the C++ text of one region: ``extern "C" void NAME(inputs…, outputs…)``.

    What its schedule leaves open is decided as for a machine of which nothing is known.

    Raises:
        LoweringError: a kernel of this kind has fixed sizes, and the region's vary.
    """
    choices = resolve(region, UNKNOWN_MACHINE)
    if choices.attention is not None:
        return AttentionPrinter(region, choices, choices.attention, declaration).text()
    if choices.recurrence is not None:
        return RecurrencePrinter(region, choices, choices.recurrence, declaration).text()
    if isinstance(choices.window, WinogradTiling):
        return WinogradPrinter(region, choices, choices.window, declaration).text()
    if choices.window is not None:
        return WindowPrinter(region, choices, choices.window, declaration).text()
    if choices.tiling is not None:
        if dims_in(region):
            raise LoweringError(
                f"{region.name}: kernels of products have fixed sizes; the library's have not"
            )
        return ProductPrinter(region, choices, choices.tiling, declaration).text()
    return _RegionPrinter(region, choices).text()


class _RegionPrinter:
    given: list[str] | None = None
    """What its functions are called with, where another's entry calls them."""

    def __init__(self, region: Region, choices: Choices | None = None) -> None:
        self.region = region
        self.choices: Choices = choices or resolve(region, UNKNOWN_MACHINE)
        self.sizes = axis_sizes(self.choices.region)
        self.arguments = signature(region)
        self.extents = [dim.variable for dim in dims_in(region)]
        """Parameters after those of the buffers."""
        taken = [a.name for a in self.arguments] + [*self.extents, region.name, "l", "part", "begin", "end"]
        self.names = Names(taken)
        order = (*self.choices.region.kept, *self.choices.region.inner)
        self.axes = {axis.name: self.names.new(axis.name) for axis in order}
        self.outer = [a for a in self.choices.region.kept if a.name != self._kept_lane]
        self.out = Writer()

    @property
    def _kept_lane(self) -> str | None:
        return self.choices.lane_axis if self.choices.is_column else None

    @property
    def _parameters(self) -> list[str]:
        return [declaration(a) for a in self.arguments] + [f"const int64_t {name}" for name in self.extents]

    def text(self) -> str:
        if self.region.comment:
            self.out.line(f"// {self.region.comment}")
        steps = find_separable(self.choices.region, self._kept_lane) if self.choices.separable else None
        if steps is not None:
            self._in_two_steps(steps)
            return self.out.text()
        self._entry(*self._functions())
        return self.out.text()

    def _functions(self) -> tuple[str, dict[str, tuple[int, int]]]:
        """Write the functions for one kept point or block; return the general one, and where another does."""
        body = f"{self.region.name}_block" if self.choices.is_column else f"{self.region.name}_point"
        self._body_function(body, {})
        self.out.line("")
        interior = self._interior()
        if interior:
            self._body_function(f"{self.region.name}_inside", interior)
            self.out.line("")
        return body, interior

    # -- windows in two steps ----------------------------------------------------------------------

    def _in_two_steps(self, steps: Separated) -> None:
        """Write a function for each step, and the loops that call one after the other."""
        row = self.names.new(ROW)
        lines = [f"float {row}[{steps.position.size}];"]
        for region, lane in ((steps.first, steps.position.name), (steps.second, self._kept_lane)):
            choices = dataclasses.replace(
                self.choices,
                region=region,
                lane_axis=lane,
                lanes=min(axis_sizes(region)[lane or ""], MOST_LANES),
                parallel="none",
                stream=self.choices.stream and region is steps.second,
                separable=False,
                transposed=(),
                jam=min(axis_sizes(region)[region.inner[-1].name], MOST_JAMMED),
            )
            step = _RegionPrinter(dataclasses.replace(region, comment=""), choices)
            step.out = self.out
            body, interior = step._functions()
            pointers = {a.buffer: a.name for a in self.arguments} | {ROW: row}
            step.given = [pointers[a.buffer] for a in step.arguments]
            step.given += step.extents
            step.given += [self.axes[axis.name] for axis in step.outer]
            size = step.sizes[lane or ""]
            lines += step._split_lines(body, interior) if interior else step._run(body, 0, size)
        head = wrapped(f'extern "C" void {self.region.name}(', self._parameters, ")")
        with self.out.block(head):
            loops = [self._loop(self.axes[a.name], a.size) for a in self.outer]
            self._parallel(len(loops))
            self._nested(loops, lines)

    # -- the work at one kept point or block -------------------------------------------------------

    def _body_function(self, name: str, ranges: dict[str, tuple[int, int]]) -> None:
        parameters = self._parameters
        parameters += [f"int {point}" for point in self._points()]
        start = ""
        if self.choices.is_column:
            start = f"{self.axes[self.choices.lane_axis or '']}_start"
            parameters.append(f"int {start}")
            self.out.line("template <int LANES>")
        full = {axis: (0, size - 1) for axis, size in self.sizes.items()} | ranges
        with self.out.block(wrapped(f"static inline void {name}(", parameters, ")")):
            self._body(start, full)

    def _body(self, start: str, ranges: dict[str, tuple[int, int]]) -> None:
        dag = Dag(self.choices.region, self.choices.lane_axis)
        _ = dag.groups
        pointers = {a.buffer: a.name for a in self.arguments}
        renderer = CppRenderer(dag, pointers, self.axes, ranges)
        renderer.exp_degree = self.choices.exp_degree
        names = Names(
            [*pointers.values(), *self.extents, *self.axes.values(), start, "l", "part", "begin", "end"]
        )
        nest = NestWriter(self.choices, dag, renderer, names, self.out)
        nest.lane_start = start
        nest.transpose(load for load in self.choices.transposed if load.is_kept)
        with ExitStack() as stack:
            for axis, step in self._crossed().items():
                variable, first = self.axes[axis], f"{self.axes[axis]}_start"
                stop = f"{variable} < {first} + {step} && {variable} < {self.sizes[axis]}"
                stack.enter_context(self.out.block(f"for (int {variable} = {first}; {stop}; ++{variable})"))
            nest.write()

    def _crossed(self) -> dict[str, int]:
        """Return the outer axis of which a block takes several points, if any, and how many."""
        return {load.axis: load.count for load in self.choices.transposed if load.is_kept}

    def _points(self) -> list[str]:
        """Return the variables of a block's place on the outer axes."""
        crossed = self._crossed()
        return [f"{self.axes[a.name]}_start" if a.name in crossed else self.axes[a.name] for a in self.outer]

    def _interior(self) -> dict[str, tuple[int, int]]:
        """Return the ranges of kept axes in which no load needs its guard; empty: no use for them."""
        choices = self.choices
        if not (choices.interior_split and choices.is_column and choices.parallel != "inner"):
            return {}
        if choices.parallel == "kept" and not self.outer:
            return {}  # only outer loops are shared among threads then
        found = inside_ranges(choices.region)
        lane = choices.lane_axis or ""
        if any(low > high for low, high in found.values()):
            return {}
        if lane in found and found[lane][1] - found[lane][0] + 1 < LANES_PER_VECTOR:
            return {}
        return found

    # -- loops over blocks and threads -------------------------------------------------------------

    def _entry(self, body: str, interior: dict[str, tuple[int, int]]) -> None:
        head = wrapped(f'extern "C" void {self.region.name}(', self._parameters, ")")
        with self.out.block(head):
            crossed = self._crossed()
            steps = [crossed.get(axis.name, 1) for axis in self.outer]
            places = zip(self._points(), self.outer, steps, strict=True)
            loops = [self._loop(point, axis.size, step) for point, axis, step in places]
            if interior:
                self._parallel(len(loops))
                self._nested(loops, self._split_lines(body, interior))
            elif self.choices.is_column:
                self._tiles(body, loops)
            else:
                self._parallel(len(loops))
                self._nested(loops, [f"{body}({self._call_arguments()});"])

    def _split_lines(self, body: str, interior: dict[str, tuple[int, int]]) -> list[str]:
        """Return the statements at one outer point: guarded blocks at the borders, free ones inside."""
        lane = self.choices.lane_axis or ""
        size = self.sizes[lane]
        low, high = interior.get(lane, (0, size - 1))
        inside = self._run(body, 0, low) + self._run(f"{self.region.name}_inside", low, high + 1)
        inside += self._run(body, high + 1, size)
        conditions = []
        for axis, (a, b) in interior.items():
            if axis != lane:
                conditions += [f"{self.axes[axis]} >= {a}"] if a > 0 else []
                conditions += [f"{self.axes[axis]} <= {b}"] if b < self.sizes[axis] - 1 else []
        if not conditions:
            return inside
        border = self._run(body, 0, size)
        lines = [f"if ({' && '.join(conditions)}) {{", *("  " + line for line in inside)]
        return [*lines, "} else {", *("  " + line for line in border), "}"]

    def _run(self, function: str, start: int, stop: int) -> list[str]:
        """Return calls of a block function that cover a range of the lane axis."""
        lanes = self.choices.lanes
        first = f"{self.axes[self.choices.lane_axis or '']}_start"
        if isinstance(start, Extent) or isinstance(stop, Extent):
            return self._run_of_any_length(function, first, start, stop)
        n_whole, rest = divmod(stop - start, lanes)
        lines = []
        if n_whole == 1:
            lines.append(f"{function}<{lanes}>({self._call_arguments()}, {start});")
        elif n_whole:
            head = f"for (int {first} = {start}; {first} < {start + n_whole * lanes}; {first} += {lanes})"
            lines.append(f"{head} {function}<{lanes}>({self._call_arguments()}, {first});")
        if rest:
            lines.append(f"{function}<{rest}>({self._call_arguments()}, {stop - rest});")
        return lines

    def _run_of_any_length(self, function: str, first: str, start: int, stop: int) -> list[str]:
        """As ``_run``, where the number of points is known when it runs."""
        call = f"{function}<{{}}>({self._call_arguments()}, {first});"
        lines = [f"int {first} = {start};"]
        for lanes in self._block_sizes():
            lines.append(f"for (; {first} + {lanes} <= {stop}; {first} += {lanes}) {call.format(lanes)}")
        return ["{", *("  " + line for line in lines), "}"]

    def _block_sizes(self) -> list[int]:
        """Return the lanes of the blocks that together cover any number of points."""
        return sorted({self.choices.lanes, min(self.choices.lanes, LANES_PER_VECTOR), 1}, reverse=True)

    def _tiles(self, body: str, loops: list[str]) -> None:
        lane = self.choices.lane_axis or ""
        size, lanes = self.sizes[lane], self.choices.lanes
        if isinstance(size, Extent):
            self._tiles_of_any_number(body, loops, size)
            return
        if len(loops) and size <= lanes:
            self._parallel(len(loops))
            self._nested(loops, self._run(body, 0, size))
            return
        start = f"{self.axes[lane]}_start"
        call = f"{body}<{{}}>({self._call_arguments()}, {start});"
        lines = [call.format(lanes)]
        if size % lanes:
            lines = [f"if ({start} + {lanes} <= {size})", "  " + call.format(lanes)]
            lines += ["else", "  " + call.format(size % lanes)]
        loops = [*loops, self._loop(start, size, lanes)]
        self._parallel(len(loops))
        self._nested(loops, lines)

    def _tiles_of_any_number(self, body: str, loops: list[str], size: Extent) -> None:
        """As ``_tiles``, where the number of points is known when it runs; small blocks cover the rest."""
        start, lanes = f"{self.axes[self.choices.lane_axis or '']}_start", self.choices.lanes
        at = f"{start}_rest"
        lines = [f"if ({start} + {lanes} <= {size}) {{"]
        lines += [
            f"  {body}<{lanes}>({self._call_arguments()}, {start});",
            "  continue;",
            "}",
            f"int {at} = {start};",
        ]
        for count in self._block_sizes()[1:]:
            call = f"{body}<{count}>({self._call_arguments()}, {at});"
            lines.append(f"for (; {at} + {count} <= {size}; {at} += {count}) {call}")
        loops = [*loops, self._loop(start, size, lanes)]
        self._parallel(len(loops))
        self._nested(loops, lines)

    def _parallel(self, n_loops: int) -> None:
        if self.choices.parallel != "kept" or n_loops == 0:
            return
        collapse = f" collapse({n_loops})" if n_loops > 1 else ""
        threads = f" num_threads({self.choices.threads})" if self.choices.threads else ""
        kind = f"dynamic, {self.choices.grain}" if self.choices.grain else "static"
        self.out.line(f"#pragma omp parallel for{collapse} schedule({kind}){threads}")

    def _nested(self, loops: list[str], lines: list[str]) -> None:
        """Write the loops around the lines, with braces only where several lines are inside."""
        if not loops:
            for line in lines:
                self.out.line(line)
        elif len(loops) == 1 and len(lines) == 1:
            self.out.line(f"{loops[0]} {lines[0]}")
        else:
            head = loops[0]
            if len(loops) == 1:
                with self.out.block(head):
                    self._nested([], lines)
                return
            self.out.line(head)
            with self.out.indented():
                self._nested(loops[1:], lines)

    def _call_arguments(self) -> str:
        if self.given is not None:
            return ", ".join(self.given)
        return ", ".join([*(a.name for a in self.arguments), *self.extents, *self._points()])

    @staticmethod
    def _loop(variable: str, size: int, step: int = 1) -> str:
        advance = f"++{variable}" if step == 1 else f"{variable} += {step}"
        return f"for (int {variable} = 0; {variable} < {size}; {advance})"


def inside_ranges(region: Region) -> dict[str, tuple[int, int]]:
    """Return, per kept axis that guards mention, the values for which every guard on it holds.

    Other axes may take any value. Axes whose guards never hold for all of those get an empty range.
    """
    dag = Dag(region)
    _ = dag.groups
    sizes = axis_sizes(region)
    full = {axis: (0, size - 1) for axis, size in sizes.items()}
    found: dict[str, tuple[int, int]] = {}
    for node in dag.nodes:
        if node.kind != "bound":
            continue
        guarded = [a.name for a in region.kept if coefficient(node.index, a.name)]
        if len(guarded) != 1:
            if guarded:
                return {}
            continue
        axis = guarded[0]
        step = coefficient(node.index, axis)
        low, high = extent(node.index, full | {axis: (0, 0)})
        a, b = (-low, node.size - 1 - high) if step > 0 else (high - node.size + 1, low)
        first, last = -(-a // abs(step)), b // abs(step)
        before = found.get(axis, full[axis])
        found[axis] = (max(before[0], first, 0), min(before[1], last, sizes[axis] - 1))
    return {axis: range_ for axis, range_ in found.items() if range_ != full[axis]}
