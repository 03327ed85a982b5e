"""One region as one C function: signature, threads, tiles; the nests inside are ``nest.py``'s."""

from dataclasses import dataclass

from kernelwright.kernels.cpp.choices import Choices, resolve
from kernelwright.kernels.cpp.dag import Dag
from kernelwright.kernels.cpp.nest import NestWriter
from kernelwright.kernels.cpp.normalise import axis_sizes
from kernelwright.kernels.cpp.prelude import prelude_for
from kernelwright.kernels.cpp.text import CTYPES, Names, Renderer
from kernelwright.kernels.cpp.writer import Writer
from kernelwright.kernels.ir import DType, Region


@dataclass(frozen=True)
class Argument:
    """One pointer argument of a generated function."""

    buffer: str
    name: str
    dtype: DType
    is_written: bool

    @property
    def declaration(self) -> str:
        """C++ declaration."""
        const = "" if self.is_written else "const "
        return f"{const}{CTYPES[self.dtype]}* __restrict {self.name}"


def signature(region: Region) -> tuple[Argument, ...]:
    """Return the arguments in order: buffers that are read, as first met, then those only written."""
    dag = Dag(region)
    actions = [action for group in dag.groups for action in group.actions]
    written = {a.store.buffer: a.stage.dtype for a in actions if a.store is not None}
    used = dag.needed([a.node for a in actions])
    loads = [dag.nodes[n] for n in sorted(used) if dag.nodes[n].kind == "load"]
    dtypes: dict[str, DType] = {}
    for node in loads:
        dtypes.setdefault(node.name, node.dtype)
    for buffer, dtype in written.items():
        dtypes.setdefault(buffer, dtype)
    names = Names([region.name])
    return tuple(Argument(b, names.new(b), d, b in written) for b, d in dtypes.items())


def print_source(regions: tuple[Region, ...]) -> str:
    """Return a complete C++ file with one function per region, and the prelude they need."""
    functions = "\n".join(print_region(region) for region in regions)
    return prelude_for(functions) + "\n" + functions


def print_region(region: Region) -> str:
    """Return the C++ text of one region: ``extern "C" void NAME(inputs…, outputs…)``."""
    return _RegionPrinter(region).text()


@dataclass(frozen=True)
class _Tile:
    """A run of equal blocks along the lane axis."""

    start: int
    stop: int
    lanes: int
    function: str


class _RegionPrinter:
    def __init__(self, region: Region) -> None:
        self.region = region
        self.choices: Choices = resolve(region)
        self.sizes = axis_sizes(self.choices.region)
        self.arguments = signature(region)
        taken = [a.name for a in self.arguments] + [region.name, "l", "part", "begin", "end"]
        self.names = Names(taken)
        order = (*self.choices.region.kept, *self.choices.region.inner)
        self.axes = {axis.name: self.names.new(axis.name) for axis in order}
        self.outer = [a for a in self.choices.region.kept if a.name != self._kept_lane]
        self.out = Writer()

    @property
    def _kept_lane(self) -> str | None:
        return self.choices.lane_axis if self.choices.is_column else None

    def text(self) -> str:
        if self.region.comment:
            self.out.line(f"// {self.region.comment}")
        body = f"{self.region.name}_block" if self.choices.is_column else f"{self.region.name}_point"
        self._body_function(body, {})
        self.out.line("")
        self._entry(body)
        return self.out.text()

    # -- the work at one kept point or block -------------------------------------------------------

    def _body_function(self, name: str, ranges: dict[str, tuple[int, int]]) -> None:
        parameters = [a.declaration for a in self.arguments]
        parameters += [f"int {self.axes[a.name]}" for a in self.outer]
        start = ""
        if self.choices.is_column:
            start = f"{self.axes[self.choices.lane_axis or '']}_start"
            parameters.append(f"int {start}")
            self.out.line("template <int LANES>")
        full = {axis: (0, size - 1) for axis, size in self.sizes.items()} | ranges
        with self.out.block(f"static inline void {name}({', '.join(parameters)})"):
            self._body(start, full)

    def _body(self, start: str, ranges: dict[str, tuple[int, int]]) -> None:
        dag = Dag(self.choices.region, self.choices.lane_axis)
        _ = dag.groups
        pointers = {a.buffer: a.name for a in self.arguments}
        renderer = Renderer(dag, pointers, self.axes, ranges)
        names = Names([*pointers.values(), *self.axes.values(), start, "l", "part", "begin", "end"])
        nest = NestWriter(self.choices, dag, renderer, names, self.out)
        nest.lane_start = start
        nest.write()

    # -- loops over blocks and threads -------------------------------------------------------------

    def _entry(self, body: str) -> None:
        parameters = ", ".join(a.declaration for a in self.arguments)
        with self.out.block(f'extern "C" void {self.region.name}({parameters})'):
            loops = [self._loop(self.axes[a.name], a.size) for a in self.outer]
            if self.choices.is_column:
                self._tiles(body, loops)
            else:
                self._parallel(len(loops))
                self._nested(loops, [f"{body}({self._call_arguments()});"])

    def _tiles(self, body: str, loops: list[str]) -> None:
        lane = self.choices.lane_axis or ""
        size, lanes = self.sizes[lane], self.choices.lanes
        start = f"{self.axes[lane]}_start"
        rest = size % lanes
        place = "0" if size == lanes else start
        loops = loops if size == lanes else [*loops, self._loop(start, size, lanes)]
        call = f"{body}<{{}}>({self._call_arguments()}, {place});"
        if not rest:
            lines = [call.format(lanes)]
        else:
            lines = [f"if ({start} + {lanes} <= {size})", "  " + call.format(lanes)]
            lines += ["else", "  " + call.format(rest)]
        self._parallel(len(loops))
        self._nested(loops, lines)

    def _parallel(self, n_loops: int) -> None:
        if self.choices.parallel != "kept" or n_loops == 0:
            return
        collapse = f" collapse({n_loops})" if n_loops > 1 else ""
        threads = f" num_threads({self.choices.threads})" if self.choices.threads else ""
        self.out.line(f"#pragma omp parallel for{collapse} schedule(static){threads}")

    def _nested(self, loops: list[str], lines: list[str]) -> None:
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
        values = [a.name for a in self.arguments] + [self.axes[a.name] for a in self.outer]
        return ", ".join(values)

    @staticmethod
    def _loop(variable: str, size: int, step: int = 1) -> str:
        advance = f"++{variable}" if step == 1 else f"{variable} += {step}"
        return f"for (int {variable} = 0; {variable} < {size}; {advance})"
