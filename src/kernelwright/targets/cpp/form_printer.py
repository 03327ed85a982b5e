"""What printers of regions that have a form share: names, vectors, functions, threads.

A form says what a region is besides loops: a product, sums over windows, attention, a recurrent layer.
Vectors are GCC's vector extensions, which clang has too. Sizes are literals: a tail has its own function.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from kernelwright.ir.arguments import Argument, signature
from kernelwright.ir.dag import Action, Dag
from kernelwright.ir.program import Axis, Region
from kernelwright.ir.text import Names, bare, wrapped
from kernelwright.ir.writer import Writer
from kernelwright.targets.cpp.choices import Choices
from kernelwright.targets.cpp.text import CppRenderer
from kernelwright.targets.cpp.values import ValueWriter

LINE_FLOATS = 16
"""Floats of a line of the cache."""


class FormPrinter:
    """Writes the functions of one region; a class for each kind of form says which.

    ``own`` are the names that the printed functions use for themselves. Each function is given the positions
    along the axes ``outer``, unless a call of ``_function`` names others.
    """

    def __init__(
        self,
        region: Region,
        choices: Choices,
        dag: Dag,
        declare: Callable[[Argument], str],
        *,
        own: Sequence[str],
        outer: Sequence[Axis] = (),
    ) -> None:
        self.region, self.choices, self.dag, self.outer = region, choices, dag, outer
        self.name = region.name
        self.names = Names([region.name, *own])
        self.arguments = tuple(replace(a, name=self.names.new(a.name)) for a in signature(region))
        self.parameters = [declare(a) for a in self.arguments]
        self.inner_parameters = self.parameters
        """Of the functions inside."""
        self.pointers = {a.buffer: a.name for a in self.arguments}
        self.axes: dict[str, str] = {}
        """Axis -> its variable; a kind of form says which there are."""
        self.out = Writer()

    def _opening(self, told: str, lanes: int) -> None:
        """Write what is said of the region, and the types of its vectors."""
        if self.region.comment:
            self.out.line(f"// {self.region.comment}")
        self.out.line(f"// {told}")
        self.out.line(f"typedef float {self.name}_vector __attribute__((vector_size({4 * lanes})));")
        loose = f"vector_size({4 * lanes}), aligned(4), may_alias"
        self.out.line(f"typedef float {self.name}_loose __attribute__(({loose}));")
        self.out.line("")

    # -- functions and calls ---------------------------------------------------------------------------

    @contextmanager
    def _function(
        self, suffix: str, own: Sequence[str], *, axes: Sequence[Axis] | None = None, inline: bool = True
    ) -> Iterator[None]:
        """Write a function of the region's arguments, positions and its own, and an empty line after it."""
        kind = "static inline void" if inline else "static void"
        positions = [f"int {self.axes[a.name]}" for a in (self.outer if axes is None else axes)]
        parameters = [*self.inner_parameters, *positions, *own]
        with self.out.block(wrapped(f"{kind} {self.name}_{suffix}(", parameters, ")")):
            yield
        self.out.line("")

    @contextmanager
    def _tile_function(self, suffix: str, own: Sequence[str]) -> Iterator[None]:
        """Write a function of its own arguments alone, and an empty line after it."""
        with self.out.block(wrapped(f"static inline void {self.name}_{suffix}(", own, ")")):
            yield
        self.out.line("")

    def _handed_on(self, axes: Sequence[Axis] | None = None) -> list[str]:
        positions = [self.axes[a.name] for a in (self.outer if axes is None else axes)]
        return [a.name for a in self.arguments] + positions

    def _given(self, axes: Sequence[Axis] | None = None) -> str:
        """Return the arguments that a function is handed on, with a comma at the end."""
        return "".join(f"{name}, " for name in self._handed_on(axes))

    def _call(self, suffix: str, own: str, indent: str = "") -> None:
        """Write a call that hands the region's arguments on."""
        given = [*self._handed_on(), *own.split(", ")]
        self.out.line(wrapped(f"{indent}{self.name}_{suffix}(", given, ");"))

    # -- threads ---------------------------------------------------------------------------------------

    @contextmanager
    def _entry_function(self) -> Iterator[None]:
        with self.out.block(wrapped(f'extern "C" void {self.name}(', self.parameters, ")")):
            yield

    @contextmanager
    def _team(self, is_shared: bool) -> Iterator[bool]:
        """Write a block that all threads run where work is shared; give whether it is."""
        is_parallel = is_shared and self.choices.threads != 1
        if is_parallel:
            threads = f" num_threads({self.choices.threads})" if self.choices.threads else ""
            self.out.line(f"#pragma omp parallel{threads}")
        with self.out.block(""):
            yield is_parallel

    def _loops(self, loops: Sequence[tuple[str, int, int]], *, is_parallel: bool, grain: int = 0) -> str:
        """Write the heads of loops over (variable, end, step), shared among threads; return the indentation.

        ``grain``: points that a thread takes at a time where the choices leave it open; 0: an equal share.
        """
        if is_parallel:
            taken = self.choices.grain or grain
            kind = f"dynamic, {taken}" if taken else "static"
            self.out.line(f"#pragma omp for collapse({len(loops)}) schedule({kind})")
        for depth, loop in enumerate(loops):
            self.out.line("  " * depth + loop_over(*loop))
        return "  " * len(loops)

    def _memory_parts(self, parts: Mapping[str, int]) -> None:
        """Declare where the parts of a thread's own memory are; sizes in floats."""
        used = 0
        for name, size in parts.items():
            self.out.line(f"float* const {name} = memory{f' + {used}' if used else ''};")
            used += size

    # -- values ----------------------------------------------------------------------------------------

    def _each_sum(self, statement: str, rows: tuple[str, int], vectors: tuple[str, int]) -> None:
        """Write a statement for vector ``v`` of row ``i`` of a tile; each: how many, how many unrolled."""
        self.out.line(f"#pragma GCC unroll {rows[1]}")
        self.out.line(f"for (int i = 0; i < {rows[0]}; ++i)")
        self.out.line(f"#pragma GCC unroll {vectors[1]}")
        self.out.line(f"  for (int v = 0; v < {vectors[0]}; ++v) {statement}")

    def _store(self, actions: Sequence[Action], renderer: CppRenderer) -> None:
        """Write the stores of an epilogue whose values are bound."""
        for action in actions:
            self.out.line(f"{self._place_of(action, renderer)} = {bare(renderer.text(action.node))};")

    def _place_of(self, action: Action, renderer: CppRenderer) -> str:
        assert action.store is not None
        return f"{self.pointers[action.store.buffer]}[{renderer.index(action.store.index)}]"

    def _renderer(self, dag: Dag | None = None) -> CppRenderer:
        dag = self.dag if dag is None else dag
        ranges = {a.name: (0, a.size - 1) for a in (*dag.region.kept, *dag.region.inner)}
        renderer = CppRenderer(dag, self.pointers, self.axes, ranges)
        renderer.exp_degree = self.choices.exp_degree
        return renderer

    def _values(self, renderer: CppRenderer, names: Names | None = None) -> ValueWriter:
        return ValueWriter(self.choices, renderer.dag, renderer, names or self.names.copy(), self.out)


def loop_over(variable: str, size: int, step: int = 1) -> str:
    """Return the head of a loop from 0."""
    advance = f"++{variable}" if step == 1 else f"{variable} += {step}"
    return f"for (int {variable} = 0; {variable} < {size}; {advance})"


def in_lines(parts: Mapping[str, int]) -> dict[str, int]:
    """Return sizes in floats, rounded up to whole lines of the cache."""
    return {name: math.ceil(size / LINE_FLOATS) * LINE_FLOATS for name, size in parts.items()}
